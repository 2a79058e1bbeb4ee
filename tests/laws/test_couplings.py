"""Exact enumeration of one slot: the outcome's law is p, whatever was guessed."""

from __future__ import annotations

import itertools

import pytest
import torch

from paceline.couplings import Gumbel, Maximal
from paceline.dice import DRAFTER, Dice
from paceline.law import Dense, Law, Point, Sparse

V = 5
_noise = torch.Generator().manual_seed(3)
P, Q = torch.randn(2, V, generator=_noise, dtype=torch.float64).mul(1.5).softmax(-1)


def sparse(probs: torch.Tensor) -> Sparse:
    ids = probs.nonzero()[:, 0]
    return Sparse(ids, probs[ids])


def cut(probs: torch.Tensor, *ids: int) -> torch.Tensor:
    kept = torch.zeros_like(probs)
    kept[list(ids)] = probs[list(ids)]
    return kept / kept.sum()


LAWS: dict[str, tuple[Law, Law]] = {
    "dense": (Dense(P), Dense(Q)),
    "sparse": (sparse(cut(P, 0, 1, 3)), sparse(cut(Q, 1, 3, 4))),
    "disjoint": (sparse(cut(P, 0, 1)), sparse(cut(Q, 2, 3))),
    "sparse-dense": (sparse(cut(P, 0, 2)), Dense(Q)),
    "dense-sparse": (Dense(P), sparse(cut(Q, 1, 4))),
    "equal": (Dense(P), Dense(P)),
    "point": (Point(torch.tensor(2)), Point(torch.tensor(1))),
}


def enumerated(p: Law, q: Law, width: int) -> torch.Tensor:
    """Sum over i.i.d. children of their chance times the outcome's law given them."""
    given, total = q.dense(V), torch.zeros(V, dtype=torch.float64)
    for xs in itertools.product(range(V), repeat=width):
        chance = torch.stack([given[x] for x in xs]).prod()
        if chance > 0:
            total += chance * Maximal().outcome_law(p, torch.tensor(xs), q).dense(V)
    return total


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("name", LAWS)
def test_maximal_outcome_has_the_law_of_the_target(name: str, width: int) -> None:
    p, q = LAWS[name]
    torch.testing.assert_close(enumerated(p, q, width), p.dense(V), rtol=0, atol=1e-15)


def test_maximal_agrees_as_often_as_any_coupling_can() -> None:
    p, q = Dense(P), Dense(Q)
    agree = sum(Q[x] * Maximal().outcome_law(p, torch.tensor([x]), q).dense(V)[x] for x in range(V))
    torch.testing.assert_close(agree, torch.minimum(P, Q).sum(), rtol=0, atol=1e-15)


def dice(n: int, actor: int = 0) -> Dice:
    return Dice(torch.arange(n), torch.full((n,), 7), torch.zeros(n, dtype=torch.long), actor)


def test_maximal_draws_what_its_outcome_law_says(n: int = 200_000) -> None:
    p, q = Dense(P.expand(n, V)), Dense(Q.expand(n, V))
    for x in range(V):
        drawn = Maximal().settle(p, torch.full((n, 1), x), q, dice(n))
        want = Maximal().outcome_law(Dense(P), torch.tensor([x]), Dense(Q)).dense(V)
        assert (torch.bincount(drawn, minlength=V) / n - want).abs().max() < 5 / n**0.5


def test_gumbel_agreement_is_the_theory(n: int = 200_000) -> None:
    drawn = Gumbel().settle(Dense(P.expand(n, V)), torch.empty(n, 0, dtype=torch.long), None, dice(n))
    guess = Gumbel().propose(Dense(Q.expand(n, V)), 1, dice(n, DRAFTER))[:, 0]
    want = sum(1 / torch.maximum(P / P[i], Q / Q[i]).sum() for i in range(V))
    tv = 0.5 * (P - Q).abs().sum()
    assert abs((drawn == guess).double().mean() - want) < 4 * 0.5 / n**0.5
    assert (1 - tv) / (1 + tv) <= want <= 1 - tv
    assert (torch.bincount(drawn, minlength=V) / n - P).abs().max() < 5 / n**0.5
    assert (torch.bincount(guess, minlength=V) / n - Q).abs().max() < 5 / n**0.5


def test_the_race_never_emits_what_has_no_mass(n: int = 100_000) -> None:
    p = torch.tensor([0.5, 0.0, 0.5, 0.0, 0.0]).expand(n, V)
    assert set(Gumbel().settle(Dense(p), torch.empty(n, 0, dtype=torch.long), None, dice(n)).tolist()) == {0, 2}


def test_forms_of_one_law_race_alike(n: int = 5_000) -> None:
    full = cut(P, 0, 1, 3)
    short = sparse(full)
    wide = Sparse(short.ids.expand(n, -1), short.probs.expand(n, -1))
    for law in (wide, wide.widen(5)):
        assert law.race(dice(n), 2).equal(Dense(full.expand(n, V)).race(dice(n), 2))


def test_siblings_and_actors_do_not_share_noise(n: int = 20_000) -> None:
    q = Dense(torch.full((n, V), 1 / V, dtype=torch.float64))
    kids = Maximal().propose(q, 2, dice(n, DRAFTER))
    verified = Maximal().settle(q, torch.empty(n, 0, dtype=torch.long), None, dice(n))
    for a, b in ((kids[:, 0], kids[:, 1]), (kids[:, 0], verified), (kids[:, 1], verified)):
        assert abs((a == b).double().mean() - 1 / V) < 5 / n**0.5
