"""Jacobi decoding is lossless: by enumeration, by samples where noise is shared, and token by token."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from laws.families import PROMPTS, run
from laws.streams import FREE, History, enumerated, picture, pvalue, streams
from laws.test_decode import joined
from paceline.couplings import Gumbel, Maximal
from paceline.drafters.free.jacobi import METHODS, Jacobi, Sibling, pair
from paceline.drafters.free.jacobi_starts import STARTS
from paceline.errors import UsageError
from paceline.layout import Layout
from paceline.sampling import Sampling

pytestmark = pytest.mark.law
EXACT = 1e-12
DRAWN = ["sjd", "scd-maximal"]  # whose noise is fresh in every round: all of it can be enumerated


def window(history: History, method: str, length: int, start: str, frames: int = 1, **more: Any) -> Jacobi:
    layout = picture(history, 1 if frames > 1 else 2, frames)
    sibling = Sibling(((1, 0, 1, 1, 0, 0),), (99,)) if start == "sibling" else None
    return Jacobi(method, length, start, layout, sibling, **more)


def error(history: History, drafter: Jacobi, **how: Any) -> float:
    """The largest difference of any stream's probability; the law must also sum to one."""
    law = enumerated(history, drafter, **how)
    assert abs(float(law.sum()) - 1) < EXACT
    return float((law - history.joint()).abs().max())


@pytest.mark.parametrize("length", [2, 3, 4])
@pytest.mark.parametrize("start", ["uniform", "left", "above", "sibling"])
@pytest.mark.parametrize("method", DRAWN)
def test_the_enumerated_law_is_the_targets(method: str, start: str, length: int) -> None:
    history = History.random(3, 4)
    assert error(history, window(history, method, length, start)) < EXACT


@pytest.mark.slow
@pytest.mark.parametrize("start", ["uniform", "left", "sibling"])
@pytest.mark.parametrize("method", DRAWN)
def test_the_enumerated_law_of_longer_streams_is_the_targets(method: str, start: str) -> None:
    history = History.random(3, 5, seed=3)
    sibling = Sibling(((1, 0, 2, 1, 0),), (99,)) if start == "sibling" else None
    layout = Layout.raster(5, 1, codes=(0, 3))
    assert error(history, Jacobi(method, 4, start, layout, sibling)) < EXACT


@pytest.mark.parametrize("start", ["previous-frame", "previous-frame-law", "above"])
@pytest.mark.parametrize("method", DRAWN)
def test_the_enumerated_law_of_a_clip_is_the_targets(method: str, start: str) -> None:
    history = History.random(2, 6)
    assert error(history, window(history, method, 4, start, frames=3)) < EXACT


@pytest.mark.parametrize("start", ["uniform", "left", "sibling"])
def test_forced_tokens_keep_the_law(start: str) -> None:
    layout = Layout.raster(1, 2, codes=(0, 2), head=(-1,), line_end=2)
    history = History.random(3, layout.size).demanding(layout)
    sibling = Sibling(((1, 0, 1),), (99,)) if start == "sibling" else None
    assert error(history, Jacobi("scd-maximal", 4, start, layout, sibling)) < EXACT


@pytest.mark.parametrize("method", DRAWN)
def test_a_batch_in_lock_step_keeps_the_law(method: str) -> None:
    history = History.random(3, 4)
    assert error(history, window(history, method, 3, "sibling"), lockstep=True) < EXACT


@pytest.mark.parametrize("adaptive", [0.8, 1.5])
def test_a_window_that_follows_the_settled_counts_keeps_the_law(adaptive: float) -> None:
    history = History.random(2, 6)
    assert error(history, window(history, "scd-maximal", 4, "left", adaptive=adaptive)) < EXACT


SAMPLED = [("scd-gumbel", "random"), ("scd-gumbel", "left"), ("scd-exact", "random"), ("scd-exact", "uniform"),
           ("scd-gumbel", "sibling"), ("scd-maximal", "random")]  # fmt: skip
CUT = [("scd-gumbel", "uniform"), ("scd-maximal", "random"), ("scd-maximal", "above")]
ALPHA = 0.01  # of all chi-square tests of one run together
TESTS = 2 * len(SAMPLED) + len(CUT)


def sampled(method: str, start: str, length: int, n: int, sampling: Sampling = FREE) -> float:
    history = History.random(4, 4)
    return pvalue(history, window(history, method, length, start), pair(method)[1], n, sampling=sampling)


@pytest.mark.parametrize(("method", "start"), SAMPLED)
def test_streams_with_shared_noise_have_the_targets_law(method: str, start: str) -> None:
    assert sampled(method, start, 3, 20_000) > ALPHA / TESTS


