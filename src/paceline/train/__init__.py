"""Training: `run` takes any recipe; one loop, the bundled target (`target`) and its `lm` drafter (`language`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.train.loop import Result


def run(recipe: Path, output: Path, data: Path | None = None) -> Result:
    """Run the recipe into `output`, resuming what is there; UsageError for a bad recipe, Diverged for a lost run."""
    from paceline.train import dispatch

    return dispatch.run(recipe, output, data)
