"""Streams with a full history, their exact joint law, and the law of what a drafter makes of them, by enumeration."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from scipy.stats import chisquare
from torch import Tensor

from paceline.bench.grid import StreamTarget
from paceline.core import Draft, Prompt, Rule, Verdict, decode, settle
from paceline.couplings import Maximal
from paceline.dice import VERIFIER, Dice
from paceline.law import Dense, Law
from paceline.layout import Layout
from paceline.sampling import Sampling

FREE = Sampling(temperature=1)


@dataclass(frozen=True)
class History:
    """p(x_j | x_<j) from random tables over the whole past: nothing is forgotten, so no fault can hide."""

    vocab: int
    size: int
    tables: tuple[Tensor, ...]  # of offset j: logits [V ** j, V]

    @staticmethod
    def random(vocab: int, size: int, seed: int = 7, scale: float = 1.2) -> History:
        noise = torch.Generator().manual_seed(seed)
        tables = [scale * torch.randn(vocab**j, vocab, generator=noise, dtype=torch.float64) for j in range(size)]
        return History(vocab, size, tuple(tables))

    def demanding(self, layout: Layout) -> History:
        """The same stream with the layout's forced tokens: nothing else may stand at their offsets."""
        tables = [table.clone() for table in self.tables]
        for table, token in zip(tables, layout.forced, strict=True):
            if token >= 0:
                table[:] = -torch.inf
                table[:, token] = 0
        return replace(self, tables=tuple(tables))

    @property
    def target(self) -> StreamTarget:
        flat = torch.cat(self.tables)
        begin = torch.tensor([0, *itertools.accumulate(self.vocab**j for j in range(self.size - 1))])

        def logits(text: Tensor, offsets: Tensor) -> Tensor:
            codes = [torch.zeros_like(text[:, 0])]
            for j in range(self.size - 1):
                codes.append(codes[-1] * self.vocab + text[:, j])
            return flat[torch.stack(codes, 1).gather(1, offsets) + begin[offsets]]

        return StreamTarget(logits, self.vocab, self.size)

    def joint(self, sampling: Sampling = FREE) -> Tensor:
        """[V ** N]; the probability of every stream."""
        law = torch.ones(1, dtype=torch.float64)
        for table in self.tables:
            law = (law[:, None] * sampling.law(table).dense(self.vocab)).reshape(-1)
        return law


def pvalue(
    history: History,
    drafter: Any,
    coupling: Any,
    n: int,
    *,
    sampling: Sampling = FREE,
    seed: int = 1000,
    target: StreamTarget | None = None,
) -> float:
    """Chi-square of n streams against the exact joint law, rare ones pooled; 0 if an impossible one occurs."""
    tokens = streams(target or history.target, drafter, coupling, torch.arange(n) + seed, history.size, sampling)
    return fit(history, tokens, sampling)


def fit(history: History, tokens: Tensor, sampling: Sampling = FREE) -> float:
    n, want = len(tokens), history.joint(sampling)
    code = (tokens * history.vocab ** torch.arange(history.size - 1, -1, -1)).sum(1)
    got = torch.bincount(code, minlength=len(want)).double()
    if bool((got[want == 0] > 0).any()):
        return 0.0
    common = want * n >= 5
    seen = torch.cat([got[common], got[~common].sum()[None]])
    hoped = torch.cat([want[common], want[~common].sum()[None]]) * n
    real = hoped > 0
    return float(chisquare(seen[real], hoped[real]).pvalue)


def streams(target: Any, drafter: Any, coupling: Any, seed: Tensor, size: int, sampling: Sampling = FREE) -> Tensor:
    """[B, size]; the first tokens of a stream a seed."""
    text, done = torch.zeros(len(seed), size + 1, dtype=torch.long), torch.zeros_like(seed)
    prompts = [Prompt(torch.zeros(1, dtype=torch.long))] * len(seed)
    for verdict in decode(target, drafter, Rule(sampling.law, coupling), prompts, seed):
        at = done[:, None] + torch.arange(verdict.tokens.shape[1])
        text.scatter_(1, at.where(verdict.tokens >= 0, size).clamp(max=size), verdict.tokens)
        done += verdict.length
        if bool((done >= size).all()):
            return text[:, :size]
    raise AssertionError("decode ended")


