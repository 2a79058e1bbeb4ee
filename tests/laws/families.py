"""Drafter families of the law tests: the product's own through its table, and a toy for each family to come."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from paceline import law as laws
from paceline import tree
from paceline.core import Draft, Needs, Prompt, Rule, Verdict, decode
from paceline.couplings import Gumbel, Maximal
from paceline.drafters import METHODS, method
from paceline.law import Law
from paceline.sampling import Sampling
from paceline.targets.table import TableTarget

V = 4
_noise = torch.Generator().manual_seed(0)
TABLE = torch.randn(V, V, V, generator=_noise, dtype=torch.float64) * 1.3
SMALL = TABLE.mean(0) + 0.7 * torch.randn(V, V, generator=_noise, dtype=torch.float64)
TARGET = TableTarget(TABLE)
OTHER = TableTarget(TABLE * 0.6 + 0.8 * torch.randn(V, V, V, generator=_noise, dtype=torch.float64))
PROMPTS = [Prompt(torch.tensor(ids)) for ids in ([0, 1], [2, 3, 1, 1, 0], [3, 3, 3])]
COUPLINGS = {"gumbel": Gumbel(), "maximal": Maximal()}
SIX = torch.tensor([[0, 0, 1, 1, 2, 2]])  # two children, two grandchildren each


class Session:
    """A stateless draft session: `guess` does the work."""

    def __init__(self, rule: Rule, guess: Callable[[Rule, Verdict], Draft]) -> None:
        self.rule, self.guess = rule, guess

    def propose(self, verdict: Verdict) -> Draft:
        return self.guess(self.rule, verdict)

    def keep(self, rows: Tensor) -> None:
        return None

    def join(self, other: Session) -> None:
        return None


@dataclass(frozen=True)
class Toy:
    """A drafter without state."""

    guess: Callable[[Rule, Verdict], Draft]
    needs: Needs = Needs()

    def open(self, session: Any, context: Any, rule: Rule, *, clock: Any = None) -> Session:
        return Session(rule, self.guess)


def sampled_tree(rule: Rule, verdict: Verdict, *, q_of: Callable[[Law], Law] = lambda q: q) -> Draft:
    """EAGLE with drawn children: two wide, two deep."""
    q0 = q_of(rule.law(SMALL[verdict.root]))
    first = rule.coupling.propose(q0, 2, verdict.dice)
    given, below = [q0], list[Tensor]()
    for i in range(2):
        given.append(q_of(rule.law(SMALL[first[:, i].clamp(min=0)])))
        below.append(rule.coupling.propose(given[-1], 2, verdict.dice.ahead(1)))
    tokens = torch.cat([first, *below], 1)
    return Draft(tokens, tree.of(SIX), laws.stack([*given, *[q0] * 4]))


def chosen_tree(rule: Rule, verdict: Verdict) -> Draft:
    """Medusa's cartesian product of the best two of two heads: chosen, so q is None."""
    first = SMALL[verdict.root].topk(2, -1).indices
    second = SMALL.flip(0)[verdict.root].topk(2, -1).indices
    return Draft(torch.cat([first, second, second], 1), tree.of(SIX))


def ragged_tree(rule: Rule, verdict: Verdict) -> Draft:
    """One topology a row, with pads: EAGLE-2's dynamic trees."""
    picks = SMALL[verdict.root].topk(3, -1).indices
    tokens = torch.cat([picks, picks[:, :2]], 1)
    tokens[verdict.root == 0, 3:] = -1
    parent = torch.tensor([0, 0, 1, 1, 2]).repeat(len(picks), 1)
    parent[verdict.root % 2 == 1] = torch.tensor([0, 1, 2, 2, 0])
    return Draft(tokens, tree.of(parent))


def block(rule: Rule, verdict: Verdict) -> Draft:
    """DFlash: every position at once, conditioned on target features."""
    assert verdict.features is not None
    last = verdict.features.gather(1, (verdict.length - 1)[:, None, None].expand(-1, 1, V))[:, 0]
    given = [rule.law(SMALL[verdict.root] * (1 + i) + last) for i in range(4)]
    tokens = [rule.coupling.propose(q, 1, verdict.dice.ahead(i))[:, 0] for i, q in enumerate(given)]
    return Draft.chain(torch.stack(tokens, 1), laws.stack([*given, given[-1]]))


