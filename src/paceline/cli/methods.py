"""`paceline methods`: the taxonomy of published methods, queried axis by axis."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli import options, output
from paceline.errors import UsageError

FILTER = "Filters (a,b: any of these; several filters: all of them)"


def methods(
    name: Annotated[str | None, typer.Argument(help="One method; without it, the list.")] = None,
    level: Annotated[
        str | None, typer.Option(help="0 free, 1 token by token, 2 positions, 3 a block.", rich_help_panel=FILTER)
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Kind of drafter.", rich_help_panel=FILTER)] = None,
    modality: Annotated[str | None, typer.Option(help="text, image, video, …", rich_help_panel=FILTER)] = None,
    guarantee: Annotated[str | None, typer.Option(help="distribution-exact, lossy, …", rich_help_panel=FILTER)] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="AXIS=WORD for any axis; repeatable. The word unknown works too.", rich_help_panel=FILTER),
    ] = None,
    runnable: Annotated[
        bool, typer.Option("--runnable", help="What this package runs.", rich_help_panel=FILTER)
    ] = False,
    axes: Annotated[bool, typer.Option("--axes", help="Show the axes and what their words mean.")] = False,
    out: options.Output = None,
    json: options.Json = False,
) -> None:
    """List published methods of speculative and parallel decoding, by what they are."""
    from paceline import taxonomy

    output.writable(out)
    wanted = _wanted({"level": level, "kind": kind, "modality": modality, "guarantee": guarantee}, where or [])
    if axes:
        _refuse_with_axes(name, wanted, runnable=runnable)
        _tell(taxonomy.axes(), out, json=json, show=lambda: _show_axes(taxonomy.axes()))
        return
    every = taxonomy.methods() if name is None else (taxonomy.find(name),)
    chosen = taxonomy.select(every, wanted, runnable=runnable)
    one = name is not None and len(chosen) == 1
    _tell(
        [record(method) for method in chosen],
        out,
        json=json,
        show=lambda: _show_one(chosen[0]) if one else _show(chosen),
    )


def record(method: Any) -> dict[str, Any]:
    """A method as JSON tells it: its fields, whether it runs here, and the class that does it."""
    from paceline.drafters import METHODS

    plain = asdict(method) | {"options": dict(method.options), "runnable": method.runnable}
    return plain | {"class": METHODS.get(method.drafter) if method.drafter else None}


def _wanted(named: dict[str, str | None], where: list[str]) -> dict[str, list[str]]:
    pairs = [(axis, words) for axis, words in named.items() if words is not None]
    for text in where:
        axis, equals, words = text.partition("=")
        if not equals:
            raise UsageError(
                f"--where {text!r}: give AXIS=WORD, such as source=target-kv (see paceline methods --axes)"
            )
        pairs.append((axis.strip().replace("-", "_"), words))
    wanted: dict[str, list[str]] = {}
    for axis, words in pairs:
        if not options.listed(words):
            raise UsageError(f"{axis} is empty: name a word of this axis (see paceline methods --axes)")
        if axis in wanted:
            raise UsageError(f"{axis} is asked for twice: give its words at once, as in {axis}=a,b")
        wanted[axis] = options.listed(words)
    return wanted


def _refuse_with_axes(name: str | None, wanted: dict[str, list[str]], *, runnable: bool) -> None:
    if name is not None or wanted or runnable:
        raise UsageError("--axes explains the words and takes no method and no filter")


def _tell(document: Any, out: Path | None, *, json: bool, show: Any) -> None:
    if out is not None:
        output.write_whole(out, output.to_json(document))
    if json:
        output.emit(document)
    else:
        show()


def _show(chosen: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("name", "level", "kind", "guarantee"):
        table.add_column(head, no_wrap=True)
    table.add_column("runs as", overflow="fold")
    for method in chosen:
        level = "" if method.level is None else str(method.level)
        runs = " ".join(filter(None, (method.drafter, method.coupling)))
        table.add_row(method.name, level, method.kind or f"({method.role})", method.guarantee or "", runs)
    Console().print(table if chosen else "no method has all of this")
    if chosen:
        Console(stderr=True).print(f"{len(chosen)} methods", style="dim")


def _show_one(method: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    from paceline.taxonomy import AXES, axes
    from paceline.taxonomy.page import told

    meanings = axes()
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for key in ("title", "arxiv", "paper", "venue", "code"):
        if value := getattr(method, key):
            table.add_row(key, value)
    for axis in AXES:
        words = method.words(axis)
        said = "unknown" if words is None else "; ".join(f"{word}: {meanings[axis][word]}" for word in words)
        table.add_row(axis.replace("_", " "), said)
    told_claims = [told(claim) for claim in method.claims]
    options_said = " ".join(f"{key}={value}" for key, value in method.options)
    runs = ", ".join(filter(None, (method.drafter, options_said, method.coupling)))
    rest = {"targets": ", ".join(method.targets), "builds on": ", ".join(method.builds_on), "runs as": runs}
    rest |= {"claims": "\n".join(told_claims), "note": method.note or ""}
    for key, value in rest.items():
        if value:
            table.add_row(key, value)
    Console().print(table, markup=False)


def _show_axes(meanings: Any) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for head in ("axis", "word", "meaning"):
        table.add_column(head)
    for axis, words in meanings.items():
        for i, (word, meaning) in enumerate(words.items()):
            table.add_row(axis.replace("_", " ") if i == 0 else "", word, meaning)
    Console().print(table, markup=False)
