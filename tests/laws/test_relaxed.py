"""Relaxed couplings keep what they promise: exact at the edge, exact groups, no more drift than they gain."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from laws.streams import History, enumerated, picture
from paceline.couplings import Maximal
from paceline.drafters.free.jacobi import Jacobi
from paceline.errors import UsageError
from paceline.law import Dense, Law, Point, Sparse
from paceline.relaxed import Grouped, Pooled, nearest

pytestmark = pytest.mark.law
V = 7
CODES = torch.tensor([[0.0], [0.1], [0.25], [1.0], [1.1], [2.0], [5.0]])
NEAR = nearest(CODES, 3)


def pairs() -> list[tuple[Law, Law]]:
    noise = torch.Generator().manual_seed(2)
    found = list[tuple[Law, Law]]()
    for _ in range(6):
        p, q = torch.randn(2, V, generator=noise, dtype=torch.float64).mul(1.5).softmax(-1)
        ids, other = torch.tensor([0, 1, 3, 6]), torch.tensor([1, 2, 3])
        cut, given = p[ids] / p[ids].sum(), q[other] / q[other].sum()
        found += [(Dense(p), Dense(q)), (Sparse(ids, cut), Sparse(other, given)), (Sparse(ids, cut), Dense(q))]
    return found


def outcome(coupling: Any, p: Law, q: Law, width: int = 1) -> Tensor:
    """[V]; the law of the outcome, over all i.i.d. guesses."""
    given, total = q.dense(V), torch.zeros(V, dtype=torch.float64)
    for xs in itertools.product(range(V), repeat=width):
        chance = torch.stack([given[x] for x in xs]).prod()
        if chance > 0:
            total += chance * coupling.outcome_law(p, torch.tensor(xs), q).dense(V)
    return total


def agreement(coupling: Any, p: Law, q: Law) -> float:
    """The chance that a guess is taken by its test."""
    return float(sum(q.dense(V)[x] * coupling.outcome_law(p, torch.tensor([x]), q).chances[0] for x in range(V)))


def tv(a: Tensor, b: Tensor) -> float:
    return float(0.5 * (a - b).abs().sum())


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("edge", [Grouped(1), Pooled(NEAR, 0.0)], ids=["one id a group", "delta 0"])
def test_the_edge_is_exact(edge: Any, width: int) -> None:
    assert edge.exact
    for p, q in pairs():
        torch.testing.assert_close(outcome(edge, p, q, width), p.dense(V), rtol=0, atol=1e-14)
        assert abs(agreement(edge, p, q) - agreement(Maximal(), p, q)) < 1e-14


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("size", [2, 3, 7])
def test_groups_keep_their_law_and_their_members_do_not(size: int, width: int) -> None:
    coupling, drift = Grouped(size), 0.0
    assert not coupling.exact
    for p, q in pairs():
        assert isinstance(p, Dense | Sparse)
        ids = torch.arange(V) if isinstance(p, Dense) else p.ids
        group = torch.full((V,), -1).scatter_(0, ids, coupling.groups(p))
        law = outcome(coupling, p, q, width)
        assert abs(float(law.sum()) - 1) < 1e-14
        for number in range(int(group.max()) + 1):
            want = p.dense(V)[group == number].sum()
            torch.testing.assert_close(law[group == number].sum(), want, rtol=0, atol=1e-14)
        drift = max(drift, tv(law, p.dense(V)))
    assert drift > 0.01, "a relaxed rule that changes nothing would be no relaxed rule"


@pytest.mark.parametrize("coupling", [Grouped(2), Grouped(4), Pooled(NEAR, 0.1), Pooled(NEAR, 0.4)], ids=str)
def test_relaxing_never_lowers_the_agreement(coupling: Any) -> None:
    gains = [agreement(coupling, p, q) - agreement(Maximal(), p, q) for p, q in pairs()]
    assert min(gains) > -1e-12
    assert max(gains) > 0.01


@pytest.mark.parametrize("delta", [0.05, 0.2, 1.0])
def test_pooling_drifts_no_further_than_it_gains(delta: float) -> None:
    coupling, drift = Pooled(NEAR, delta), 0.0
    for p, q in pairs():
        moved = tv(outcome(coupling, p, q), p.dense(V))
        assert moved <= agreement(coupling, p, q) - agreement(Maximal(), p, q) + 1e-12
        assert max(float(coupling.lent(p, torch.tensor(x))) for x in range(V)) <= delta
        drift = max(drift, moved)
    assert drift > 0.001


@pytest.mark.parametrize("coupling", [Grouped(4), Pooled(NEAR, 1.0)], ids=str)
def test_ids_without_mass_never_come_out(coupling: Any) -> None:
    q = torch.full((V,), 1 / V, dtype=torch.float64)
    for p in (torch.tensor([0.5, 0, 0.3, 0, 0, 0.2, 0]), torch.tensor([0.0, 0, 0, 0, 1, 0, 0])):
        law = outcome(coupling, Dense(p.double()), Dense(q), 2)
        assert abs(float(law.sum()) - 1) < 1e-14
        assert float(law[p == 0].sum()) == 0


def test_greedy_laws_are_not_relaxed() -> None:
    p, x = Point(torch.tensor([2])), torch.tensor([[1]])
    for coupling in (Grouped(4), Pooled(NEAR)):
        assert coupling.outcome_law(p, x, Dense(torch.full((1, V), 1 / V))).rest is p


def test_look_alikes_are_the_nearest_codes() -> None:
    table = nearest(CODES, 2, first=10)
    assert table.shape == (17, 2)
    assert table[:10].eq(-1).all()
    assert table[10:13].tolist() == [[11, 12], [10, 12], [11, 10]]
    with pytest.raises(UsageError, match="neighbours of 7 codes"):
        nearest(CODES, 7)


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(UsageError, match="group has 0"):
        Grouped(0)
    with pytest.raises(UsageError, match="delta is"):
        Pooled(NEAR, 1.5)


@pytest.mark.parametrize(("coupling", "lossless"), [(Grouped(1), True), (Grouped(2), False)], ids=["1", "2"])
def test_a_whole_stream_drifts_under_groups_and_only_there(coupling: Grouped, lossless: bool) -> None:
    history = History.random(3, 4)
    law = enumerated(history, Jacobi("sjd", 3, "left", picture(history)), coupling=coupling)
    drift = tv(law, history.joint())
    assert drift < 1e-12 if lossless else drift > 0.01
