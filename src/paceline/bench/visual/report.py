"""The visual benchmark's document as tables, on a terminal or as markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.rule import Rule
from rich.text import Text

from paceline.bench.report import Column, fitting, identity, number, ratio

Record = Mapping[str, Any]
KINDS = {"exact": "same law", "biased": "BIASED", "lossy": "lossy"}
PARTS = {"all": "", "seen": " (seen)", "unseen": " (unseen)"}


def likeness(record: Record) -> str:
    """Whether the tokens were plain decoding's; methods with other noise have an equal law only."""
    return identity(record) if record["identical"] is not None else KINDS[record["kind"]]


COLUMNS: tuple[Column, ...] = (
    Column("method", lambda r: str(r["method"])),
    Column("L", lambda r: str(r["window"])),
    Column("start", lambda r: str(r["start"])),
    Column("nfe", number("nfe", ".1f")),
    Column("nfe ratio", ratio("nfe_ratio")),
    Column("wall", ratio("wall_ratio")),
    Column("share", number("wall_share", ".0%")),
    Column("coupling", number("coupling_share", ".0%")),
    Column("τ", number("tau")),
    Column("var", number("accepted_variance", ".1f")),
    Column("collide", number("collisions")),
    Column("TV", number("tv")),
    Column("plain tokens", likeness),
)
LESS = ("share", "coupling", "var"), ("share", "coupling", "var", "start", "collide", "TV")
CHOICES = COLUMNS, *(tuple(c for c in COLUMNS if c.head not in left_out) for left_out in LESS)
LEGEND = (
    "nfe: target forwards a picture, prefill counted, a guided pair as one. share: wall ratio over "
    "nfe ratio × t(1)/t(L). coupling: draft + settle + commit over forward. collide: guesses unchanged "
    "between rounds. TV: distance of their laws. In brackets: 95 % paired bootstrap over captions."
)


def show(document: Record, console: Console | None = None) -> None:
    """Print the tables."""
    console = console or Console()
    for part in tables(document, console):
        console.print(part)


def tables(document: Record, console: Console) -> Iterator[RenderableType]:
    """One table for each task, temperature and part; lossy methods apart; the gains; how it was measured."""
    for rows, kind in ((document["rows"], ""), (document["lossy"], "lossy: another law than the target's, ")):
        for title, some in groups(rows):
            yield Rule()
            yield Text(kind + title, "bold")
            yield fitting(CHOICES, [{**r, "task": None} for r in some], console)  # the title says the task
    yield Rule("gains")
    for line in gains(document):
        yield Text(line)
    yield Text(f"\n{closing(document)}\n{LEGEND}", "dim")


def groups(rows: Sequence[Record]) -> Iterator[tuple[str, list[Record]]]:
    """Rows of one task, temperature and part, under a title that prints their entropy."""
    keys = dict.fromkeys((r["task"], r["temperature"], r["part"]) for r in rows)
    for task, temperature, part in keys:
        some = [r for r in rows if (r["task"], r["temperature"], r["part"]) == (task, temperature, part)]
        first = some[0]
        yield (
            f"{task}{PARTS.get(part, f' ({part})')}, T = {temperature:g}, guidance {first['guidance']:g}: "
            f"{first['n_captions']} captions, {first['entropy']:.2f} nats a token",
            some,
        )


def gains(document: Record) -> Iterator[str]:
    """One line for each exact method at each window."""
    for g in document["summary"]["gains"]:
        over = "" if g["over_sjd"] is None else f", {g['over_sjd']:.2f}× SJD's"
        fewer = "" if g["fewer_than_biased"] is None else f", {g['fewer_than_biased']:.1%} fewer forwards than stale-q"
        yield (
            f"{g['task']} T={g['temperature']:g} L={g['window']} {g['method']} ({g['start']}): "
            f"{g['nfe_ratio']:.2f}× fewer forwards{over}{fewer}"
        )


def markdown(document: Record) -> str:
    """The same tables for the docs, under the command that made them."""
    parts = [f"```bash\n{document['meta']['command']}\n```", closing(document)]
    for rows, kind in ((document["rows"], ""), (document["lossy"], "lossy, ")):
        for title, some in groups(rows):
            parts += [f"**{kind}{title}**", _pipes(some)]
    listed = "\n".join(f"- {line}" for line in gains(document))
    return "\n\n".join([*parts, listed, LEGEND]) + "\n"


def closing(document: Record) -> str:
    """How it was measured."""
    meta, found = document["meta"], document["summary"]
    threads, hardware = meta["threads"], meta["hardware"]
    machine = hardware.get("gpu") or f"{hardware['cpu']} ({hardware['cores']} of its cores)"
    return (
        f"{', '.join(map(str, meta['targets'].values()))}, {meta['dtype']}, batch 1, {threads} thread(s) on {machine}; "
        f"commit {meta['commit']}, {meta['date'][:10]}, torch {meta['versions']['torch']}, transformers "
        f"{meta['versions']['transformers']}. {found['compared']} results compared with plain decoding: "
        f"{found['faults']} faults, {found['ties']} ties."
    )


def _pipes(records: Sequence[Record]) -> str:
    lines = ["| " + " | ".join(column.head for column in COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(column.cell(record) for column in COLUMNS) + " |" for record in records]
    return "\n".join(lines)
