"""`paceline bench --suite NAME --data PATH`: a public benchmark's local copy, through to the rows; what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from unit.cli.checkpoint import Shelf

Run = Callable[..., Any]


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    Image.new("RGB", (24, 16), "navy").save(tmp_path / "a.png")
    row = {"type": "human_test", "question": "How much?", "answer": "40", "image": "a.png"}
    (tmp_path / "chart.jsonl").write_text(json.dumps(row) + "\n")
    return tmp_path / "chart.jsonl"


def test_both_lengths_become_rows(run: Run, shelf: Shelf, chart: Path) -> None:
    told = run(
        "bench", "--target", shelf.target, "--drafters", "lookup", "--suite", "chartqa", "--data", chart, "--tasks",
        "human,human-explain", "--temperature", "0", "--max-new-tokens", "8", "--no-hf", "--json",
    )  # fmt: skip
    assert told.code == 0, told.err
    document = json.loads(told.out)
    assert {(row["drafter"], row["task"], row["faults"], row["n_prompts"]) for row in document["rows"]} == {
        (drafter, task, 0, 1) for drafter in ("none", "lookup") for task in ("human", "human-explain")
    }
    assert {row["accuracy"] for row in document["rows"]} <= {0.0, 1.0}
    assert document["meta"]["suite"] == "chartqa"
    assert document["meta"]["data"] == str(chart)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--suite", "chart-qa"], "unknown suite 'chart-qa'; did you mean 'chartqa'?"),
        (["--data", "x.jsonl"], "--data goes with --suite and one of mmt-bench, seed-bench,"),
        (["--suite", "visual", "--data", "x.jsonl"], "--data goes with --suite"),
        (["--suite", "chartqa", "--data", "nowhere.jsonl"], "--data nowhere.jsonl: no such file or directory"),
        (["--suite", "chartqa", "--data", "x.jsonl", "--tasks", "humans"], "did you mean 'human'?"),
        (["--suite", "mmspec"], "MMSpec is published as files: say with --data where they are"),
    ],
)
def test_refused(run: Run, shelf: Shelf, arguments: list[str], says: str) -> None:
    told = run("bench", "--target", shelf.target, *arguments)
    assert (told.code, told.out) == (2, "")
    assert says in told.err
    assert told.err.count("\n") == 1


def test_a_wrong_line_is_named(run: Run, shelf: Shelf, chart: Path) -> None:
    with chart.open("a") as file:
        file.write('{"type": "human_test", "question": "Who?", "image": "a.png"}\n')
    told = run("bench", "--target", shelf.target, "--suite", "chartqa", "--data", chart, "--tasks", "human")
    assert told.code == 2
    assert f"{chart}, line 2: no column 'answer'" in told.err
