"""The synthetic grid reproduces what the research notes measured, and counts what it says it counts."""

from __future__ import annotations

import json

import pytest
import torch

from laws.streams import streams
from paceline.bench.grid import SIDE, count, main, measure, synthetic_grid
from paceline.bench.stale import NAME
from paceline.core import Draft, Prompt
from paceline.drafters.free.jacobi import Sibling, pair
from paceline.errors import UsageError
from paceline.layout import Layout
from paceline.sampling import Sampling
from paceline.tree import of

NOTED = {  # forwards of 64 at a window of 16, 300 chains, by an independent implementation
    ("sjd", "random"): 28.5, ("scd-maximal", "random"): 17.0, (NAME, "random"): 18.6, ("scd-gumbel", "random"): 17.5,
    ("scd-exact", "random"): 18.3, ("scd-maximal", "uniform"): 15.2, ("scd-maximal", "left"): 15.2,
}  # fmt: skip


@pytest.mark.slow
def test_the_table_is_that_of_the_notes() -> None:
    found = {(r["method"], r["start"]): r for r in measure([16], streams=150)}
    for row, nfe in NOTED.items():
        assert abs(found[row]["nfe"] - nfe) < 4 * found[row]["nfe_se"] + 0.3, row
    assert found[NAME, "random"]["nfe"] > 1.04 * found["scd-maximal", "random"]["nfe"], "the biased rule is slower"
    assert found["scd-maximal", "random"]["collisions"] > 5 * found["sjd", "random"]["collisions"]
    assert [r["method"] for r in found.values() if not r["exact"]] == [NAME]


def test_plain_decoding_takes_a_forward_a_token() -> None:
    drafter, coupling = pair("ar")
    counted = count(synthetic_grid(), drafter, coupling, Sampling(temperature=1), torch.arange(3), SIDE * SIDE)
    assert counted.forwards.tolist() == [SIDE * SIDE] * 3
    assert counted.collisions == 0


def test_a_stream_that_knows_its_text_takes_a_forward_a_window() -> None:
    """Prefill settles one token, each window of 16 another 16, the last one the rest: 1 + 4."""
    target, free = synthetic_grid(), Sampling(temperature=1)
    text = streams(target, *pair("ar"), torch.arange(2), 64)
    own = Sibling(tuple(map(tuple, text.tolist())), (0, 1))
    layout = Layout.raster(SIDE, SIDE, codes=(0, 64))
    drafter, coupling = pair("scd-exact", window=16, start="sibling", layout=layout, sibling=own)
    counted = count(target, drafter, coupling, free, torch.arange(2), 64)
    assert counted.forwards.tolist() == [5, 5]


def test_the_target_reads_chains_only() -> None:
    session, _, _ = synthetic_grid().open([Prompt(torch.zeros(1, dtype=torch.long))])
    fork = Draft(torch.zeros(1, 2, dtype=torch.long), of(torch.zeros(1, 2, dtype=torch.long)))
    with pytest.raises(UsageError, match="chains only"):
        session.forward(torch.zeros(1, dtype=torch.long), fork)


def test_the_command_prints_a_table_and_refuses_windows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--windows", "2", "--streams", "3", "--json"]) == 0
    assert {record["window"] for record in json.loads(capsys.readouterr().out)} == {2}
    assert main(["--windows", "2", "--streams", "3"]) == 0
    assert "scd-maximal" in capsys.readouterr().out
    assert main(["--windows", "0"]) == 2
    assert "window is 0" in capsys.readouterr().err
