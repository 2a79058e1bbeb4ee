"""`paceline train`: run a recipe; the same command resumes it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli import FAULT, output
from paceline.cli.options import Json
from paceline.errors import UsageError


def train(
    recipe: Annotated[Path, typer.Option("--config", "-c", help="The recipe, a TOML file.")],
    directory: Annotated[Path, typer.Option("--output", "-o", help="Where checkpoints, logs and the model go.")],
    data: Annotated[Path | None, typer.Option(help="Where rendered scenes are kept; default: OUTPUT/data.")] = None,
    json: Json = False,
) -> None:
    """Train from a recipe. Interrupted at any moment, the same command goes on where it stopped."""
    if not recipe.is_file():
        raise UsageError(f"no recipe at {recipe}")
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"--output {directory} is a file; give a directory")
    from paceline.train import run
    from paceline.train.loop import Diverged

    try:
        result = run(recipe, directory, data)
    except Diverged as error:
        typer.echo(f"paceline: training diverged: {error}", err=True)
        raise typer.Exit(FAULT) from error
    if json:
        output.emit(asdict(result))
    else:
        typer.echo(f"{result.checkpoint}  (step {result.steps}, loss {result.loss:.4f})")
