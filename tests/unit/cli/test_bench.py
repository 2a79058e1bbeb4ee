"""`paceline bench` on a random model: the whole document, own traffic, files, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.identity import Comparison
from unit.bench.test_run import KEYS
from unit.cli.checkpoint import Shelf

Run = Callable[..., Any]
SMALL = ("--limit", "2", "--max-new-tokens", "8")


def test_the_document(run: Run, shelf: Shelf, tmp_path: Path) -> None:
    told = run(
        "bench", "--target", shelf.target, "--drafters", f"none,lookup,{shelf.lm}", "--tasks", "mmt,seed", *SMALL,
        "--json", "-o", tmp_path / "r.json",
    )  # fmt: skip
    assert told.code == 0
    document = json.loads(told.out)
    assert json.loads((tmp_path / "r.json").read_text()) == document
    assert {(r["drafter"], r["task"], r["temperature"]) for r in document["rows"]} == {
        (d, task, t) for d in ("none", "lookup", str(shelf.lm)) for task in ("mmt", "seed") for t in (0.0, 1.0)
    }
    for row in document["rows"]:
        assert set(row) >= KEYS
        assert row["faults"] == 0
        assert row["n_tokens"] > 2
        assert row["speedup_vs_hf"] == pytest.approx(row["plain_gain"] * row["spec_gain"])
        assert row["tau_ci"] is None
    references = {(e["name"], e["task"], e["temperature"]): e for e in document["references"]}
    assert len(references) == 4 * 2 * 2
    for name in ("hf-generate", "hf-lookup", "hf-assistant-lm"):
        entry = references[name, "mmt", 0.0]
        assert entry["identical"] is True if entry["reason"] is None else "refuses" in entry["reason"]
    assert references["hf-generate", "seed", 0.0]["reason"] is None
    assert references["oracle", "seed", 1.0]["identical"] is True
    meta = document["meta"]
    assert meta["dtype"] == "float32"
    assert {"command", "commit", "versions", "hardware", "threads", "date"} <= set(meta)


def test_every_drafter_that_can_be_loaded(run: Run, shelf: Shelf) -> None:
    told = run("bench", "--target", shelf.target, "--tasks", "mmt", *SMALL, "--temperature", "0", "--no-hf", "--json")
    document = json.loads(told.out)
    assert [row["drafter"] for row in document["rows"]] == ["none", "lookup", "jacobi"]
    assert {e["name"] for e in document["references"]} == {"oracle"}
    assert document["rows"][0]["speedup_vs_hf"] is None


def test_own_traffic(run: Run, shelf: Shelf, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(
        '{"prompt": "What is it?", "images": "picture.png"}\n\n{"prompt": "Count.", "images": [], "items": ["one"]}\n'
    )
    told = run(
        "bench", "--target", shelf.target, "--drafters", "lookup", "--prompts", prompts, "--images",
        shelf.picture.parent, "--temperature", "0", "--max-new-tokens", "8", "--no-hf", "--json",
    )  # fmt: skip
    assert told.code == 0
    rows = json.loads(told.out)["rows"]
    assert [(r["task"], r["drafter"], r["n_prompts"]) for r in rows] == [("own", "none", 2), ("own", "lookup", 2)]
    assert rows[0]["accuracy"] in (0.0, 1.0)  # of the one that says what is right
    assert rows[0]["phases_ms"]["vision"] > 0


def test_the_text_suite_on_a_text_model(run: Run, shelf: Shelf) -> None:
    told = run(
        "bench", "--target", shelf.lm, "--suite", "text", "--tasks", "list,code", "--drafters", "lookup", *SMALL,
        "--temperature", "0", "--json",
    )  # fmt: skip
    assert told.code == 0
    document = json.loads(told.out)
    assert {row["task"] for row in document["rows"]} == {"list", "code"}
    assert {row["accuracy"] for row in document["rows"]} == {None}
    assert document["summary"]["tasks"] == ["list", "code"]


def test_tables_for_people(run: Run, shelf: Shelf, tmp_path: Path) -> None:
    told = run(
        "bench", "--target", shelf.target, "--drafters", "lookup", "--tasks", "mmt,long", *SMALL, "--temperature", "0",
        "--no-hf", "-o", tmp_path / "table.md",
    )  # fmt: skip
    assert told.code == 0
    for words in ("lookup", "decode", "identical", "mean over mmt", "0 faults"):
        assert words in " ".join(told.out.split())
    text = (tmp_path / "table.md").read_text()
    assert text.startswith("```bash\n")
    assert "| mmt | lookup |" in text
    assert "…" not in told.out  # nothing is cut off at 80 columns


def test_quiet_is_quiet(run: Run, shelf: Shelf) -> None:
    told = run(
        "bench", "--target", shelf.target, "--drafters", "none", "--tasks", "mmt", *SMALL, "--temperature", "0",
        "--no-hf", "--quiet",
    )  # fmt: skip
    assert (told.code, told.out, told.err) == (0, "", "")


def test_a_fault_is_exit_code_one(run: Run, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle is told a wrong answer and the loop believes it: found, counted, exit code 1."""
    from paceline import core

    settle = core.settle

    def credulous(draft: Any, seen: Any, rule: Any, dice: Any) -> Any:
        verdict = settle(draft, seen, rule, dice)
        if draft.tokens.shape[1] >= 3:  # only drafted rounds: believe the first guess
            verdict.tokens[:, 0] = 5
        return verdict

    monkeypatch.setattr("paceline.core.settle", credulous)
    told = run(
        "bench", "--target", shelf.target, "--drafters", str(shelf.lm), "--tasks", "mmt", *SMALL, "--temperature", "0",
        "--no-hf", "--json",
    )  # fmt: skip
    document = json.loads(told.out)
    assert told.code == 1
    assert document["summary"]["faults"] > 0
    [row] = [row for row in document["rows"] if row["drafter"] != "none"]
    assert row["identical"] is False
    assert row["faults"] > 0


def test_a_tie_is_not_exit_code_one(run: Run, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    from paceline import core

    settle = core.settle

    def credulous(draft: Any, *given: Any) -> Any:
        verdict = settle(draft, *given)
        if draft.tokens.shape[1] >= 3:
            verdict.tokens[:, 0] = 5
        return verdict

    monkeypatch.setattr("paceline.core.settle", credulous)
    monkeypatch.setattr("paceline.identity.compare", lambda *given: Comparison(False, 1, 0, 0, 0.0, 1.0))
    told = run(
        "bench", "--target", shelf.target, "--drafters", str(shelf.lm), "--tasks", "mmt", *SMALL, "--temperature", "0",
        "--no-hf", "--json",
    )  # fmt: skip
    assert told.code == 0
    assert json.loads(told.out)["summary"]["ties"] > 0
