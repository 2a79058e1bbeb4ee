"""Options that several verbs share, so that one flag means one thing everywhere."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.errors import UsageError, unknown

MODEL, DRAW, OUT = "Model", "Sampling", "Output"


def read_defaults(context: typer.Context, path: Path | None) -> Path | None:
    """Take a TOML file's keys, or those of its table of the verb's name, as defaults of the options."""
    if path is None:
        return None
    if not path.is_file():
        raise UsageError(f"--config {path}: no such file")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: not valid TOML: {error}") from error
    verb = context.info_name or ""
    chosen = table[verb] if isinstance(table.get(verb), dict) else table
    known = {_long(option): option.name for option in context.command.params if option.name != "config"}
    defaults: dict[str, Any] = {}
    for key, value in chosen.items():
        name = key.replace("_", "-")
        if name not in known:
            raise unknown(f"key in {path}", key, known)
        defaults[str(known[name])] = ",".join(map(str, value)) if _joined(name, value) else value
    context.default_map = {**(context.default_map or {}), **defaults}
    return path


def _long(option: Any) -> str:
    return max(option.opts, key=len).removeprefix("--")


def _joined(name: str, value: Any) -> bool:
    return isinstance(value, list) and name not in ("image", "stop")


def listed(text: str) -> list[str]:
    """The names in "a,b, c"."""
    return [part.strip() for part in text.split(",") if part.strip()]


Target = Annotated[
    str, typer.Option(help="Bundled name, local directory or hub id of the model that decides.", rich_help_panel=MODEL)
]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1 …", rich_help_panel=MODEL)]
DType = Annotated[
    str | None,
    typer.Option("--dtype", help="float32, bfloat16, float16 or float64; default: fp32 on CPU.", rich_help_panel=MODEL),
]
Threads = Annotated[
    int | None, typer.Option(min=1, help="CPU threads; default: what torch chooses.", rich_help_panel=MODEL)
]
LongestEdge = Annotated[
    int | None, typer.Option(min=1, help="Pictures are scaled to this many pixels.", rich_help_panel=MODEL)
]
Temperature = Annotated[float, typer.Option(help="0: greedy.", rich_help_panel=DRAW)]
TopK = Annotated[int, typer.Option(help="Ids kept; 0: all.", rich_help_panel=DRAW)]
TopP = Annotated[float, typer.Option(help="Mass kept, in (0, 1].", rich_help_panel=DRAW)]
MinP = Annotated[float, typer.Option(help="Ids kept: this share of the best one's probability.", rich_help_panel=DRAW)]
Seed = Annotated[int, typer.Option(help="Same seed, same text.", rich_help_panel=DRAW)]
MaxNewTokens = Annotated[int, typer.Option(help="Budget of an answer.", rich_help_panel=DRAW)]
Coupling = Annotated[
    str, typer.Option(help="gumbel (reproducible) or maximal (highest acceptance a token).", rich_help_panel=DRAW)
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="TOML file with values for these options.", callback=read_defaults, is_eager=True
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Also write the result to this file.", rich_help_panel=OUT)
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.", rich_help_panel=OUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no summary.", rich_help_panel=OUT)]