class JacobiSession(Session):
    """A window of guesses refreshed with the target's last laws (SJD, and SCD with `couple`): dense laws only."""

    window: ClassVar[int] = 4
    rows: int = 1  # when opened

    def __init__(self, rule: Rule, couple: bool) -> None:
        self.rule, self.couple = rule, couple
        self.x: Tensor | None = None
        self.q: Tensor | None = None

    def propose(self, verdict: Verdict) -> Draft:
        b, w = len(verdict.length), self.window
        flat = torch.full((b, w, V), 1 / V, dtype=torch.float64)
        law, old_x, old_q = flat.clone(), torch.full((b, w), -1), flat.clone()
        if self.x is not None and self.q is not None:
            src = torch.arange(w) + verdict.length[:, None]
            held, src = src < w, src.clamp(max=w - 1)
            wide = src[..., None].expand(-1, -1, V)
            held &= self.x.gather(1, src) >= 0
            law = torch.where(held[..., None], verdict.law.dense(V)[:, :-1].gather(1, wide), flat)
            old_q = torch.where(held[..., None], self.q.gather(1, wide), flat)
            old_x = self.x.gather(1, src).where(held, -1)
        coupling, fresh = self.rule.coupling, list[Tensor]()
        for i in range(w):
            now, was, at = laws.Dense(law[:, i]), laws.Dense(old_q[:, i]), verdict.dice.ahead(i)
            drawn = coupling.propose(now, 1, at)[:, 0]
            if self.couple:
                drawn = torch.where(old_x[:, i] >= 0, coupling.settle(now, old_x[:, i : i + 1], was, at), drawn)
            fresh.append(drawn)
        self.x, self.q = torch.stack(fresh, 1), law
        return Draft.chain(self.x, laws.Dense(torch.cat([law, law[:, -1:]], 1)))

    def keep(self, rows: Tensor) -> None:
        if self.x is not None and self.q is not None:
            self.x, self.q = self.x[rows], self.q[rows]

    def join(self, other: Session) -> None:
        assert isinstance(other, JacobiSession)
        x, q = zip(*(each._window() for each in (self, other)), strict=True)
        self.x, self.q = torch.cat(x), torch.cat(q)

    def _window(self) -> tuple[Tensor, Tensor]:
        """The window, empty (-1) where nothing was guessed yet."""
        if self.x is not None and self.q is not None:
            return self.x, self.q
        return torch.full((self.rows, self.window), -1), torch.full((self.rows, self.window, V), 1 / V).double()


@dataclass(frozen=True)
class Jacobi:
    couple: bool
    needs: Needs = Needs()

    def open(self, session: Any, context: Any, rule: Rule, *, clock: Any = None) -> JacobiSession:
        session = JacobiSession(rule, self.couple)
        session.rows = len(context.prompts)
        return session


FAMILIES: dict[str, Any] = {
    **{name: method(name).tiny(OTHER) for name in METHODS},
    "sampled-tree": Toy(sampled_tree),
    "chosen-tree": Toy(chosen_tree),
    "ragged-tree": Toy(ragged_tree),
    "block": Toy(block, Needs(layers=(1,))),
    "jacobi-sjd": Jacobi(False),
    "jacobi-scd": Jacobi(True),
}


def run(
    drafter: Any, coupling: Any, sampling: Sampling, prompts: list[Prompt], seed: Tensor, n: int, target: Any = TARGET
) -> list[list[int]]:
    """The first n tokens of each row."""
    rows: list[list[int]] = [[] for _ in prompts]
    for verdict in decode(target, drafter, Rule(sampling.law, coupling), prompts, seed):
        for row, tokens, length in zip(rows, verdict.tokens.tolist(), verdict.length.tolist(), strict=True):
            row += tokens[:length]
        if min(map(len, rows)) >= n:
            return [row[:n] for row in rows]
    raise AssertionError("decode ended")