@dataclass
class Oracle:
    """A coupling that does not draw: told what comes out, it multiplies the chance of that into each row's weight."""

    inner: Any
    vocab: int
    weight: Tensor = field(default_factory=lambda: torch.ones(1, dtype=torch.float64))  # [R]
    told: Tensor | None = None  # [R, D]; what is drawn next, from the left
    asked: int = 0
    exact: bool = True

    def propose(self, q: Law, width: int, dice: Dice) -> Tensor:
        places = q.shape[1]
        begin, self.asked = self.asked, self.asked + places
        if self.told is None:  # only counting
            return torch.zeros(*q.shape, 1, dtype=torch.long)
        drawn = self.told[:, begin : self.asked]
        self.weight = self.weight * q.dense(self.vocab).gather(2, drawn[..., None])[..., 0].prod(1)
        return drawn[..., None]

    def outcome_law(self, p: Law, x: Tensor, q: Law | None) -> Any:
        return self.inner.outcome_law(p, x, q)

    def settle(self, p: Law, x: Tensor, q: Law | None, dice: Dice) -> Tensor:
        assert self.told is not None
        chance = self.outcome_law(p, x, q).dense(self.vocab).gather(2, self.told[..., None])[..., 0]
        self.weight = self.weight * chance.prod(1)
        return self.told


@dataclass
class Branch:
    """States that settled equally many tokens in every round: rows of one session, each with its weight."""

    session: Any
    guesser: Any
    verdict: Verdict
    text: Tensor  # [R, n]
    weight: Tensor  # [R]

    def keep(self, rows: Tensor) -> Branch:
        session, guesser = _copied(self.session), _copied(self.guesser)
        session.keep(rows)
        guesser.keep(rows)
        return Branch(session, guesser, self.verdict.keep(rows), self.text[rows], self.weight[rows])


def _copied(session: Any) -> Any:
    """A second session in the same state; what keep() replaces is the copy's own, tensors written in place too."""
    twin = object.__new__(type(session))
    for name, value in vars(session).items():
        mutable = isinstance(value, list | dict)
        setattr(twin, name, value.clone() if isinstance(value, Tensor) else value.copy() if mutable else value)
    return twin


def words(vocab: int, length: int) -> Tensor:
    """[V ** length, length]; all of them."""
    return (
        torch.cartesian_prod(*[torch.arange(vocab)] * length).view(-1, length) if length else torch.zeros(1, 0).long()
    )


def enumerated(
    history: History,
    drafter: Any,
    *,
    coupling: Any = None,
    lockstep: bool = False,
    session_of: Callable[[Any], Any] = lambda guesser: guesser,
) -> Tensor:
    """[V ** N]; the exact law of what the drafter, the coupling and `core.settle` emit together.

    Every draw is followed to each of its outcomes. lockstep: after each round the number of settled tokens is cut by
    an independent uniform cap, as a batch that advances by its slowest row would. coupling: `Maximal` if none is given;
    one without shared noise.
    """
    oracle = Oracle(coupling or Maximal(), history.vocab)
    rule = Rule(FREE.law, oracle)
    prompts = [Prompt(torch.zeros(1, dtype=torch.long))] * history.vocab
    session, context, seen = history.target.open(prompts, drafter.needs)
    guesser = session_of(drafter.open(session, context, rule))
    if guesser.refresh is not None:
        guesser.refresh = oracle
    first = torch.arange(history.vocab)[:, None]
    oracle.weight, oracle.told = torch.ones(history.vocab, dtype=torch.float64), first
    seed = torch.zeros(history.vocab, dtype=torch.long)
    verdict = settle(Draft.none(seed), seen, rule, Dice(seed, session.length + 1, seed))
    session.commit(verdict.path, verdict.length)
    total = torch.zeros(history.vocab**history.size, dtype=torch.float64)
    todo = [Branch(session, guesser, verdict, first, oracle.weight)]
    while todo:
        todo += _round(todo.pop(), history, oracle, rule, total, lockstep)
    return total


