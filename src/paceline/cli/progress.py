"""A progress bar on stderr while a benchmark runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from paceline.bench.run import Plan, Step
from paceline.bench.traffic import Ask


@contextmanager
def bar(plan: Plan, asks: Mapping[str, Sequence[Ask]], temperatures: int, *, hidden: bool) -> Iterator[Step]:
    """Yield what to call after each answer. Nothing is drawn where nobody looks."""
    console = Console(stderr=True)
    total = temperatures * sum(plan.answers(len(some)) for some in asks.values())
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console, disable=hidden or not console.is_terminal, transient=True) as progress:
        task = progress.add_task("warming up", total=total)

        def step(arm: str, name: str, temperature: float) -> None:
            progress.update(task, advance=1, description=f"{name} T={temperature:g} {arm}"[:34].ljust(34))

        yield step
