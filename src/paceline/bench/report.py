"""A benchmark's document as a table: on a terminal, or as markdown for the docs."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from paceline.bench.intervals import ENOUGH

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A heading and what stands under it."""

    head: str
    cell: Callable[[Record], str]


def ratio(key: str, *, interval: bool = True) -> Callable[[Record], str]:
    """The measure as "1.72× [1.61, 1.80]"; a dash where there is none."""

    def cell(record: Record) -> str:
        value = record.get(key)
        if value is None:
            return "–"
        low, high = record.get(f"{key}_ci") or (value, value)
        wide = interval and low < high  # the baseline beside itself has no spread
        return f"{value:.2f}×" + (f" [{low:.2f}, {high:.2f}]" if wide else "")

    return cell


def number(key: str, form: str = ".2f") -> Callable[[Record], str]:
    """The measure in this format; a dash where there is none."""
    return lambda record: "–" if record.get(key) is None else format(record[key], form)


def identity(record: Record) -> str:
    """Whether the texts were plain decoding's."""
    if record.get("identical") is None:
        return "–"
    if record["identical"]:
        return "yes"
    return f"{record['faults']} faults, {record['ties']} ties" if record["faults"] else f"but {record['ties']} ties"


def short(name: str) -> str:
    """The last part of a path or hub id."""
    return Path(name).name or name


def task_columns(*, interval: bool, costs: bool) -> tuple[Column, ...]:
    """Columns of the table of tasks, with intervals and with what a speed-up loses, or without."""
    return (
        Column("task", lambda r: str(r["task"])),
        Column("drafter", lambda r: short(r["drafter"])),
        Column("τ", number("tau")),
        Column("decode", ratio("speedup_decode", interval=interval)),
        Column("e2e", ratio("speedup_e2e", interval=interval)),
        Column("vs HF", ratio("speedup_vs_hf", interval=interval)),
        *(
            (Column("effic.", number("efficiency")), Column("overhead", number("overhead_share", ".0%")))
            if costs
            else ()
        ),
        Column("tok/s", number("tokens_per_s", ".0f")),
        Column("acc.", number("accuracy", ".0%")),
        Column("identical", identity),
    )


def mean_columns(*, interval: bool, gains: bool) -> tuple[Column, ...]:
    """Columns of the table of means, with intervals and with what the speed-up over HF is made of, or without."""
    return (
        Column("drafter", lambda r: short(r.get("drafter") or r["name"])),
        Column("T", lambda r: f"{r['temperature']:g}"),
        Column("τ", number("tau")),
        Column("decode", ratio("speedup_decode", interval=interval)),
        Column("e2e", ratio("speedup_e2e", interval=interval)),
        Column("vs HF", ratio("speedup_vs_hf", interval=interval)),
        *((Column("= plain", ratio("plain_gain", interval=False)),) if gains else ()),
        *((Column("× spec", ratio("spec_gain", interval=False)),) if gains else ()),
        *((Column("effic.", number("efficiency")),) if gains else ()),
        Column("tok/s", number("tokens_per_s", ".0f")),
        Column("identical", identity),
    )


REFERENCES: tuple[Column, ...] = (
    Column("task", lambda r: str(r["task"])),
    Column("reference", lambda r: str(r["name"])),
    Column("τ", number("tau")),
    Column("vs HF", ratio("speedup_vs_hf", interval=False)),
    Column("tok/s", number("tokens_per_s", ".0f")),
    Column("identical", identity),
    Column("note", lambda r: str(r.get("reason") or "")),
)
TASKS = tuple(task_columns(interval=i, costs=c) for i, c in ((True, True), (False, True), (False, False)))
MEANS = tuple(mean_columns(interval=i, gains=g) for i, g in ((True, True), (False, True), (False, False)))
LEGEND = (
    "τ: tokens a round. decode, e2e: speed-up over plain decoding in our loop. vs HF: over Hugging Face generate, "
    "end to end. oracle: a drafter that knows the answer. identical: the very tokens of plain decoding."
)


def show(document: Record, console: Console | None = None) -> None:
    """Print the tables, as much of them as the console is wide."""
    console = console or Console()
    for part in tables(document, console):
        console.print(part)


