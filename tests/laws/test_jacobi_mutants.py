"""Every known way to bias Jacobi decoding (B1-B9, B13 of the research notes, and twins), each shown to be caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from laws.streams import History, enumerated, fit, picture, pvalue, streams
from laws.test_jacobi import EXACT, error, window
from laws.test_mutants import NotSubtracted, ReusedUniform
from paceline import law as laws
from paceline.bench.stale import Stale
from paceline.core import Verdict
from paceline.couplings import Gumbel, Maximal
from paceline.dice import RACE, Dice
from paceline.drafters.free.jacobi import Jacobi, JacobiSession, Sibling
from paceline.law import Law
from paceline.layout import Layout

pytestmark = pytest.mark.law
CAUGHT = 1e-6
HISTORY = History.random(3, 4)
SIBLING = Sibling(((0, 0, 0, 0, 0, 0),), (99,))


def as_if(kind: type[JacobiSession]) -> Callable[[JacobiSession], JacobiSession]:
    """The session with its class exchanged for a mutant's."""

    def of(session: JacobiSession) -> JacobiSession:
        session.__class__ = kind
        return session

    return of


def tv(drafter: Jacobi, history: History = HISTORY, kind: type[JacobiSession] = JacobiSession, **how: Any) -> float:
    """Exact total variation between what is emitted and the target's law."""
    law = enumerated(history, drafter, session_of=as_if(kind), **how)
    return float(0.5 * (law - history.joint()).abs().sum())


def agreed(verdict: Verdict, source: Tensor) -> Tensor:
    """[B, n] bool; whether the guess at each column was the outcome there."""
    guesses = verdict.draft.tokens
    if not guesses.shape[1]:
        return torch.zeros_like(source, dtype=torch.bool)
    guess = guesses.gather(1, source.clamp(max=guesses.shape[1] - 1)).where(source < guesses.shape[1], -1)
    return guess == verdict.drawn.gather(1, source)


@pytest.mark.parametrize("start", ["left", "sibling"])
def test_b1_stale_q_of_guesses_that_agreed(start: str) -> None:
    sibling = SIBLING if start == "sibling" else None
    stale = Stale(window=3, start=start, layout=picture(HISTORY), sibling=sibling)
    law = enumerated(HISTORY, stale)
    assert float(0.5 * (law - HISTORY.joint()).abs().sum()) > (0.05 if start == "sibling" else 0.005)


@pytest.mark.parametrize("method", ["sjd", "scd-maximal"])
def test_b2_a_draw_from_p_where_the_residual_is_due(method: str) -> None:
    assert tv(window(HISTORY, method, 3, "left"), coupling=NotSubtracted()) > 0.02


class LockStepStale(JacobiSession):
    """B8: what was verified beyond the batch's common advance keeps its token and its old law."""

    def refreshed(self, verdict: Verdict, source: Tensor, dice: Dice) -> tuple[Tensor, Law]:
        tokens, law = super().refreshed(verdict, source, dice)
        if verdict.draft.q is None:
            return tokens, law
        hit = torch.cat([agreed(verdict, torch.arange(verdict.drawn.shape[1]).expand(len(source), -1))], 1)
        verified = hit.long().cumprod(1).bool().gather(1, source)
        rows = torch.arange(len(source))[:, None]
        old = laws.where(verified, verdict.draft.q[rows, source], law)
        return verdict.drawn.gather(1, source).where(verified, tokens), old


def test_b8_stale_q_in_lock_step() -> None:
    how = window(HISTORY, "sjd", 3, "uniform")
    assert tv(how, kind=LockStepStale, lockstep=True) > 0.005
    assert tv(how, lockstep=True) < EXACT


class OnlyAgreed(JacobiSession):
    """B9: guesses that did not agree begin anew, so that those that stay are the ones that happened to agree."""

    def refreshed(self, verdict: Verdict, source: Tensor, dice: Dice) -> tuple[Tensor, Law]:
        tokens, law = super().refreshed(verdict, source, dice)
        stay = agreed(verdict, source)
        tokens = tokens.where(stay, 0)
        return tokens, laws.where(stay, law, laws.certain(torch.zeros_like(tokens), law))


def test_b9_only_guesses_that_agreed_stay() -> None:
    assert tv(window(HISTORY, "scd-maximal", 3, "sibling"), kind=OnlyAgreed) > 0.01


class Doubtful(JacobiSession):
    """B13: begins anew at each place whose right-hand neighbour's law says so: that law has read the guess."""

    ahead = 1

    def refreshed(self, verdict: Verdict, source: Tensor, dice: Dice) -> tuple[Tensor, Law]:
        tokens, law = super().refreshed(verdict, source, dice)
        rows, last = torch.arange(len(source))[:, None], verdict.drawn.shape[1] - 1
        looked_at = verdict.law[rows, (source + self.ahead).clamp(max=last)]
        doubt = (looked_at.dense(2)[..., 0] > 0.5) & (source + self.ahead <= last)
        return tokens.where(~doubt, 0), laws.where(doubt, laws.certain(torch.zeros_like(tokens), law), law)


