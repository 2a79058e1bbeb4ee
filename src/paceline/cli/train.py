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
    changes: Annotated[
        list[str] | None, typer.Argument(help="Keys of the recipe set otherwise, such as loop.steps=100.")
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where checkpoints, logs and the model go.")
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Print the resolved run and stop.")] = False,
    data: Annotated[Path | None, typer.Option(help="Where scenes and answers are kept; default: below OUTPUT.")] = None,
    json: Json = False,
) -> None:
    """Train from a recipe. Interrupted at any moment, the same command goes on where it stopped."""
    if not recipe.is_file():
        raise UsageError(f"no recipe at {recipe}")
    from paceline.train import plan as planned
    from paceline.train import run

    if plan:
        output.emit(planned(recipe, changes or ()))
        return
    if directory is None:
        raise UsageError("--output is missing: give the directory of the run, or --plan")
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"--output {directory} is a file; give a directory")
    from paceline.train.loop import Diverged

    try:
        result = run(recipe, directory, data, changes or ())
    except Diverged as error:
        typer.echo(f"paceline: training diverged: {error}", err=True)
        raise typer.Exit(FAULT) from error
    if json:
        output.emit(asdict(result))
    else:
        typer.echo(f"{result.checkpoint}  (step {result.steps}, loss {result.loss:.4f})")
