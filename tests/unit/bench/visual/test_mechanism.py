"""The mechanism's counts, against what can be worked out by hand and against theory."""

from __future__ import annotations

import math

import pytest
import torch

from paceline.bench.grid import synthetic_grid
from paceline.bench.visual.mechanism import Observer
from paceline.core import Draft, Prompt, Rule, Verdict
from paceline.dice import Dice
from paceline.drafters.free.jacobi import pair
from paceline.law import Dense
from paceline.layout import Layout
from paceline.painting import Canvas, Stroke, strokes
from paceline.sampling import Sampling

LAYOUT = Layout.raster(6, 6, codes=(0, 12))


def verdict(guesses: list[int], drawn: list[int], settled: int, p: list[list[float]], q: list[list[float]]) -> Verdict:
    one = torch.ones(1, dtype=torch.long)
    path = torch.arange(settled)[None]
    draft = Draft.chain(torch.tensor([guesses]), Dense(torch.tensor([q])))
    outcome = torch.tensor([drawn])
    return Verdict(
        draft, path, outcome[:, :settled], settled * one, Dense(torch.tensor([p])), outcome, None, Dice(one, one, one)
    )


def test_counts_by_hand() -> None:
    """Two rounds of three guesses: one settles, two live on, the first of them unchanged."""
    sure, even = [1.0, 0.0], [0.5, 0.5]
    watch, canvas = Observer.fresh(), (Canvas(9, 0, 1),)
    first = verdict([0, 1, 1], [1, 1, 0, 0], 1, [even, sure, sure, sure], [sure, sure, even, sure])
    watch.see(Stroke(1, (0,), first, canvas))
    second = verdict([1, 0, 0], [1, 0, 1, 0], 3, [even, even, sure, sure], [sure, sure, even, sure])
    watch.see(Stroke(2, (0,), second, canvas))
    slots = watch.slots.by_slot()
    assert [s["slot"] for s in slots] == [1, 2, 3]
    assert [s["agreement"] for s in slots] == [0.5, 1.0, 0.0]
    assert [s["collisions"] for s in slots] == [1.0, 0.0, None]  # held: 1, 1 before; now 1, 0
    assert [s["tv"] for s in slots] == [0.5, 0.5, None]  # only held guesses count
    assert watch.slots.rates() == {
        "collisions": 0.5, "confirmed": 1.0, "tv": 0.5, "agreement": pytest.approx(3 / 6),
    }  # fmt: skip
    assert watch.mean_entropy == pytest.approx((1 + 2) * math.log(2) / 4)


def observed(method: str, rows: int = 60) -> Observer:
    drafter, coupling = pair(method, window=12, start="random", layout=LAYOUT)
    rule, watch = Rule(Sampling(temperature=1).law, coupling), Observer.fresh()
    prompts = [Prompt(torch.zeros(1, dtype=torch.long))] * rows
    for stroke in strokes(
        synthetic_grid(6, 12), drafter, rule, prompts, range(rows), LAYOUT.size, device=torch.device("cpu")
    ):
        watch.see(stroke)
    return watch


def test_coupled_guesses_are_calmer_than_independent_ones() -> None:
    """SJD redraws: its guesses collide as often as two independent draws; the maximal coupling as often as 1 - TV."""
    sjd, maximal = observed("sjd"), observed("scd-maximal")
    rates = maximal.slots.rates()
    assert rates["collisions"] is not None
    assert rates["tv"] is not None
    assert rates["agreement"] is not None
    assert sjd.slots.rates()["collisions"] < 0.5 * rates["collisions"]  # type: ignore[operator]
    assert sjd.settled == maximal.settled == 60 * 36


@pytest.mark.parametrize("method", ["scd-maximal", "sjd"])
def test_what_the_maximal_coupling_confirms_is_one_minus_tv(method: str) -> None:
    rates = observed(method, 150).slots.rates()
    assert rates["tv"] is not None
    assert rates["confirmed"] == pytest.approx(1 - rates["tv"], abs=0.015)


def test_the_race_confirms_within_its_bounds() -> None:
    """At most 1 - TV, at least (1 - TV) / (1 + TV) on the average law (Daliri, Musco, Suresh 2024)."""
    rates = observed("scd-exact", 150).slots.rates()
    assert rates["tv"] is not None
    assert rates["confirmed"] is not None
    assert (1 - rates["tv"]) / (1 + rates["tv"]) - 0.02 < rates["confirmed"] < 1 - rates["tv"] + 0.01
