"""`paceline models`: records for programs, a table for people."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.zoo import Record

Run = Callable[..., Any]
RECORDS = [
    Record("big", "target", Path("/models/big"), 8_600_000, "Apache-2.0"),
    Record("lm", "drafter", Path("/models/big/drafters/lm"), 1_200_000, "MIT", target="big"),
]


def test_records(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.zoo.records", lambda: RECORDS)
    assert json.loads(run("models", "--json").out) == [
        {"name": "big", "kind": "target", "path": "/models/big", "parameters": 8_600_000, "license": "Apache-2.0",
         "target": None},
        {"name": "lm", "kind": "drafter", "path": "/models/big/drafters/lm", "parameters": 1_200_000, "license": "MIT",
         "target": "big"},
    ]  # fmt: skip


def test_the_table(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.zoo.records", lambda: RECORDS)
    lines = [line.split() for line in run("models").out.splitlines()]
    assert lines[1] == ["big", "target", "8.6", "M", "Apache-2.0", "/models/big"]
    assert lines[2][:6] == ["lm", "drafter", "of", "big", "1.2", "M"]


def test_none_are_bundled(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.zoo.records", list)
    assert json.loads(run("models", "--json").out) == []
    assert "no models are bundled" in run("models").out