def tables(document: Record, console: Console) -> Iterator[RenderableType]:
    """Task by task, the means, and how it was measured."""
    for temperature in _temperatures(document):
        yield Rule(f"temperature {temperature:g}")
        yield fitting(TASKS, _at(document["rows"], temperature), console)
        if references := _at(document["references"], temperature):
            yield ""
            yield fitting((REFERENCES,), references, console)
    if document["summary"]["means"]:
        yield Rule(_means_title(document))
        yield overview(document, console)
    yield Text(f"\n{closing(document)}\n")
    yield Text(LEGEND, "dim")


def overview(document: Record, console: Console) -> Table:
    """Means over tasks: drafters, then references."""
    return fitting(MEANS, _overview(document), console)


def _overview(document: Record) -> list[Record]:
    summary = document["summary"]
    both = [*summary["means"], *summary["references"]]
    return [record for temperature in _temperatures(document) for record in _at(both, temperature)]


def fitting(choices: Sequence[Sequence[Column]], records: Sequence[Record], console: Console) -> Table:
    """The table with the first of these sets of columns that fits the console; the last one if none does."""
    made = [_table(columns, records) for columns in choices]
    free = console.options.update(max_width=1000)
    return next((table for table in made if Measurement.get(console, free, table).maximum <= console.width), made[-1])


def _at(records: Sequence[Record], temperature: float) -> list[Record]:
    return [record for record in records if record["temperature"] == temperature]


def _table(columns: Sequence[Column], records: Sequence[Record]) -> Table:
    """A table that says each task once."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        words = column.head in ("task", "drafter", "reference", "note", "identical")
        table.add_column(column.head, justify="left" if words else "right", no_wrap=column.head != "note")
    before = None
    for record in records:
        cells = [column.cell(record) for column in columns]
        if record.get("task") is not None:
            cells[0], before = "" if record["task"] == before else cells[0], record["task"]
        table.add_row(*cells)
    return table


def markdown(document: Record) -> str:
    """The same tables for the docs, under the command that made them."""
    meta = document["meta"]
    parts = [f"```bash\n{meta['command']}\n```", closing(document)]
    if document["summary"]["means"]:
        parts += [f"**{_means_title(document)}**", _pipes(MEANS[0], _overview(document))]
    for temperature in _temperatures(document):
        references = _at(document["references"], temperature)
        parts += [f"**Temperature {temperature:g}**", _pipes(TASKS[0], _at(document["rows"], temperature))]
        parts += [_pipes(REFERENCES, references)] if references else []
    parts.append(LEGEND)
    return "\n\n".join(parts) + "\n"


def _pipes(columns: Sequence[Column], records: Sequence[Record]) -> str:
    lines = ["| " + " | ".join(column.head for column in columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(column.cell(record) for column in columns) + " |" for record in records]
    return "\n".join(lines)


def closing(document: Record) -> str:
    """How it was measured, and what the comparison of texts found."""
    meta, summary = document["meta"], document["summary"]
    prompts = max((row["n_prompts"] for row in document["rows"]), default=0)
    target, versions = short(str(meta.get("target", meta["target_class"]))), meta["versions"]
    about = (
        f"{target} ({meta['target_parameters'] / 1e6:.1f} M), {meta['dtype']}, batch {meta['batch']}, "
        f"{_machine(meta)}; {prompts} prompt{'s' if prompts > 1 else ''} a task; commit {meta['commit']}, "
        f"{meta['date'][:10]}, torch {versions['torch']}, transformers {versions['transformers']}."
    )
    between = (
        "In brackets, where there is room: 95 % paired bootstrap over prompts."
        if prompts >= ENOUGH
        else "Too few prompts for intervals."
    )
    found = f"{summary['faults']} faults, {summary['ties']} ties"
    return f"{about} {between} {summary['compared']} answers compared with plain decoding: {found}."


def _machine(meta: Record) -> str:
    hardware, threads = meta["hardware"], meta["threads"]
    return f"{threads} thread{'s' if threads > 1 else ''} on " + (
        hardware.get("gpu") or f"{hardware['cpu']} ({hardware['cores']} of its cores)"
    )


def _means_title(document: Record) -> str:
    tasks = document["summary"]["tasks"]
    return f"geometric mean over {', '.join(tasks)}" if len(tasks) > 1 else f"mean over {tasks[0]}"


def _temperatures(document: Record) -> list[float]:
    return list(dict.fromkeys(row["temperature"] for row in document["rows"]))


def _main() -> None:
    parser = argparse.ArgumentParser(description="Turn a result file of `paceline bench -o` into markdown.")
    parser.add_argument("result", type=Path)
    sys.stdout.write(markdown(json.loads(parser.parse_args().result.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    _main()
