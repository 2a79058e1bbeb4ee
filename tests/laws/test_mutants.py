"""Each law catches the fault that it is there for: a mutant a fault, shown to fail."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from laws.families import COUPLINGS, FAMILIES, PROMPTS, SMALL, TABLE, TARGET, JacobiSession, Toy, V, run, sampled_tree
from laws.test_decode import FREE, joined, joint_law_pvalue
from paceline import core, tree
from paceline import law as laws
from paceline.core import Draft, Rule, Verdict
from paceline.couplings import Gumbel, Maximal, Mixture
from paceline.dice import DRAFTER, RACE, TEST, VERIFIER, Dice
from paceline.law import Law
from paceline.sampling import Sampling
from paceline.targets.table import TableSession, TableTarget

N = 10_000
CAUGHT = 1e-6
pytestmark = pytest.mark.law


def chain(rule: Rule, verdict: Verdict, q_of: Callable[[Law], Law] = lambda q: q) -> Draft:
    """Three tokens of the small table, one after the other."""
    x, tokens, given = verdict.root, list[Tensor](), list[Law]()
    for i in range(3):
        given.append(rule.law(SMALL[x]))
        x = rule.coupling.propose(given[-1], 1, verdict.dice.ahead(i))[:, 0]
        tokens.append(x)
    told = [q_of(q) for q in given]
    return Draft.chain(torch.stack(tokens, 1), laws.stack([*told, told[-1]]))


def pvalue(drafter: Any, coupling: Any, sampling: Sampling = FREE, n: int = N) -> float:
    return joint_law_pvalue(drafter, coupling, sampling, n)


def test_the_sound_drafter_passes_where_its_mutants_fail() -> None:
    for coupling in COUPLINGS.values():
        assert pvalue(Toy(chain), coupling) > 1e-4
        assert pvalue(Toy(sampled_tree), coupling) > 1e-4


@dataclass(frozen=True)
class NotSubtracted(Maximal):
    """B2: a refused guess is replaced by a draw from p, not from what q left of it."""

    def outcome_law(self, p: Law, x: Tensor, q: Law | None) -> Mixture:
        return replace(super().outcome_law(p, x, q), rest=p)


def test_residual_not_subtracted() -> None:
    assert pvalue(Toy(chain), NotSubtracted()) < CAUGHT


def test_residual_not_subtracted_is_seen_by_enumeration() -> None:
    p, q = torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]], dtype=torch.float64)
    total = sum(
        q[x] * NotSubtracted().outcome_law(laws.Dense(p), torch.tensor([x]), laws.Dense(q)).dense(3) for x in range(3)
    )
    assert (total - p).abs().max() > 0.05


class StaleSession(JacobiSession):
    """B1: guesses that survive keep the law they were first drawn from."""

    def propose(self, verdict: Verdict) -> Draft:
        before, old = self.x, self.q
        draft = super().propose(verdict)
        if before is not None and old is not None and self.q is not None and self.x is not None:
            src = torch.arange(self.window) + verdict.length[:, None]
            held, src = src < self.window, src.clamp(max=self.window - 1)
            same = held & (self.x == before.gather(1, src))
            wide = old.gather(1, src[..., None].expand(-1, -1, V))
            self.q = torch.where(same[..., None], wide, self.q)
            return Draft.chain(self.x, laws.Dense(torch.cat([self.q, self.q[:, -1:]], 1)))
        return draft


class Stale:
    needs = core.Needs()

    def open(self, session: Any, context: Any, rule: Rule, *, clock: Any = None) -> StaleSession:
        return StaleSession(rule, couple=True)


def test_stale_q() -> None:
    assert pvalue(Stale(), Maximal()) < CAUGHT


@dataclass(frozen=True)
class SharedNoise(Maximal):
    """Verifier and drafter roll the same dice: acceptance foresees the draft (B3, B4)."""

    def propose(self, q: Law, width: int, dice: Dice) -> Tensor:
        return q.race(dice, width)

    def settle(self, p: Law, x: Tensor, q: Law | None, dice: Dice) -> Tensor:
        mixture = self.outcome_law(p, x, q)
        fallen_back = mixture.rest.race(dice, 1)[..., 0]
        if not mixture.chances:
            return fallen_back
        u = dice.uniform(RACE, x[..., :1].clamp(min=0), shared=True)[..., 0]  # the winner's own number
        return torch.where((u < mixture.chances[0]) & (x[..., 0] >= 0), x[..., 0], fallen_back)


def test_noise_shared_between_drafter_and_verifier() -> None:
    assert pvalue(Toy(chain), SharedNoise()) < CAUGHT


@dataclass(frozen=True)
class ReusedUniform(Maximal):
    """B7: one acceptance uniform a position, the same on every turn, in a window whose guesses live on."""

    def settle(self, p: Law, x: Tensor, q: Law | None, dice: Dice) -> Tensor:
        mixture = self.outcome_law(p, x, q)
        u = dice.uniform(TEST, torch.arange(max(len(mixture.chances), 1)), shared=True)
        y = torch.full(x.shape[:-1], -1)
        for k, chance in enumerate(mixture.chances):
            y = torch.where((y < 0) & (u[..., k] < chance), x[..., k], y)
        return torch.where(y < 0, mixture.rest.draw(dice, 2), y)


class WindowOfFour:
    needs = core.Needs()

    def open(self, session: Any, context: Any, rule: Rule, *, clock: Any = None) -> JacobiSession:
        return JacobiSession(rule, couple=True)


@pytest.mark.slow
def test_acceptance_uniform_reused_across_turns() -> None:
    assert joint_law_pvalue(WindowOfFour(), ReusedUniform(), FREE, 150_000) < CAUGHT
    assert joint_law_pvalue(WindowOfFour(), Maximal(), FREE, 150_000) > 1e-4


def test_raw_q_against_processed_p() -> None:
    """B10: guesses are drawn at the temperature, but the law told to the verifier is the raw one."""
    cold = Sampling(temperature=0.5)

    def raw(rule: Rule, verdict: Verdict) -> Draft:
        return chain(
            rule, verdict, lambda q: laws.Dense((q.dense(V) ** 0.5) / (q.dense(V) ** 0.5).sum(-1, keepdim=True))
        )

    assert pvalue(Toy(raw), Maximal(), cold) < CAUGHT
    assert pvalue(Toy(chain), Maximal(), cold) > 1e-4


class OffByOne(TableSession):
    """Commits one guess fewer than was accepted."""

    def commit(self, path: Tensor, length: Tensor) -> None:
        super().commit(path, torch.where(length > 1, length - 1, length))
        self.length = self.length + (length > 1)


@dataclass(frozen=True)
class OffByOneTarget(TableTarget):
    def open(self, prompts: Any, needs: Any = core.Needs(), *, clock: Any = None) -> Any:
        session, context, seen = super().open(prompts, needs)
        session.__class__ = OffByOne
        return session, context, seen


def test_off_by_one_commit() -> None:
    seed = torch.arange(3) + 7
    plain = run(FAMILIES["none"], Gumbel(), FREE, PROMPTS, seed, 60)
    assert run(Toy(chain), Gumbel(), FREE, PROMPTS, seed, 60, OffByOneTarget(TABLE)) != plain
    assert run(Toy(chain), Gumbel(), FREE, PROMPTS, seed, 60, TARGET) == plain


def reordered(rule: Rule, verdict: Verdict) -> Draft:
    """Drawn children, the likelier one under q first."""
    draft = sampled_tree(rule, verdict)
    assert draft.q is not None
    first = draft.tokens[:, :2]
    order = draft.q.dense(V)[:, 0].gather(1, first).argsort(dim=1, descending=True, stable=True)
    return _with_children(rule, verdict, first.gather(1, order))


def merged(rule: Rule, verdict: Verdict) -> Draft:
    """Drawn children, the second dropped where it equals the first."""
    draft = sampled_tree(rule, verdict)
    first = draft.tokens[:, :2].clone()
    first[first[:, 1] == first[:, 0], 1] = -1
    return _with_children(rule, verdict, first)


def pruned(rule: Rule, verdict: Verdict) -> Draft:
    """Three drawn children, of which the two likeliest under q stay."""
    q = rule.law(SMALL[verdict.root])
    three = rule.coupling.propose(q, 3, verdict.dice)
    order = q.dense(V).gather(1, three).argsort(dim=1, descending=True, stable=True)[:, :2]
    return _with_children(rule, verdict, three.gather(1, order))


def _with_children(rule: Rule, verdict: Verdict, first: Tensor) -> Draft:
    q = rule.law(SMALL[verdict.root])
    return Draft(first, tree.of(torch.zeros(1, 2, dtype=torch.long)), laws.stack([q, q, q]))


@pytest.mark.parametrize(
    ("mutant", "n"), [(reordered, N), (pruned, N), pytest.param(merged, 80_000, marks=pytest.mark.slow)],
    ids=["reordered", "pruned", "merged"],
)  # fmt: skip
def test_children_reordered_merged_or_pruned_by_q(mutant: Callable[[Rule, Verdict], Draft], n: int) -> None:
    assert pvalue(Toy(mutant), Maximal(), n=n) < CAUGHT


KEPT: dict[str, tuple[int, Callable[[tuple[int, ...], Tensor], list[int]]]] = {  # children drawn, and what is told
    "sound": (2, lambda xs, q: list(xs)),
    "reordered": (2, lambda xs, q: sorted(xs, key=lambda x: -float(q[x]))),
    "merged": (2, lambda xs, q: [xs[0], -1 if xs[0] == xs[1] else xs[1]]),
    "pruned": (3, lambda xs, q: sorted(xs, key=lambda x: -float(q[x]))[:2]),
}


@pytest.mark.parametrize("name", KEPT)
def test_children_reordered_merged_or_pruned_by_q_are_seen_by_enumeration(name: str) -> None:
    """Exact total variation of one slot, so that the chi-square above is no matter of luck."""
    p, q = torch.randn(2, V, generator=torch.Generator().manual_seed(5), dtype=torch.float64).mul(1.3).softmax(-1)
    drawn, kept = KEPT[name]
    total = torch.zeros(V, dtype=torch.float64)
    for xs in itertools.product(range(V), repeat=drawn):
        outcome = Maximal().outcome_law(laws.Dense(p), torch.tensor(kept(xs, q)), laws.Dense(q))
        total += torch.stack([q[x] for x in xs]).prod() * outcome.dense(V)
    tv = float(0.5 * (total - p).abs().sum())
    assert tv < 1e-15 if name == "sound" else tv > 0.01


class Forgetful(core.Decoding):
    """Rows that join take the first row's turn, so that they roll dice that were rolled before or will be again."""

    def join(self, other: Any) -> None:
        super().join(other)
        assert self._verdict is not None
        dice = self._verdict.dice
        self._verdict = replace(self._verdict, dice=replace(dice, turn=dice.turn[:1].expand(len(dice.turn))))


