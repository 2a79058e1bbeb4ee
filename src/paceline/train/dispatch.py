"""Runs any recipe: its `kind` says which trainer takes it."""

from __future__ import annotations

import importlib
import inspect
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from paceline.errors import unknown
from paceline.train.loop import Result
from paceline.train.recipe import RecipeError

KINDS = {
    "target": "paceline.train.target:run",
    "lm": "paceline.train.language:run",
    "visual": "paceline.train.visual:run",
    "drafters": "paceline.train.drafters:run",
    "ngram": "paceline.train.ngram:run",
}  # fmt: skip


def run(path: Path, output: Path, data: Path | None = None, render: bool = True, changes: Sequence[str] = ()) -> Result:
    """Run the recipe at `path` into `output`, resuming what is there; RecipeError (a UsageError) for a bad recipe.

    changes: see `recipe.load`; for kinds that take them.
    """
    begin = trainer(path)
    if not changes:
        return begin(path, output, data, render)
    if "changes" not in inspect.signature(begin).parameters:
        raise RecipeError(f"{path}: recipes of this kind take no key=value; change the file")
    return begin(path, output, data, render, changes)


def plan(path: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """What a run would do, for kinds that can say it. Nothing is written."""
    return trainer(path, "plan")(path, changes)


def trainer(path: Path, name: str = "run") -> Callable[..., Any]:
    """The function of this name beside the one that runs the kind of recipe found at `path`."""
    if not path.is_file():
        raise RecipeError(f"no recipe at {path}")
    try:
        kind: Any = tomllib.loads(path.read_text(encoding="utf-8")).get("kind")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: not valid TOML: {error}") from error
    if kind not in KINDS:
        raise RecipeError(f"{path}: {unknown('kind', str(kind), KINDS)}")
    module = importlib.import_module(KINDS[kind].partition(":")[0])
    if not hasattr(module, name):
        raise RecipeError(f"{path}: recipes of kind {kind!r} have no {name}")
    return getattr(module, name)
