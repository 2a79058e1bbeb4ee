"""The picture material of the suite: concepts, their sprites in two styles, and who may be shown in which split."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from PIL import Image

from paceline.tasks.scene import Slice, Split

Style = Literal["noto", "fluent"]
STYLES: tuple[Style, ...] = ("noto", "fluent")
ASSETS = Path(__file__).parent / "assets"
SPRITE_SIDE = 64  # pixels in the atlas
UNSEEN_SHARE = 0.15  # share of test scenes that show held-out material, half of it new concepts


@dataclass(frozen=True, slots=True)
class Concept:
    """A nameable thing; training sees both styles of it ("-"), one ("one-noto", "one-fluent") or nothing ("new")."""

    index: int  # place in the atlases and in the table
    name: str
    plural: str
    category: str
    hold: str

    @property
    def article(self) -> str:
        """ "a" or "an"."""
        return "an" if self.name[0] in "aeiou" else "a"

    def count(self, number: int) -> str:
        """The name in the number that `number` asks for."""
        return self.name if number == 1 else self.plural

    def styles(self, part: Slice) -> tuple[Style, ...]:
        """The styles in which a scene of this slice may show the concept; empty when it may not."""
        if self.hold == "new":
            return STYLES if part == "new" else ()
        if self.hold == "-":
            return STYLES
        trained: Style = "noto" if self.hold == "one-noto" else "fluent"
        return (("fluent",) if trained == "noto" else ("noto",)) if part == "style" else (trained,)


@dataclass(frozen=True, slots=True)
class Sprite:
    """A concept in one style."""

    concept: Concept
    style: Style

    def image(self, side: int) -> Image.Image:
        """RGBA picture of `side` x `side` pixels; shared, so never draw on it."""
        return _scaled(self.style, self.concept.index, side)


@cache
def concepts() -> tuple[Concept, ...]:
    """All concepts in the order of the atlases."""
    with open(ASSETS / "concepts.tsv", encoding="utf8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return tuple(Concept(i, row["name"], row["plural"], row["category"], row["hold"]) for i, row in enumerate(rows))


@cache
def categories() -> tuple[str, ...]:
    """Category names in order of first use."""
    return tuple(dict.fromkeys(concept.category for concept in concepts()))


def draw_slice(rng: random.Random, split: Split) -> Slice:
    """The slice of the next scene: always "seen" for train and val, a small share of the others for test."""
    if split != "test" or rng.random() >= UNSEEN_SHARE:
        return "seen"
    return "style" if rng.random() < 0.5 else "new"


def draw_sprites(rng: random.Random, part: Slice, number: int, category: str | None = None) -> list[Sprite]:
    """`number` sprites of distinct concepts; off the "seen" slice about half of them are held-out material."""
    pool = _pool(part, category)
    special = [c for c in pool if c.hold != "-" and (c.hold == "new") == (part == "new")] if part != "seen" else []
    chosen = rng.sample(special, min(len(special), -(-number // 2)))
    rest = [c for c in pool if c not in chosen and c.hold != "new"]
    chosen += rng.sample(rest, number - len(chosen))
    rng.shuffle(chosen)
    return [Sprite(concept, rng.choice(concept.styles(part))) for concept in chosen]


@cache
def _pool(part: Slice, category: str | None) -> tuple[Concept, ...]:
    return tuple(c for c in concepts() if c.styles(part) and category in (None, c.category))


@cache
def _atlas(style: Style) -> Image.Image:
    with Image.open(ASSETS / f"{style}.png") as picture:
        return picture.convert("RGBA")


@cache
def _scaled(style: Style, index: int, side: int) -> Image.Image:
    atlas = _atlas(style)
    columns = atlas.width // SPRITE_SIDE
    x, y = index % columns * SPRITE_SIDE, index // columns * SPRITE_SIDE
    picture = atlas.crop((x, y, x + SPRITE_SIDE, y + SPRITE_SIDE))
    return picture if side == SPRITE_SIDE else picture.resize((side, side), Image.Resampling.LANCZOS)


BACKGROUNDS = {  # name -> (top colour, bottom colour); all far enough from each other to be named
    "white": ((255, 255, 255), (240, 240, 240)),
    "gray": ((196, 198, 202), (172, 174, 178)),
    "pink": ((255, 205, 220), (250, 180, 203)),
    "yellow": ((255, 246, 170), (252, 232, 130)),
    "green": ((200, 240, 190), (170, 224, 160)),
    "blue": ((180, 215, 255), (150, 195, 250)),
    "purple": ((220, 200, 250), (198, 172, 240)),
    "black": ((64, 64, 72), (40, 40, 46)),
}


def background(name: str, width: int, height: int) -> Image.Image:
    """A fresh RGB canvas with a soft vertical gradient of the named colour (a key of BACKGROUNDS)."""
    return _gradient(name, width, height).copy()


@cache
def _gradient(name: str, width: int, height: int) -> Image.Image:
    top, bottom = BACKGROUNDS[name]
    ramp = Image.linear_gradient("L").resize((width, height))
    return Image.composite(Image.new("RGB", (width, height), bottom), Image.new("RGB", (width, height), top), ramp)


def place(canvas: Image.Image, sprite: Sprite, x: int, y: int, side: int) -> None:
    """Draws the sprite with its top left corner at (x, y) pixels."""
    picture = sprite.image(side)
    canvas.paste(picture, (x, y), picture)
