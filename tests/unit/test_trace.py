"""Measures on rounds worked out by hand."""

from __future__ import annotations

import pytest

from paceline.trace import Round, Trace, survival, tau, tau_eff

ROUNDS = (Round(4, 4, 5), Round(4, 0, 1), Round(3, 2, 3), Round(4, 3, 2))  # the last was cut by a stop


def test_tau_is_unclipped_and_counts_the_bonus() -> None:
    assert tau(ROUNDS) == (5 + 1 + 3 + 4) / 4
    assert tau_eff(ROUNDS) == (5 + 1 + 3 + 2) / 4


def test_tau_is_one_plus_the_sum_of_survival() -> None:
    assert survival(ROUNDS) == [3 / 4, 3 / 4, 2 / 4, 1 / 4]
    assert tau(ROUNDS) == pytest.approx(1 + sum(survival(ROUNDS)))


def test_no_rounds() -> None:
    assert (tau(()), tau_eff(()), survival(())) == (1.0, 1.0, [])
    assert Trace(3, 0, (7,), ()).nfe == 1
    assert Trace(3, 0, (7, 8), (Round(0, 0, 1),)).nfe == 2
