"""Commissions from the command line: drawn, saved, compared with plain decoding, told as a JSON document."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from PIL import Image

from paceline.bench.visual.arms import default_start
from paceline.bench.visual.measure import compare as compare_tokens
from paceline.clock import DECODE
from paceline.core import Coupling, Drafter
from paceline.couplings import Gumbel
from paceline.drafters.free.jacobi import METHODS, PLAIN, pair
from paceline.errors import UsageError
from paceline.layout import Layout
from paceline.painting import Commission, Painting, Stroke, paint
from paceline.sampling import Sampling
from paceline.trace import survival

MILLISECONDS = 125  # a frame of a clip is shown


@dataclass(frozen=True, slots=True)
class How:
    """A method with its window. `start` None: the frame before for clips, else the neighbour on the left."""

    method: str
    window: int
    start: str | None = None
    adaptive: float = 0.0

    def named_start(self, layout: Layout) -> str:
        """What new places are guessed from."""
        return self.start or default_start(layout)

    def build(self, work: Commission) -> tuple[Drafter, Coupling]:
        """Raises UsageError for an unknown method or start, and for a window out of range."""
        layout = work.target.layout
        return pair(
            self.method, window=self.window, start=self.named_start(layout), layout=layout, adaptive=self.adaptive
        )


def commission(model: Any, prompt: str, batch: int, sampling: Sampling, guidance: float) -> Commission:
    """The same caption `batch` times. Raises UsageError for guidance that the target cannot follow."""
    model.guided(guidance)
    return Commission(model, (prompt,) * batch, sampling, guidance)


def decodes(model: Any, *, needed: bool) -> bool:
    """Whether the target turns codes into pixels; else its tokens are the result. Raises UsageError if needed."""
    try:
        model.frames([-1] * model.layout.size)
    except UsageError:
        if needed:
            raise
        return False
    return True


def draw(work: Commission, how: How, watch: Callable[[Stroke], None] | None = None) -> Painting:
    """Draw it once."""
    return paint(work, *how.build(work), watch)


def document(work: Commission, how: How, painted: Painting, paths: Sequence[Path]) -> dict[str, Any]:
    """The JSON document of a result; tokens, path and settled_in are lists of such when there are several."""
    rows, sampling = painted.canvases, work.sampling
    return {
        "method": how.method, "window": how.window, "start": how.named_start(work.target.layout),
        "guidance": work.guidance, "temperature": sampling.temperature, "top_k": sampling.top_k,
        "top_p": sampling.top_p, "min_p": sampling.min_p, "seed": sampling.seed, "batch": len(rows),
        "layout": [work.target.layout.frames, work.target.layout.height, work.target.layout.width],
        "tokens": _one_or_all([row.tokens for row in rows]),
        **measures(painted),
        "path": _one_or_all([str(path) for path in paths]) if paths else None,
        "settled_in": _one_or_all([row.settled_in for row in rows]),
        "phases_ms": {phase: 1000 * seconds / len(rows) for phase, seconds in painted.phases.items()},
    }  # fmt: skip


def measures(painted: Painting) -> dict[str, Any]:
    """What a method took: means over the rows; wall_ms is that of the whole batch."""
    rounds = [r for row in painted.canvases for r in row.rounds]
    return {
        "nfe": painted.nfe,
        "nfe_ratio": painted.nfe_ratio,
        "wall_ms": 1000 * painted.wall,
        "tau": painted.tau,
        "survival": survival(rounds),
    }


def compare(work: Commission, how: How, step: Callable[[str], None] = lambda name: None) -> list[dict[str, Any]]:
    """Every method on the same captions and seeds, plain decoding first; each is warmed up before it is timed."""
    found: list[dict[str, Any]] = []
    plain: Painting | None = None
    for method in (PLAIN, *METHODS):
        this = replace(how, method=method)
        drafter, coupling = this.build(work)
        paint(replace(work, captions=work.captions[:1]), drafter, coupling)
        painted = paint(work, drafter, coupling)
        plain = plain or painted
        found.append(
            {
                "method": method,
                "exact": coupling.exact,
                **measures(painted),
                "wall_ratio": plain.wall / painted.wall,
                "decode_ratio": _decode(plain) / _decode(painted),
                **identity(work, coupling, painted, plain),
            }
        )
        step(method)
    return found


def identity(work: Commission, coupling: Coupling, painted: Painting, plain: Painting) -> dict[str, Any]:
    """Whether the tokens are plain decoding's; null for methods whose law is equal, but not their noise."""
    if not isinstance(coupling, Gumbel):
        return {"identical": None, "ties": None, "faults": None}
    found = [
        compare_tokens(work.target, caption, replace(work.sampling, seed=a.seed), work.guidance, a.tokens, b.tokens)
        for caption, a, b in zip(work.captions, painted.canvases, plain.canvases, strict=True)
    ]
    return {
        "identical": all(told.identical for told in found),
        "ties": sum(told.ties for told in found),
        "faults": sum(told.faults for told in found),
    }


def place(out: Path | None, prompt: str, layout: Layout, batch: int) -> list[Path]:
    """Where the results go: `out`, or a name made of the caption. Raises UsageError for another kind of file."""
    kinds = (".gif",) if layout.frames > 1 else (".png", ".jpg", ".webp")
    words = "-".join(re.findall(r"[a-z0-9]+", prompt.lower()))[:60].strip("-") or "picture"
    path = out or Path(words + kinds[0])
    if path.suffix.lower() not in kinds:
        what = "a clip" if layout.frames > 1 else "a picture"
        raise UsageError(f"--output {path}: {what} is written as {' or '.join(kinds)}")
    return [path] if batch == 1 else [path.with_stem(f"{path.stem}-{i}") for i in range(batch)]


def save(work: Commission, painted: Painting, paths: Sequence[Path], scale: int) -> Sequence[Path]:
    """Write each result, enlarged `scale` times without smoothing; each file appears whole or not at all."""
    for row, path in zip(painted.canvases if paths else (), paths, strict=True):
        first, *rest = [enlarged(frame, scale) for frame in work.target.frames(row.tokens)]
        clip: dict[str, Any] = {"save_all": True, "append_images": rest, "duration": MILLISECONDS, "loop": 0}
        draft = path.with_name(f".{path.stem}.writing{path.suffix}")
        try:
            first.save(draft, **(clip if rest else {}))
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    return paths


def enlarged(picture: Image.Image, scale: int) -> Image.Image:
    """Each pixel as a square of `scale` pixels."""
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)


def _decode(painted: Painting) -> float:
    return sum(painted.phases.get(phase, 0.0) for phase in DECODE)


def _one_or_all(rows: list[Any]) -> Any:
    return rows[0] if len(rows) == 1 else rows
