"""How a picture looks on a terminal while it fills, what is kept of every round, and the table of methods."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from paceline.bench.report import Column, fitting, identity, number, ratio
from paceline.cli.display import verdict
from paceline.cli.imagining import enlarged
from paceline.painting import Canvas, Commission, Painting, Stroke

DEPTHS = ((1, 2, 4, 8, 16, 32), (1, 4, 16), ())  # guesses whose acceptance the table shows, as it is wide


class Easel:
    """Everything that is seen goes to stderr; `hidden`: nothing is."""

    def __init__(self, work: Commission, frames: Path | None, scale: int, *, hidden: bool) -> None:
        self.work, self.frames, self.scale, self.hidden = work, frames, scale, hidden
        self.console = Console(stderr=True, highlight=False)
        self.progress: Progress | None = None
        self.task: TaskID | None = None

    @contextmanager
    def bar(self, name: str) -> Generator[None]:
        """A bar of settled tokens (of methods, when `advance` is called) while something is drawn."""
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        hidden = self.hidden or not self.console.is_terminal
        with Progress(*columns, console=self.console, disable=hidden, transient=True) as self.progress:
            self.task = self.progress.add_task(name, total=None)
            yield

    def see(self, stroke: Stroke) -> None:
        """Show how far the rows are, and keep the round where that was asked for."""
        settled = sum(len(canvas.tokens) for canvas in stroke.canvases)
        if self.progress is not None and self.task is not None:
            total = sum(canvas.size for canvas in stroke.canvases)
            self.progress.update(self.task, completed=settled, total=total, description=f"round {stroke.number}")
        if self.frames is not None:
            self.frames.mkdir(parents=True, exist_ok=True)
            picture = Image.new("RGB", (1, 1))
            for canvas in stroke.canvases:
                picture = _beside(picture, self._half_done(canvas))
            enlarged(picture, self.scale).save(self.frames / f"round-{stroke.number:04d}.png")

    def advance(self, method: str) -> None:
        """One method more is compared."""
        if self.progress is not None and self.task is not None:
            self.progress.update(self.task, advance=1, description=method)

    def _half_done(self, canvas: Canvas) -> Image.Image:
        """All frames of a row side by side: settled codes as they are, guesses faded, the rest grey."""
        sure, also = (self.work.target.frames(canvas.shown(guesses=wanted)) for wanted in (False, True))
        return _row([Image.blend(a, b, 0.5) for a, b in zip(sure, also, strict=True)])

    def tell(self, record: Mapping[str, Any], painted: Painting) -> None:
        """The result, what it took, and the comparison if there was one."""
        if self.hidden:
            return
        colours = self.console.is_terminal and self.console.color_system in ("truecolor", "256")
        if colours and record["path"] is not None:
            from paceline.cli.preview import preview

            self.console.print(preview(_row(self.work.target.frames(painted.canvases[0].tokens))))
        self.console.print(_summary(record))
        if rows := record.get("compare"):
            self.console.print(table(rows, self.console))
            exact = next(row for row in rows if row["method"] == "scd-exact")
            self.console.print(Text.assemble("scd-exact identical to plain with this seed: ", verdict(exact)))


def _summary(record: Mapping[str, Any]) -> Text:
    told = record["path"] or "tokens only: this target has no decoder for its codes"
    paths = told if isinstance(told, list) else [told]
    return Text.assemble(
        ", ".join(paths),
        (
            f"  {record['method']}, window {record['window']}: {record['nfe']:.1f} forwards, "
            f"{record['nfe_ratio']:.2f}× fewer than plain, {record['wall_ms']:.0f} ms, τ {record['tau']:.2f}",
            "dim",
        ),
    )


def table(rows: Sequence[Mapping[str, Any]], console: Console) -> Table:
    """Methods beside plain decoding; acceptance is the share of rounds in which at least so many guesses were right."""
    longest = max(len(row["survival"]) for row in rows)
    return fitting([_columns([d for d in depths if d <= longest]) for depths in DEPTHS], rows, console)


def _columns(depths: Sequence[int]) -> list[Column]:
    def accepted(depth: int) -> Column:
        return Column(f"≥{depth}", lambda r: f"{r['survival'][depth - 1]:.2f}" if depth <= len(r["survival"]) else "–")

    return [
        Column("method", lambda r: str(r["method"])),
        Column("nfe", number("nfe", ".1f")),
        Column("ratio", ratio("nfe_ratio", interval=False)),
        Column("ms", number("wall_ms", ".0f")),
        Column("wall", ratio("wall_ratio", interval=False)),
        Column("τ", number("tau")),
        *map(accepted, depths),
        Column("identical", identity),
    ]


def _row(pictures: Sequence[Image.Image]) -> Image.Image:
    row = pictures[0]
    for picture in pictures[1:]:
        row = _beside(row, picture)
    return row


def _beside(left: Image.Image, right: Image.Image) -> Image.Image:
    """Two pictures of one height side by side; a single pixel on the left is nothing."""
    if left.size == (1, 1):
        return right
    both = Image.new("RGB", (left.width + right.width, right.height))
    both.paste(left, (0, 0))
    both.paste(right, (left.width, 0))
    return both
