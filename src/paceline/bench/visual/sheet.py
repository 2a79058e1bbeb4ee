"""A contact sheet: what a target draws of held-out captions, or what it was taught, each over its words.

python -m paceline.bench.visual.sheet --target tiny-image -o sheet.png [--count 24] [--guidance 2] [--seed 0]
python -m paceline.bench.visual.sheet --data picture -o sheet.png
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from paceline.bench.visual.arms import default_start
from paceline.bench.visual.prompts import PARTS, Caption, own
from paceline.drafters.free.jacobi import pair
from paceline.errors import UsageError
from paceline.painting import Commission, VisualTarget, paint
from paceline.pictures import captions, clips
from paceline.sampling import Sampling

COLUMNS, SCALE, MARGIN, LINE = 8, 2, 6, 11  # pictures a row, enlargement, pixels between them, pixels a line of words
LETTERS = 24  # a line of words under a picture of 128 pixels
BATCH = 8  # captions drawn side by side


def drawn(
    target: VisualTarget, wanted: Sequence[Caption], sampling: Sampling, guidance: float
) -> list[list[Image.Image]]:
    """The frames of each caption, drawn by the race: caption i of a batch with seed + i, as plain decoding would."""
    drafter, coupling = pair("scd-exact", window=64, start=default_start(target.layout), layout=target.layout)
    found: list[list[Image.Image]] = []
    for start in range(0, len(wanted), BATCH):
        texts = tuple(caption.text for caption in wanted[start : start + BATCH])
        painted = paint(Commission(target, texts, sampling, guidance), drafter, coupling)
        found += [target.frames(canvas.tokens) for canvas in painted.canvases]
    return found


def taught(medium: str, count: int) -> tuple[list[Caption], list[list[Image.Image]]]:
    """The first training pictures, or clips, with their captions."""
    rows = [captions.captioned("train", i) if medium == "picture" else clips.clip("train", i) for i in range(count)]
    pixels = [np.atleast_1d(row.pixels).reshape(-1, *row.pixels.shape[-3:]) for row in rows]
    return [Caption(row.caption) for row in rows], [[Image.fromarray(f) for f in frames] for frames in pixels]


def sheet(rows: Sequence[Sequence[Image.Image]], words: Sequence[str]) -> Image.Image:
    """All rows on one page; the frames of a clip side by side, a clip a line."""
    side = rows[0][0].width * SCALE
    wide = side * len(rows[0])
    columns = COLUMNS if len(rows[0]) == 1 else 1
    font = ImageFont.load_default(10)
    lines = [_wrapped(text, max(LETTERS, LETTERS * wide // 128)) for text in words]
    high = side + LINE * max(map(len, lines)) + MARGIN
    page = Image.new("RGB", (columns * (wide + MARGIN) + MARGIN, -(-len(rows) // columns) * high + MARGIN), "white")
    pen = ImageDraw.Draw(page)
    for i, (frames, text) in enumerate(zip(rows, lines, strict=True)):
        x, y = MARGIN + i % columns * (wide + MARGIN), MARGIN + i // columns * high
        for j, frame in enumerate(frames):
            page.paste(frame.resize((side, side), Image.Resampling.NEAREST), (x + j * side, y))
        for j, line in enumerate(text):
            pen.text((x, y + side + j * LINE), line, fill="black", font=font)
    return page


def _wrapped(text: str, letters: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > letters:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the sheet; 2 for input that cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m paceline.bench.visual.sheet", description=__doc__)
    parser.add_argument("--target", help="bundled name or directory of a target that draws")
    parser.add_argument("--data", choices=("picture", "clip"), help="show training data instead")
    parser.add_argument("--count", type=int, default=24, help="captions, half of them unseen in training")
    parser.add_argument("--guidance", type=float, help="default: the checkpoint's own")
    parser.add_argument("--temperature", type=float, help="default: the checkpoint's own")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args(arguments)
    try:
        if (given.target is None) == (given.data is None):
            raise UsageError("give either --target or --data")
        words, rows = _asked(given) if given.target else taught(given.data, given.count)
        sheet(rows, [f"{c.text} [unseen]" if c.part == "unseen" else c.text for c in words]).save(given.output)
    except UsageError as error:
        print(f"sheet: {error}", file=sys.stderr)
        return 2
    return 0


def _asked(given: argparse.Namespace) -> tuple[list[Caption], list[list[Image.Image]]]:
    from paceline.targets import load_visual

    target = load_visual(given.target)
    own_way = target.defaults
    sampling = Sampling(
        temperature=own_way["temperature"] if given.temperature is None else given.temperature,
        top_k=int(own_way["top_k"]), seed=given.seed,
    )  # fmt: skip
    frames = target.layout.frames
    words = [c for part in PARTS for c in own(frames, part, -(-given.count // 2))][: given.count]
    return words, drawn(target, words, sampling, own_way["guidance"] if given.guidance is None else given.guidance)


if __name__ == "__main__":
    sys.exit(main())