def _round(branch: Branch, history: History, oracle: Oracle, rule: Rule, total: Tensor, lockstep: bool) -> list[Branch]:
    """Draft, merge equal states, verify; what is complete goes into `total`, the rest comes back."""
    oracle.asked, oracle.told = 0, None
    _copied(branch.guesser).propose(branch.verdict)
    branch, told = _spread(branch, words(history.vocab, oracle.asked))
    oracle.asked, oracle.told, oracle.weight = 0, told, branch.weight
    draft = branch.guesser.propose(branch.verdict)
    branch.weight = oracle.weight
    branch, draft = _merged(branch, draft)
    nodes = draft.tokens.shape[1] + 1
    before = torch.arange(len(branch.weight)).repeat_interleave(history.vocab**nodes)
    branch, told = _spread(branch, words(history.vocab, nodes))
    draft = Draft(draft.tokens[before], draft.tree, None if draft.q is None else draft.q[before])
    oracle.told, oracle.weight = told, branch.weight
    seen = branch.session.forward(branch.verdict.root, draft)
    verdict = settle(draft, seen, rule, replace(branch.verdict.dice, actor=VERIFIER))
    caps = range(1, nodes + 1) if lockstep else [nodes]
    found = list[Branch]()
    for cap in caps:
        cut = _cut(verdict, cap)
        for length in cut.length.unique().tolist():
            rows = ((cut.length == length) & (oracle.weight > 0)).nonzero()[:, 0]
            if len(rows):
                now = replace(branch, verdict=cut, weight=oracle.weight / len(caps)).keep(rows)
                now.session.commit(now.verdict.path, now.verdict.length)
                now.text = torch.cat([now.text, now.verdict.tokens[:, :length]], 1)
                found.append(now)
    for done in [now for now in found if now.text.shape[1] >= history.size]:
        code = (done.text * history.vocab ** torch.arange(history.size - 1, -1, -1)).sum(1)
        total.scatter_add_(0, code, done.weight)
    return [now for now in found if now.text.shape[1] < history.size]


def _spread(branch: Branch, choices: Tensor) -> tuple[Branch, Tensor]:
    """Every row with every choice: R * C rows, and their choices."""
    rows = torch.arange(len(branch.weight)).repeat_interleave(len(choices))
    return branch.keep(rows), choices.repeat(len(branch.weight), 1)


def _merged(branch: Branch, draft: Draft) -> tuple[Branch, Draft]:
    """States that are equal from here on become one, with the sum of their weights; impossible ones are dropped."""
    possible = (branch.weight > 0).nonzero()[:, 0]
    branch = branch.keep(possible)
    q = None if draft.q is None else draft.q[possible]
    told = torch.zeros(len(possible), 0, dtype=torch.float64)
    if q is not None:
        assert isinstance(q, Dense)
        told = q.probs[:, :-1].flatten(1)
    state = torch.cat([branch.text.double(), draft.tokens[possible].double(), told], 1)
    _, where = state.unique(dim=0, return_inverse=True)
    weight = torch.zeros(int(where.max()) + 1, dtype=torch.float64).scatter_add_(0, where, branch.weight)
    rows = torch.zeros(len(weight), dtype=torch.long).scatter_(0, where, torch.arange(len(where)))
    branch = branch.keep(rows)
    branch.weight = weight
    return branch, Draft(draft.tokens[possible][rows], draft.tree, None if q is None else q[rows])


def _cut(verdict: Verdict, cap: int) -> Verdict:
    """The verdict with at most `cap` tokens settled."""
    length = verdict.length.clamp(max=cap)
    column = torch.arange(min(cap, verdict.path.shape[1]))
    path = verdict.path[:, : len(column)].where(column < length[:, None], -1)
    tokens = verdict.tokens[:, : len(column)].where(column < length[:, None], -1)
    position = verdict.dice.position - verdict.length + length
    return replace(verdict, path=path, tokens=tokens, length=length, dice=replace(verdict.dice, position=position))


def picture(history: History, width: int = 2, frames: int = 1) -> Layout:
    """The layout of its stream, `width` codes a row."""
    return Layout.raster(width, history.size // width // frames, frames, codes=(0, history.vocab))