@pytest.mark.slow
@pytest.mark.parametrize(("method", "start"), SAMPLED[:3])
def test_many_streams_with_shared_noise_have_the_targets_law(method: str, start: str) -> None:
    assert sampled(method, start, 3, 200_000) > ALPHA / TESTS


@pytest.mark.slow
@pytest.mark.parametrize(("method", "start"), CUT)
def test_streams_cut_to_their_best_ids_have_the_targets_law(method: str, start: str) -> None:
    assert sampled(method, start, 4, 60_000, Sampling(temperature=0.8, top_k=2)) > ALPHA / TESTS


LAYOUT = Layout.raster(4, 3, 5, codes=(0, 4))
SETTINGS = {"t1": FREE, "top-k": Sampling(temperature=1, top_k=3), "top-p": Sampling(temperature=1, top_p=0.8),
            "greedy": Sampling()}  # fmt: skip


def on_table(start: str, length: int, method: str = "scd-exact") -> Jacobi:
    sibling = Sibling((tuple([3, 1, 2] * 18),), (99,)) if start == "sibling" else None
    return Jacobi(method, length, start, LAYOUT, sibling)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("start", STARTS)
def test_exact_equals_plain_token_for_token(start: str, setting: str) -> None:
    seed, sampling = torch.arange(3) + 7, SETTINGS[setting]
    plain, gumbel = pair("ar")
    want = run(plain, gumbel, sampling, PROMPTS, seed, LAYOUT.size)
    for length in (1, 2, 7, 32):
        assert run(on_table(start, length), gumbel, sampling, PROMPTS, seed, LAYOUT.size) == want
        assert run(on_table(start, length), gumbel, sampling, PROMPTS[1:2], seed[1:2], LAYOUT.size) == want[1:2]


def test_exact_may_start_from_its_own_text() -> None:
    """The same seed's finished tokens: settled at once, and still the same."""
    seed = torch.arange(3) + 7
    want = run(*pair("ar"), FREE, PROMPTS, seed, LAYOUT.size)
    own = Sibling(tuple(map(tuple, want)), tuple(seed.tolist()))
    drafter, coupling = pair("scd-exact", window=128, start="sibling", layout=LAYOUT, sibling=own)
    assert run(drafter, coupling, FREE, PROMPTS, seed, LAYOUT.size) == want


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("start", STARTS)
def test_rows_of_unlike_progress_do_not_see_each_other(method: str, start: str) -> None:
    seed, (_, coupling) = torch.tensor([5, 6, 7]), pair(method)
    together = run(on_table(start, 7, method), coupling, FREE, PROMPTS, seed, 50)
    alone = [
        run(on_table(start, 7, method), coupling, FREE, [prompt], seed[i : i + 1], 50)[0]
        for i, prompt in enumerate(PROMPTS)
    ]
    assert together == alone


@pytest.mark.parametrize("start", ["above", "previous-frame", "sibling"])
@pytest.mark.parametrize("method", ["scd-maximal", "scd-exact"])
def test_rows_of_unlike_age_go_on_together_as_they_would_alone(method: str, start: str) -> None:
    """What a start looks back to joins with its row."""
    seed, (_, coupling) = torch.tensor([5, 6, 7]), pair(method)
    for row, text in joined(on_table(start, 7, method), coupling, seed, 40).items():
        alone = run(on_table(start, 7, method), coupling, FREE, [PROMPTS[row]], seed[row : row + 1], len(text))[0]
        assert text == alone, row


def test_a_sibling_of_the_same_seed_is_refused_where_fresh_noise_verifies() -> None:
    twin = Sibling(((1, 2, 3),), (6,))
    for method in METHODS:
        drafter, coupling = pair(method, window=4, start="sibling", sibling=twin)
        if method == "scd-exact":
            run(drafter, coupling, FREE, PROMPTS[:1], torch.tensor([6]), 5)
            continue
        with pytest.raises(UsageError, match=r"same seed \(6\)"):
            run(drafter, coupling, FREE, PROMPTS[:1], torch.tensor([6]), 5)
        run(drafter, coupling, FREE, PROMPTS[:1], torch.tensor([7]), 5)


def test_no_guess_stands_past_the_end_and_plain_is_a_window_of_one() -> None:
    history = History.random(3, 6)
    seed = torch.arange(50)
    one = streams(history.target, window(history, "scd-exact", 1, "left"), Gumbel(), seed, 6)
    assert one.equal(streams(history.target, pair("ar")[0], Gumbel(), seed, 6))
    assert one.equal(streams(history.target, window(history, "scd-exact", 128, "left"), Gumbel(), seed, 6))
    assert not one.equal(streams(history.target, window(history, "scd-exact", 4, "left"), Maximal(), seed, 6))
