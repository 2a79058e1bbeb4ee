"""Drawn text: the bundled fonts, seen and held out, and lines that keep to the visual token grid."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from paceline.tasks.scene import Slice

FOLDER = Path(__file__).parent / "assets" / "fonts"
ROW = 32  # pixels from line to line: two visual tokens, three lines a tile
Color = tuple[int, int, int]
PAPERS: tuple[tuple[Color, Color], ...] = (  # (top, bottom) of a soft gradient, light enough for dark ink
    ((255, 255, 255), (244, 244, 244)),
    ((255, 250, 232), (250, 240, 214)),
    ((236, 244, 255), (220, 232, 250)),
    ((238, 250, 236), (222, 242, 220)),
    ((253, 238, 242), (248, 224, 232)),
    ((244, 240, 252), (232, 226, 246)),
)
INKS: tuple[Color, ...] = ((20, 20, 24), (24, 32, 84), (84, 24, 30), (20, 64, 40))
BOARDS: tuple[Color, ...] = ((34, 40, 52), (22, 62, 48), (40, 46, 96))  # dark boards for light ink
CHALK: Color = (246, 244, 232)


@dataclass(frozen=True, slots=True)
class Face:
    """A font file with the size (pixels per em, relative to the size asked for) at which it reads like the others."""

    file: str
    scale: float = 1.0

    def at(self, size: int) -> ImageFont.FreeTypeFont:
        """The font at `size` px, scaled so that all faces look equally large."""
        return _font(self.file, round(size * self.scale))


SEEN = (Face("LiberationSans-Bold.ttf"), Face("Cantarell-Bold.otf", 1.05), Face("LiberationSerif-Bold.ttf", 1.08))
UNSEEN = (Face("ComicNeue-Bold.otf", 1.08), Face("CourierPrime-Bold.otf", 1.0))
LABEL = SEEN[0]  # for small labels in pictures that are not about reading


def faces(part: Slice) -> tuple[Face, ...]:
    """The fonts in which a scene of this slice may be lettered: held-out ones for "style" alone."""
    return UNSEEN if part == "style" else SEEN


def paper(rng: random.Random, width: int, height: int) -> tuple[Image.Image, Color]:
    """A fresh sheet or dark board, RGB, and an ink that stands out on it."""
    if rng.random() < 0.2:
        board = rng.choice(BOARDS)
        return Image.new("RGB", (width, height), board), CHALK
    return _sheet(rng.randrange(len(PAPERS)), width, height).copy(), rng.choice(INKS)


def write(
    draw: ImageDraw.ImageDraw, x: float, y: float, text: str, face: Face, size: int, ink: Color, anchor: str = "ls"
) -> None:
    """Draws one line with its baseline at y; `anchor` as in Pillow ("ls" left, "ms" middle, "rs" right)."""
    draw.text((x, y), text, fill=ink, font=face.at(size), anchor=anchor)


def width(text: str, face: Face, size: int) -> float:
    """Advance of the line in pixels."""
    return face.at(size).getlength(text)


def wrap(text: str, face: Face, size: int, limit: float) -> list[str]:
    """The words of the text in lines no wider than `limit` pixels; a longer word stands alone."""
    lines: list[str] = []
    for word in text.split():
        if lines and width(f"{lines[-1]} {word}", face, size) <= limit:
            lines[-1] = f"{lines[-1]} {word}"
        else:
            lines.append(word)
    return lines


@cache
def _font(file: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(FOLDER / file), size, layout_engine=ImageFont.Layout.BASIC)


@cache
def _sheet(index: int, width: int, height: int) -> Image.Image:
    top, bottom = PAPERS[index]
    ramp = Image.linear_gradient("L").resize((width, height))
    return Image.composite(Image.new("RGB", (width, height), bottom), Image.new("RGB", (width, height), top), ramp)
