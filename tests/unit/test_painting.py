"""The loop over a layout: rows cut at its end, recorded round by round, and equal to plain decoding."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from paceline.bench.grid import synthetic_grid
from paceline.core import Prompt, Rule
from paceline.drafters.free.jacobi import pair
from paceline.layout import Layout
from paceline.painting import Canvas, Stroke, strokes
from paceline.sampling import Sampling

LAYOUT = Layout.raster(4, 4, codes=(0, 12))


def painted(method: str, seeds: Sequence[int], window: int = 6) -> tuple[tuple[Canvas, ...], list[Stroke]]:
    drafter, coupling = pair(method, window=window, start="uniform", layout=LAYOUT)
    rule = Rule(Sampling(temperature=1).law, coupling)
    prompts = [Prompt(torch.zeros(1 + i, dtype=torch.long)) for i in range(len(seeds))]
    target = synthetic_grid(4, 12)
    seen = []
    for stroke in strokes(target, drafter, rule, prompts, seeds, LAYOUT.size, device=torch.device("cpu")):
        seen.append(stroke)
    return seen[-1].canvases, seen


@pytest.mark.parametrize("window", [1, 2, 6, 40])
def test_rows_equal_plain_decoding_in_any_batch(window: int) -> None:
    plain = [painted("ar", [seed])[0][0] for seed in (3, 4, 5)]
    together, _ = painted("scd-exact", [3, 4, 5], window)
    # the prompts' lengths differ, and with them the positions that the noise is keyed by
    assert together[0].tokens == plain[0].tokens
    alone = painted("scd-exact", [3], window)[0][0]
    assert alone.tokens == together[0].tokens
    assert alone.rounds == together[0].rounds


@pytest.mark.parametrize("method", ["ar", "sjd", "scd-maximal", "scd-gumbel", "scd-exact"])
def test_every_row_fills_the_layout_and_adds_up(method: str) -> None:
    canvases, seen = painted(method, [0, 1, 2])
    for canvas in canvases:
        assert canvas.finished
        assert len(canvas.tokens) == len(canvas.settled_in) == LAYOUT.size == 16
        assert 1 + sum(r.committed for r in canvas.rounds) == 16
        assert canvas.settled_in == sorted(canvas.settled_in)
        assert canvas.settled_in[0] == 0
        assert canvas.nfe == canvas.settled_in[-1] + 1 == len(canvas.rounds) + 1
        assert canvas.trace().nfe == canvas.nfe
    assert len(seen) == max(canvas.nfe for canvas in canvases)
    assert all(canvas.nfe == 16 for canvas in canvases) == (method == "ar")


def test_plain_rows_take_a_forward_a_token_and_guess_nothing() -> None:
    [canvas], _ = painted("ar", [7])
    assert canvas.settled_in == list(range(16))
    assert canvas.tau == 1
    assert {r.proposed for r in canvas.rounds} == {0}


def test_what_is_shown_grows_and_ends_with_the_tokens() -> None:
    drafter, coupling = pair("scd-exact", window=6, start="uniform", layout=LAYOUT)
    rule = Rule(Sampling(temperature=1).law, coupling)
    settled, shown = [], []
    for stroke in strokes(
        synthetic_grid(4, 12), drafter, rule, [Prompt(torch.zeros(1).long())], [1], 16, device=torch.device("cpu")
    ):
        [canvas] = stroke.canvases
        settled.append(sum(token >= 0 for token in canvas.shown(guesses=False)))
        shown.append(sum(token >= 0 for token in canvas.shown()))
        assert len(canvas.shown()) == 16
        assert canvas.shown()[: len(canvas.tokens)] == canvas.tokens
    assert settled == sorted(settled)
    assert settled[-1] == shown[-1] == 16
    assert any(a < b for a, b in zip(settled, shown, strict=True))
    assert all(b - a <= 5 for a, b in zip(settled, shown, strict=True))  # L - 1 guesses


def test_a_row_never_takes_more_than_its_layout_holds() -> None:
    canvas = Canvas(3, 0, 1)
    canvas.take([5], 1, 0, 0)
    canvas.take([6, 7, 8, 9], 4, 3, 1)
    assert canvas.tokens == [5, 6, 7]
    assert canvas.guessed == []
    assert [(r.proposed, r.accepted, r.committed) for r in canvas.rounds] == [(3, 3, 2)]
