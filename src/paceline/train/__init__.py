"""Training: `run` takes any recipe; one loop for targets, small models (`language`) and drafters (`drafters`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.train.loop import Result


def run(recipe: Path, output: Path, data: Path | None = None, changes: Sequence[str] = ()) -> Result:
    """Run the recipe into `output`, resuming what is there; UsageError for a bad recipe, Diverged for a lost run.

    changes: "key=value" with a dotted key, which win over the recipe.
    """
    from paceline.train import dispatch

    return dispatch.run(recipe, output, data, changes=changes)


def plan(recipe: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """The resolved recipe and what its run would take; nothing is written. UsageError for a bad recipe."""
    from paceline.train import dispatch

    return dispatch.plan(recipe, changes)
