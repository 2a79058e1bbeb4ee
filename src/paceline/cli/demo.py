"""`make demo`: a streamed answer about a picture, a comparison of drafters, and what to try next."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli import FAULT, options

PICTURE = Path(__file__).with_name("demo.png")
PROMPT = "List everything in the picture."
EDGE = 96  # pixels; the picture's own size, one tile


def demo(
    target: options.Target = "tiny-native",
    drafters: Annotated[
        str, typer.Option("--drafters", help="a,b,… or all; the last one answers.", rich_help_panel=options.MODEL)
    ] = "all",
    threads: options.Threads = None,
    limit: Annotated[int, typer.Option(min=1, help="Prompts a task in the comparison.")] = 3,
    tokens: Annotated[int, typer.Option(min=1, help="Budget of an answer.")] = 256,
) -> None:
    """Show what this is about in two minutes. Exit code 1: a drafter wrote another text than plain decoding."""
    from rich.console import Console

    from paceline.cli.opening import open_target

    console = Console(stderr=True, highlight=False)
    model = open_target(target, device="cpu", dtype=None, threads=threads, quiet=True)
    from paceline.bench.benchmark import plan_of

    plan = plan_of(model, options.listed(drafters))
    chosen = plan.drafters[-1] if plan.drafters else plan.baseline
    _picture(console, target, chosen.name)
    _answer(model, chosen, tokens)
    document = _compare(plan, console, limit, tokens, target)
    _table(document)
    _next(console, target, chosen.name)
    if document["summary"]["faults"]:
        raise typer.Exit(FAULT)


def _picture(console: Any, target: str, drafter: str) -> None:
    from PIL import Image
    from rich.text import Text

    from paceline.cli.preview import preview

    if console.is_terminal and console.color_system in ("truecolor", "256"):
        console.print(preview(Image.open(PICTURE)))
    console.print(Text.assemble(("picture   ", "dim"), _short(PICTURE)))
    console.print(Text.assemble(("question  ", "dim"), PROMPT))
    console.print(Text.assemble(("answer    ", "dim"), f"{target}, drafts by {drafter}"), end="\n\n")


def _answer(model: Any, arm: Any, tokens: int) -> None:
    from paceline.cli.answering import Question, answer, compare, document
    from paceline.cli.display import Screen
    from paceline.cli.opening import message_of
    from paceline.sampling import Sampling

    screen = Screen()
    question = Question(
        model, arm.drafter, message_of(PROMPT, [PICTURE]), Sampling(max_new_tokens=tokens), "gumbel", EDGE
    )
    answer(question)  # the first answer pays for what every process pays once
    timed = answer(question, screen.piece)
    screen.summary(document(question, timed, compare(question, timed)))


def _compare(plan: Any, console: Any, limit: int, tokens: int, target: str) -> dict[str, Any]:
    from paceline.bench import traffic
    from paceline.bench.benchmark import benchmark
    from paceline.cli.progress import bar
    from paceline.sampling import Sampling

    asks = {task: traffic.asks_of("m6", task, limit) for task in traffic.SIX}
    console.print(f"\nThe same for {limit} questions of each of {len(asks)} tasks, all in turn on the same prompts:\n")
    with bar(plan, asks, 1, hidden=False) as step:
        return benchmark(plan, asks, [Sampling(max_new_tokens=tokens)], step=step, settings={"target": target})


def _table(document: dict[str, Any]) -> None:
    from rich.console import Console

    from paceline.bench import report

    out = Console(highlight=False)
    out.print(report.overview(document, out))
    out.print(f"\n{report.closing(document)}\n")


def _next(console: Any, target: str, drafter: str) -> None:
    ask = f"paceline generate --target {target} --drafter {drafter} --image {_short(PICTURE)} --longest-edge {EDGE}"
    console.print("Try next:", style="bold")
    for line in (
        f'{ask} --prompt "How many things are there?"',
        f'{ask} --prompt "{PROMPT}" --temperature 1 --seed 7',
        f"paceline bench --target {target} --drafters all --limit 8",
        "paceline bench --target YOUR-MODEL --drafters lookup,SMALLER-MODEL --prompts FILE --images DIR",
    ):
        console.print(f"  {line}", soft_wrap=True)


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


if __name__ == "__main__":
    from paceline.cli import main

    sys.exit(main(["demo", *sys.argv[1:]]))