class Crossed(core.Decoding):
    """Rows that join stand first for the target, last for all others."""

    def join(self, other: Any) -> None:
        super().join(other)
        self.session.keep(torch.arange(len(self.session.length)).roll(1))


class Displaced(core.Decoding):
    """Rows that join are told the position of the row that was there before."""

    def join(self, other: Any) -> None:
        super().join(other)
        assert self._verdict is not None
        dice = self._verdict.dice
        self._verdict = replace(self._verdict, dice=replace(dice, position=dice.position[:1].expand(len(dice.turn))))


@pytest.mark.parametrize(
    ("mutant", "coupling"), [(Forgetful, "maximal"), (Crossed, "gumbel"), (Crossed, "maximal"), (Displaced, "gumbel")]
)
def test_rows_that_join_wrongly_are_seen(mutant: type[core.Decoding], coupling: str) -> None:
    seed = torch.tensor([5, 6, 7])
    sound, wrong = (joined(Toy(chain), COUPLINGS[coupling], seed, 30, kind) for kind in (core.Decoding, mutant))
    n = 20
    assert [text[:n] for text in wrong.values()] != [text[:n] for text in sound.values()]


def test_actors_differ() -> None:
    """The dice of drafter and verifier are not the same dice."""
    at = Dice(torch.arange(1000), torch.zeros(1000, dtype=torch.long), torch.zeros(1000, dtype=torch.long))
    ids = torch.arange(3)
    mine = replace(at, actor=VERIFIER).uniform(TEST, ids)
    theirs = replace(at, actor=DRAFTER).uniform(TEST, ids)
    assert abs(torch.corrcoef(torch.stack([mine.flatten(), theirs.flatten()]))[0, 1]) < 0.1
