"""The cost table: it times what it says, forms ratios lap by lap, and refuses what has no meaning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from paceline.bench import cost
from paceline.sampling import Sampling
from paceline.targets import load_target
from unit.cli.checkpoint import furnish


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return furnish(tmp_path_factory.mktemp("shelf")).target


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_every_contender_is_timed(directory: Path, temperature: float) -> None:
    with torch.inference_mode():
        target = load_target(directory)
        found = cost.measure(target, [3, 5], 6, 0.01, Sampling(temperature=temperature, top_k=4))
    assert [entry["rows"] for entry in found["forwards"]] == [1, 3, 5]
    assert found["forwards"][0]["ratio"] == 1.0
    assert found["laps"] >= 3
    assert 0 < found["overhead_share"] < 1
    assert found["settle_rows"] == 5
    for low, high in (found["plain_gain_ci"], *(entry["ratio_ci"] for entry in found["forwards"])):
        assert 0 < low <= high
    assert min(found["loop_ms"], found["hf_ms"], found["settle_ms"]) > 0


def test_a_ratio_is_taken_lap_by_lap() -> None:
    """A machine that was ten times slower for one lap changes nothing."""
    assert cost._ratio([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == (2.0, [2.0, 2.0])


def test_the_command(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cost.main([str(directory), "--rows", "2", "--context", "5", "--seconds", "0.01", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["meta"]["dtype"] == "float32"
    assert cost.main([str(directory), "--rows", "2", "--context", "5", "--seconds", "0.01"]) == 0
    assert "HF generate" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [["--rows", "1"], ["--seconds", "0"], ["--context", "0"], ["--rows", "two"]])
def test_what_has_no_meaning_is_refused(wrong: list[str], directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cost.main([str(directory), *wrong]) == 2
    assert "error: " in capsys.readouterr().err
