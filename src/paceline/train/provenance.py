"""`paceline.json`: what made a directory of weights, so that nobody has to guess."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

LICENSE = "Apache-2.0"


def write(directory: Path, recipe: Path, **facts: Any) -> None:
    """Write `directory`/paceline.json: licence, recipe with its hash, package versions and the given facts."""
    record: Mapping[str, Any] = {
        "license": LICENSE,
        "recipe": recipe.name,
        "recipe_sha256": hashlib.sha256(recipe.read_bytes()).hexdigest(),
        "versions": versions(),
        **facts,
    }
    (directory / "paceline.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def versions() -> dict[str, str]:
    """Of the packages that weights depend on."""
    return {name: _version(name) for name in ("torch", "transformers", "tokenizers", "pillow")}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
