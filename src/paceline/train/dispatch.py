"""Runs any recipe: its `kind` says which trainer takes it."""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline.errors import unknown
from paceline.train.loop import Result
from paceline.train.recipe import RecipeError

KINDS = {"target": "paceline.train.target:run", "lm": "paceline.train.language:run", "visual": "paceline.train.visual:run"}


def run(path: Path, output: Path, data: Path | None = None, render: bool = True) -> Result:
    """Run the recipe at `path` into `output`, resuming what is there; RecipeError (a UsageError) for a bad recipe."""
    return trainer(path)(path, output, data, render)


def trainer(path: Path) -> Callable[..., Result]:
    """The function that runs the kind of recipe found at `path`."""
    if not path.is_file():
        raise RecipeError(f"no recipe at {path}")
    try:
        kind: Any = tomllib.loads(path.read_text(encoding="utf-8")).get("kind")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: not valid TOML: {error}") from error
    if kind not in KINDS:
        raise RecipeError(f"{path}: {unknown('kind', str(kind), KINDS)}")
    module, name = KINDS[kind].split(":")
    return getattr(importlib.import_module(module), name)
