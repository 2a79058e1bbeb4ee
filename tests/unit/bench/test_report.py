"""Tables say what the document says, at any width, and markdown can be made from a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from laws.families import FAMILIES
from paceline.bench import report, rows
from paceline.bench.meta import meta_of
from paceline.bench.run import Plan, measure
from paceline.cli.output import plain as jsonable
from paceline.sampling import Sampling
from unit.bench.spelled import TARGET, asks, ours
from unit.bench.test_run import TEXTS, Foreign, truth


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    drafters = [ours("lookup", FAMILIES["lookup"]), ours("/some/where/small-lm", FAMILIES["lm"])]
    plan = Plan(TARGET, ours("none", FAMILIES["none"]), drafters, [Foreign(rows.HF, truth)])
    grid = [(task, Sampling(temperature=t, max_new_tokens=16)) for t in (0.0, 1.0) for task in ("mmt", "seed")]
    cells = [measure(plan, task, asks(*TEXTS, task=task), sampling, lambda *told: None) for task, sampling in grid]
    meta = meta_of(TARGET, {"target": "org/spelled"})
    return jsonable(rows.document(plan, cells, ["mmt", "seed"], meta))


def printed(document: dict[str, Any], width: int) -> str:
    console = Console(width=width, record=True, file=open("/dev/null", "w"), highlight=False)  # noqa: SIM115
    with console.file:
        report.show(document, console)
    return console.export_text()


@pytest.mark.parametrize("width", [80, 100, 120, 160, 240])
def test_nothing_is_cut_off(document: dict[str, Any], width: int) -> None:
    text = printed(document, width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for words in ("temperature 0", "temperature 1", "small-lm", "geometric mean over mmt, seed", "oracle", "0 faults"):
        assert words in " ".join(text.split())
    assert "/some/where" not in text
    assert ("effic." in text) == (width >= 100)


def test_wide_tables_show_intervals(document: dict[str, Any]) -> None:
    [row] = [r for r in document["rows"] if (r["drafter"], r["task"], r["temperature"]) == ("lookup", "mmt", 1.0)]
    low, high = row["speedup_decode_ci"]
    interval = f"{row['speedup_decode']:.2f}× [{low:.2f}, {high:.2f}]"
    assert interval in printed(document, 240)
    assert interval not in printed(document, 100)


def test_markdown_has_the_command_and_all_rows(document: dict[str, Any], tmp_path: Path) -> None:
    text = report.markdown(document)
    assert text.startswith(f"```bash\n{document['meta']['command']}\n```")
    for row in document["rows"]:
        assert f"| {row['task']} | {report.short(row['drafter'])} | {row['tau']:.2f} |" in text
    (tmp_path / "r.json").write_text(json.dumps(document))
    done = subprocess.run(
        [sys.executable, "-m", "paceline.bench.report", tmp_path / "r.json"], capture_output=True, text=True, check=True
    )
    assert done.stdout == text


def test_identity_in_words() -> None:
    def told(identical: bool | None, ties: int | None, faults: int | None) -> str:
        return report.identity({"identical": identical, "ties": ties, "faults": faults})

    assert told(True, 0, 0) == "yes"
    assert told(False, 2, 0) == "but 2 ties"
    assert told(False, 1, 3) == "3 faults, 1 ties"
    assert told(None, None, None) == "–"


def test_the_closing_says_how_it_was_measured(document: dict[str, Any]) -> None:
    text = report.closing(document)
    for words in (
        "spelled",
        "float64",
        "batch 1",
        "thread",
        "8 prompts a task",
        "bootstrap",
        "0 faults, 0 ties",
        "torch",
    ):
        assert words in text


def test_meta_is_about_this_machine() -> None:
    meta = meta_of(TARGET, {"limit": 3})
    assert meta["limit"] == 3
    assert meta["versions"]["torch"].startswith("2.")
    assert meta["hardware"]["memory_gb"] > 0.5
    assert meta["hardware"]["cores"] >= 1
    assert meta["target_parameters"] == 64