class DoubtsItself(Doubtful):
    """The same policy on the law of the place itself, which has read nothing but what stands left of it: allowed."""

    ahead = 0


def test_b13_a_decision_about_a_guess_by_a_law_to_its_right() -> None:
    history = History.random(2, 6, seed=8)
    how = window(history, "scd-maximal", 4, "left")
    assert tv(how, history, Doubtful) > 0.01
    assert tv(how, history, DoubtsItself) < EXACT


@dataclass(frozen=True)
class OwnNoise(Maximal):
    """Parts of the verification take the noise of the position's race, which has drawn the guess."""

    residual: bool = False  # B3
    test: bool = False  # B4

    def settle(self, p: Law, x: Tensor, q: Law | None, dice: Dice) -> Tensor:
        mixture = self.outcome_law(p, x, q)
        if not mixture.chances:
            return mixture.rest.race(dice, 1)[..., 0] if self.residual else mixture.rest.draw(dice, 2)
        rest = mixture.rest.race(dice, 1)[..., 0] if self.residual else mixture.rest.draw(dice, 2)
        u = (
            dice.uniform(RACE, x.clamp(min=0), shared=True)[..., 0]
            if self.test
            else dice.uniform(1, x[:1, :1, 0])[..., 0]
        )
        return x[..., 0].where((u < mixture.chances[0]) & (x[..., 0] >= 0), rest)


FOUR = History.random(4, 4)


@pytest.mark.slow
def test_b3_the_residual_drawn_by_the_race_of_its_position() -> None:
    assert pvalue(FOUR, window(FOUR, "scd-gumbel", 3, "left"), OwnNoise(residual=True), 80_000) < CAUGHT
    assert pvalue(FOUR, window(FOUR, "scd-gumbel", 3, "left"), OwnNoise(), 80_000) > 1e-4


def test_b4_the_acceptance_test_reads_the_noise_that_made_the_guess() -> None:
    assert pvalue(FOUR, window(FOUR, "scd-gumbel", 3, "random"), OwnNoise(test=True), 20_000) < CAUGHT


def test_the_same_verifier_with_noise_of_its_own_passes() -> None:
    assert pvalue(FOUR, window(FOUR, "scd-gumbel", 3, "random"), OwnNoise(), 20_000) > 1e-4


@dataclass(frozen=True)
class BySlot(Gumbel):
    """B5: the race of a guess is keyed by its slot in the window, not by its position."""

    def propose(self, q: Law, width: int, dice: Dice) -> Tensor:
        slot = torch.arange(dice.position.shape[1]).expand_as(dice.position)
        return super().propose(q, width, replace(dice, position=slot))


@dataclass(frozen=True)
class OneRow(Gumbel):
    """B6: one row of noise for all positions."""

    def settle(self, p: Law, x: Tensor, q: Law | None, dice: Dice) -> Tensor:
        return super().settle(p, x, q, replace(dice, position=torch.zeros_like(dice.position)))


class Slotted(Jacobi):
    def open(self, session: Any, context: Any, rule: Any, *, clock: Any = None) -> JacobiSession:
        opened = super().open(session, context, rule)
        opened.refresh = BySlot()
        return opened


def test_b5_races_by_slot() -> None:
    history = History.random(3, 5)
    layout = Layout.raster(5, 1, codes=(0, 3))
    assert pvalue(history, Slotted("scd-gumbel", 4, "left", layout), Maximal(), 20_000) < CAUGHT
    assert pvalue(history, Jacobi("scd-gumbel", 4, "left", layout), Maximal(), 20_000) > 1e-4


def test_b6_one_row_of_noise() -> None:
    assert pvalue(FOUR, window(FOUR, "scd-exact", 1, "left"), OneRow(), 5_000) < CAUGHT


def test_b7_one_acceptance_uniform_a_position() -> None:
    assert pvalue(FOUR, window(FOUR, "scd-maximal", 3, "left"), ReusedUniform(), 20_000) < CAUGHT


class Unchecked(Jacobi):
    """Lets noise verify what it has made."""

    def open(self, session: Any, context: Any, rule: Any, *, clock: Any = None) -> JacobiSession:
        opened = super().open(session, context, rule)
        opened.checked = True
        return opened


@pytest.mark.parametrize(("offset", "sound"), [(0, False), (10**6, True)])
def test_a_sibling_drawn_with_the_same_seed(offset: int, sound: bool, n: int = 20_000) -> None:
    other = History.random(4, 4, seed=8)  # an edited prompt: another law
    seed = torch.arange(n)
    text = streams(other.target, window(other, "scd-maximal", 3, "left"), Maximal(), seed + offset, 4)
    sibling = Sibling(tuple(map(tuple, text.tolist())), tuple((seed + offset).tolist()))
    how = Unchecked("scd-maximal", 3, "sibling", picture(FOUR), sibling)
    chance = fit(FOUR, streams(FOUR.target, how, Maximal(), seed, 4))
    assert chance > 1e-4 if sound else chance < CAUGHT


def test_the_enumeration_itself_is_sound() -> None:
    assert error(HISTORY, window(HISTORY, "scd-maximal", 3, "sibling")) < EXACT
