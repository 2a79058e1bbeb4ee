"""`paceline bench --suite visual`: methods by window on pictures and clips."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from paceline.cli import FAULT, options, output
from paceline.cli.opening import open_visual, sampling_of
from paceline.errors import UsageError

BOTH = "tiny-native"  # the verb's default target, which draws nothing: take the bundled target of each task


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for on the command line."""

    target: str
    methods: list[str]
    tasks: list[str]
    windows: str
    starts: list[str]
    limit: int
    prompts: Path | None
    temperatures: list[float]
    guidance: float | None
    top_k: int
    top_p: float
    min_p: float
    seed: int
    device: str
    dtype: str | None
    threads: int | None
    plots: Path | None
    out: Path | None
    json: bool
    quiet: bool


def bench_visual(order: Order) -> None:
    """Measure and tell. Exit code 1: a method that must equal plain decoding did not."""
    if order.plots is not None and order.plots.exists() and not order.plots.is_dir():
        raise UsageError(f"--plots {order.plots} is a file; give a directory")
    windows = _windows(order.windows)
    from paceline.bench.visual import report
    from paceline.bench.visual.benchmark import VisualPlan, benchmark, captions_of

    targets = _targets(order)
    plan = VisualPlan(targets, tuple(order.methods), windows, tuple(order.starts), order.guidance)
    captions = {task: captions_of(target, order.limit, order.prompts) for task, target in targets.items()}
    samplings = [_sampling(order, t, targets) for t in order.temperatures]
    extra = {"limit": order.limit, "seed": order.seed, "top_k": samplings[0].top_k, "top_p": order.top_p,
             "min_p": order.min_p, "methods": order.methods, "starts": order.starts}  # fmt: skip
    total = sum(plan.drawings(len(captions[task]), len(samplings), task) for task in targets)
    with _bar(total, hidden=order.quiet or order.json) as step:
        document = benchmark(plan, captions, samplings, step=step, settings=extra)
    if order.plots is not None:
        from paceline.bench.visual import plots

        document["plots"] = [str(path) for path in plots.write(document, order.plots)]
    if order.out is not None:
        markdown = order.out.suffix == ".md"
        output.write_whole(order.out, report.markdown(document) if markdown else output.to_json(document))
    if order.json:
        output.emit(document)
    elif not order.quiet:
        report.show(document)
    if document["summary"]["faults"]:
        raise typer.Exit(FAULT)


def _windows(text: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in options.listed(text)))
    except ValueError:
        raise UsageError(f"--windows {text!r}: give whole numbers such as 8,16,32,64") from None


def _targets(order: Order) -> Mapping[str, Any]:
    """By task: the one that was named, for the task that its layout serves, or the bundled ones."""
    from paceline.bench.visual.benchmark import TASKS, task_names, task_of

    tasks = task_names(order.tasks)
    names = {task: TASKS[task] for task in tasks} if order.target == BOTH else {"": order.target}
    found: dict[str, Any] = {}
    for name in names.values():
        model = open_visual(
            name, None, device=order.device, dtype=order.dtype, threads=order.threads, quiet=order.quiet or order.json
        )
        found[task_of(model)] = model
    return found


def _sampling(order: Order, temperature: float, targets: Mapping[str, Any]) -> Any:
    """Without --top-k the checkpoint's own."""
    own = next(iter(targets.values())).defaults
    return sampling_of(
        temperature=temperature, top_k=order.top_k or own["top_k"], top_p=order.top_p, min_p=order.min_p,
        seed=order.seed, max_new_tokens=max(target.layout.size for target in targets.values()),
    )  # fmt: skip


@contextmanager
def _bar(total: int, *, hidden: bool) -> Generator[Any]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns: Sequence[Any] = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=hidden or not console.is_terminal, transient=True) as progress:
        task = progress.add_task("warming up", total=total)

        def step(arm: str, name: str, temperature: float) -> None:
            progress.update(task, advance=1, description=f"{name} T={temperature:g} {arm}"[:40].ljust(40))

        yield step
