"""How a chart looks: lying and standing bars, pies and two-panel lines on 192 px, every value printed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from paceline.tasks.lettering import Color, Face, paper, write

SIDE = 192
SIZE = 16  # pixels per em of labels and values
PALETTE: dict[str, Color] = {
    "red": (214, 48, 49),
    "blue": (33, 97, 200),
    "green": (39, 160, 75),
    "orange": (243, 150, 30),
    "purple": (142, 68, 190),
    "gray": (130, 138, 146),
}


@dataclass(frozen=True, slots=True)
class Bar:
    """One mark of a chart."""

    label: str
    value: int
    color: str


def canvas_with_title(rng: random.Random, title: str, face: Face) -> tuple[Image.Image, ImageDraw.ImageDraw, Color]:
    """A sheet with the title on its first line."""
    canvas, ink = paper(rng, SIDE, SIDE)
    draw = ImageDraw.Draw(canvas)
    write(draw, 8, 22, title, face, SIZE + 2, ink)
    return canvas, draw, ink


def draw_rows(rng: random.Random, bars: Sequence[Bar], title: str, face: Face) -> Image.Image:
    """Lying bars: label left, bar from the middle, value flush right."""
    canvas, draw, ink = canvas_with_title(rng, title, face)
    top = max(b.value for b in bars)
    for i, bar in enumerate(bars):
        y = 40 + i * 38
        write(draw, 8, y + 20, bar.label, face, SIZE, ink)
        draw.rectangle((98, y + 4, 98 + max(2, round(48 * bar.value / top)), y + 24), fill=PALETTE[bar.color])
        write(draw, SIDE - 6, y + 20, str(bar.value), face, SIZE, ink, "rs")
    return canvas


def draw_columns(rng: random.Random, bars: Sequence[Bar], title: str, face: Face) -> Image.Image:
    """Standing bars with the value on top and the label below."""
    canvas, draw, ink = canvas_with_title(rng, title, face)
    top, pitch = max(b.value for b in bars), SIDE // len(bars)
    for i, bar in enumerate(bars):
        x, height = i * pitch + pitch // 2, max(2, round(88 * bar.value / top))
        draw.rectangle((x - 13, 164 - height, x + 13, 164), fill=PALETTE[bar.color])
        write(draw, x, 160 - height, str(bar.value), face, SIZE, ink, "ms")
        write(draw, x, 182, bar.label, face, SIZE - 2, ink, "ms")
    draw.line((4, 165, SIDE - 4, 165), fill=ink, width=1)
    return canvas


def draw_pie(rng: random.Random, bars: Sequence[Bar], title: str, face: Face) -> Image.Image:
    """A pie in the right half, its legend with the values in the left half."""
    canvas, draw, ink = canvas_with_title(rng, title, face)
    total, angle = sum(b.value for b in bars), -90.0
    for i, bar in enumerate(bars):
        sweep = 360 * bar.value / total
        draw.pieslice((106, 64, 184, 142), angle, angle + sweep, fill=PALETTE[bar.color], outline=(255, 255, 255))
        angle += sweep
        y = 48 + i * 34
        draw.rectangle((6, y + 2, 16, y + 16), fill=PALETTE[bar.color])
        write(draw, 21, y + 15, bar.label, face, SIZE - 1, ink)
        write(draw, 98, y + 15, str(bar.value), face, SIZE - 1, ink, "rs")
    return canvas


def draw_lines(
    rng: random.Random, measure: str, years: Sequence[int], series: Sequence[tuple[str, list[int]]], face: Face
) -> Image.Image:
    """Two panels of 96 px: country and measure (years below the second) over a line with its values."""
    canvas, ink = paper(rng, SIDE, SIDE)
    draw = ImageDraw.Draw(canvas)
    colors = rng.sample(list(PALETTE), 2)
    xs = [32, 96, 160]
    for k, (name, values) in enumerate(series):
        base = 84 * k
        write(draw, 8, base + 19, name, face, SIZE, ink)
        if k == 0:
            write(draw, SIDE - 6, base + 19, measure, face, SIZE, ink, "rs")
        low, spread = min(values), max(1, max(values) - min(values))
        points = [(x, base + 72 - round(22 * (v - low) / spread)) for x, v in zip(xs, values, strict=True)]
        draw.line(points, fill=PALETTE[colors[k]], width=3)
        for (x, y), value in zip(points, values, strict=True):
            draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill=PALETTE[colors[k]])
            write(draw, x, y - 8, str(value), face, SIZE, ink, "ms")
    for x, year in zip(xs, years, strict=True):
        write(draw, x, SIDE - 6, str(year), face, SIZE - 1, ink, "ms")
    return canvas
