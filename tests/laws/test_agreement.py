"""How often guess and outcome agree: the maximal coupling attains 1 - TV, the race what theory says of it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from paceline.couplings import Gumbel, Maximal
from paceline.dice import DRAFTER, VERIFIER, Dice
from paceline.law import Dense, Sparse

V = 6
PAIRS = range(6)


def pair_of_laws(number: int) -> tuple[Tensor, Tensor]:
    """Two laws of six ids; odd ones share only part of their support, the last two are nearly equal."""
    noise = torch.Generator().manual_seed(number)
    p, q = torch.randn(2, V, generator=noise, dtype=torch.float64).mul(1.5).exp()
    if number % 2:
        p[number % V], q[(number + 2) % V] = 0.0, 0.0
    if number >= 4:
        q = p * (1 + 0.1 * torch.rand(V, generator=noise, dtype=torch.float64))
    return p / p.sum(), q / q.sum()


def tv(p: Tensor, q: Tensor) -> Tensor:
    return 0.5 * (p - q).abs().sum()


def race(p: Tensor, q: Tensor) -> Tensor:
    """sum_i 1 / sum_j max(p_j / p_i, q_j / q_i) over ids that both may draw (Daliri, Musco, Suresh 2024)."""
    both = [i for i in range(len(p)) if p[i] > 0 and q[i] > 0]
    return sum((1 / torch.maximum(p / p[i], q / q[i]).sum() for i in both), torch.zeros((), dtype=torch.float64))


@pytest.mark.parametrize("number", PAIRS)
def test_maximal_agrees_exactly_as_often_as_theory_says(number: int) -> None:
    p, q = pair_of_laws(number)
    agree = sum(q[x] * Maximal().outcome_law(Dense(p), torch.tensor([x]), Dense(q)).dense(V)[x] for x in range(V))
    torch.testing.assert_close(agree, 1 - tv(p, q), rtol=0, atol=1e-15)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("number", PAIRS)
def test_each_coupling_agrees_as_often_as_theory_says_when_it_draws(number: int, form: str, n: int = 100_000) -> None:
    p, q = pair_of_laws(number)
    ids = torch.arange(V).repeat(n, 1)
    wide = [Dense(law.expand(n, V)) if form == "dense" else Sparse(ids, law.expand(n, V)) for law in (p, q)]
    at = Dice(torch.arange(n), torch.full((n,), 3), torch.zeros(n, dtype=torch.long), DRAFTER)
    verifier = Dice(at.seed, at.position, at.turn, VERIFIER)
    for coupling, want in ((Maximal(), 1 - tv(p, q)), (Gumbel(), race(p, q))):
        guess = coupling.propose(wide[1], 1, at)
        agree = (coupling.settle(wide[0], guess, wide[1], verifier) == guess[:, 0]).double().mean()
        assert abs(agree - want) < 5 * float((want * (1 - want)).clamp(min=1e-6) / n) ** 0.5


@pytest.mark.parametrize("number", PAIRS)
def test_the_race_keeps_its_bound(number: int) -> None:
    p, q = pair_of_laws(number)
    assert (1 - tv(p, q)) / (1 + tv(p, q)) - 1e-12 <= race(p, q) <= 1 - tv(p, q) + 1e-12


def test_the_race_agrees_across_rounds_that_are_far_apart(n: int = 50_000) -> None:
    """The noise of a position does not age: turns 0 and 9 agree as turns 0 and 1 do."""
    p, q = pair_of_laws(2)
    at = Dice(torch.arange(n), torch.full((n,), 3), torch.zeros(n, dtype=torch.long), DRAFTER)
    late = Dice(at.seed, at.position, at.turn + 9, VERIFIER)
    guess = Gumbel().propose(Dense(q.expand(n, V)), 1, at)
    soon, later = (Gumbel().settle(Dense(p.expand(n, V)), guess, None, dice) for dice in (at, late))
    assert soon.equal(later)
