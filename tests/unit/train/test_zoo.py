"""The zoo: names to directories, sizes from the header alone, nearest names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from paceline import zoo
from paceline.errors import UsageError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for where, rows in (("tiny-a", 3), ("tiny-a/drafters/lm", 2), ("tiny-b", 5)):
        directory = tmp_path / where
        directory.mkdir(parents=True)
        save_file({"w": torch.zeros(rows, 4), "b": torch.zeros(())}, directory / "model.safetensors", {"format": "pt"})
        (directory / "paceline.json").write_text(json.dumps({"license": "Apache-2.0"}))
    (tmp_path / "unfinished").mkdir()
    return tmp_path


def test_records_list_targets_with_their_drafters(root: Path) -> None:
    found = [(r.name, r.kind, r.parameters, r.license, r.target) for r in zoo.records(root)]
    assert found == [
        ("tiny-a", "target", 13, "Apache-2.0", None),
        ("lm", "drafter", 9, "Apache-2.0", "tiny-a"),
        ("tiny-b", "target", 21, "Apache-2.0", None),
    ]


def test_names_resolve_to_directories(root: Path) -> None:
    assert zoo.target("tiny-a", root) == root / "tiny-a"
    assert zoo.drafters("tiny-a", root) == {"lm": root / "tiny-a" / "drafters" / "lm"}
    assert zoo.drafters("tiny-b", root) == {}
    assert zoo.drafters("../tiny-a", root) == {}


def test_an_unknown_name_offers_the_nearest(root: Path) -> None:
    with pytest.raises(UsageError, match=r"unknown target 'tiny-c'; did you mean 'tiny-[ab]'"):
        zoo.target("tiny-c", root)
