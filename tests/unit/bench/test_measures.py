"""Every measure on a run that was worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paceline.bench import measures
from paceline.bench.arms import Run
from paceline.bench.intervals import draws, interval
from paceline.bench.measures import MEASURES, Sums, Trio
from paceline.trace import Round

# Plain: 11 tokens, 10 of them behind prefill in 10 rounds; 2.0 s end to end, 1.0 s of it behind prefill.
PLAIN = Run((0,) * 11, "", 2.0, 1.0, 0.0, {"target": 0.8, "settle": 0.2}, (Round(0, 0, 1),) * 10)
# Drafted: the same text in 4 rounds of 4 guesses; the last one is cut short by the end of the text.
ROUNDS = (Round(4, 2, 3), Round(4, 0, 1), Round(4, 4, 5), Round(4, 3, 1))
DRAFTED = Run(
    (0,) * 11,
    "",
    1.5,
    0.5,
    0.0,
    {"condition": 0.1, "draft": 0.08, "target": 0.24, "settle": 0.06, "commit": 0.02},
    ROUNDS,
)
HF = Run((0,) * 11, "", 2.4, 1.2, 0.0)


def sums(*runs: Run, scores: list[float | None] | None = None) -> Sums:
    return measures.total(measures.ledger(runs, scores or [1.0] * len(runs)))


TRIO = Trio(sums(DRAFTED), sums(PLAIN), sums(HF))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tau", (3 + 1 + 5 + 4) / 4),  # unclipped, bonus counted
        ("tau_eff", 10 / 4),  # what came out
        ("tokens_per_s", 10 / 0.5),
        ("tokens_per_s_e2e", 11 / 1.5),
        ("speedup_decode", 1.0 / 0.5),
        ("speedup_e2e", 2.0 / 1.5),
        ("spec_gain", 2.0 / 1.5),
        ("plain_gain", 2.4 / 2.0),
        ("speedup_vs_hf", 2.4 / 1.5),
        ("overhead_share", (0.4 - 0.24 - 0.08) / 0.4),  # rounds fill 0.5 - 0.1 s
        ("efficiency", 2.0 / (2.5 * (0.8 / 10) / (0.24 / 4))),
        ("nfe_ratio", 11 / 5),
        ("accuracy", 1.0),
    ],
)
def test_each_measure_by_hand(name: str, value: float) -> None:
    assert MEASURES[name](TRIO) == pytest.approx(value, rel=1e-12)


def test_the_table_of_measures_is_covered() -> None:
    [mark] = test_each_measure_by_hand.pytestmark
    assert {name for name, _ in mark.args[1]} == set(MEASURES)


def test_gains_multiply() -> None:
    gains = MEASURES["plain_gain"](TRIO) * MEASURES["spec_gain"](TRIO)  # type: ignore[operator]
    assert gains == pytest.approx(MEASURES["speedup_vs_hf"](TRIO))


def test_the_baseline_beside_itself() -> None:
    alone = Trio(sums(PLAIN), sums(PLAIN), None)
    assert MEASURES["speedup_decode"](alone) == MEASURES["speedup_e2e"](alone) == MEASURES["efficiency"](alone) == 1
    assert MEASURES["speedup_vs_hf"](alone) is None
    assert MEASURES["plain_gain"](alone) is None


def test_longer_texts_are_not_slower_ones() -> None:
    """Under maximal, and for foreign samplers, texts differ: speed is seconds a token."""
    twice = Run((0,) * 22, "", 4.0, 2.1, 0.0, {"target": 1.68}, (Round(0, 0, 1),) * 21)
    trio = Trio(sums(twice), sums(PLAIN), sums(HF))
    assert MEASURES["speedup_decode"](trio) == pytest.approx((21 / 2.1) / (10 / 1.0))
    assert MEASURES["speedup_e2e"](trio) == pytest.approx(1.0)


def test_rounds_are_pooled_not_prompts() -> None:
    short = Run((0,) * 3, "", 0.1, 0.05, 0.0, {}, (Round(4, 1, 2),))
    pooled = measures.tau(sums(DRAFTED, short))
    assert pooled == pytest.approx((3 + 1 + 5 + 4 + 2) / 5)
    assert pooled != pytest.approx(((3 + 1 + 5 + 4) / 4 + 2) / 2)  # the mean over prompts is another number


def test_unscored_answers_do_not_count() -> None:
    assert measures.accuracy(sums(PLAIN, PLAIN, PLAIN, scores=[1.0, None, 0.5])) == pytest.approx(0.75)
    assert math.isnan(measures.accuracy(sums(PLAIN, scores=[None])))  # type: ignore[arg-type]


def test_an_answer_of_one_token_has_no_decode_speed() -> None:
    one = Run((0,), "", 1.0, 0.0, 0.0)
    assert math.isnan(measures.tokens_per_s(sums(one)))  # type: ignore[arg-type]
    assert math.isnan(measures.tau(sums(one)))  # type: ignore[arg-type]


def test_phases_are_means_a_prompt() -> None:
    assert measures.phases_ms([PLAIN, DRAFTED])["target"] == pytest.approx(1000 * (0.8 + 0.24) / 2)
    assert measures.phases_ms([PLAIN, DRAFTED])["draft"] == pytest.approx(1000 * 0.08 / 2)


def test_geometric_mean() -> None:
    assert measures.geometric([2.0, 8.0]) == pytest.approx(4.0)
    assert measures.geometric([np.array([2.0, 1.0]), np.array([8.0, 9.0])]) == pytest.approx([4.0, 3.0])
    assert math.isnan(measures.geometric([2.0, math.nan]))  # type: ignore[arg-type]


def lines(paces: list[float]) -> np.ndarray:
    runs = [Run((0,) * 11, "", pace, pace, 0.0, {"target": pace}, (Round(0, 0, 1),) * 10) for pace in paces]
    return measures.ledger(runs, [None] * len(runs))


def test_resampling_is_paired() -> None:
    """A drafter that halves the time of easy and hard prompts alike is twice as fast in every draw."""
    plain, drafted = [1.0, 9.0, 2.0, 30.0, 1.0, 4.0, 0.5, 7.0], [0.5, 4.5, 1.0, 15.0, 0.5, 2.0, 0.25, 3.5]
    counts = draws(8)
    ours, base = measures.resampled(lines(drafted), counts), measures.resampled(lines(plain), counts)
    assert interval(measures.speedup_decode(ours, base)) == pytest.approx([2.0, 2.0])
    unpaired = measures.resampled(lines(plain), draws(8, seed=1))
    spread = interval(measures.speedup_decode(ours, unpaired))
    assert spread is not None
    assert spread[1] > 2 * spread[0]  # what pairing saves us from


def test_intervals_hold_their_share() -> None:
    """Bootstrap of the mean pace of 40 prompts: about 95 of 100 intervals hold the true one."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        paces = rng.gamma(4.0, 0.25, size=40)
        found = interval(measures.ratio(measures.resampled(lines(list(paces)), draws(40, size=400)).seconds, 40.0))
        assert found is not None
        held += found[0] <= 1.0 <= found[1]
    assert 170 <= held <= 199


def test_draws_are_prompts_drawn_with_replacement() -> None:
    counts = draws(9)
    assert (counts.sum(1) == 9).all()
    assert counts.max() > 1
    assert (draws(9) == counts).all()
    assert (draws(9, seed=1) != counts).any()


def test_no_number_no_interval() -> None:
    assert interval(None) is None
    assert interval(np.array([math.nan, math.nan])) is None
    assert interval(np.arange(101.0)) == pytest.approx([2.5, 97.5])
