"""Captioned pictures drawn by number: one thing, two things, several; with colours, sizes, places and backgrounds."""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

from paceline.pictures.drawing import COLOURS, HUES, TEXTURES, Placed, backdrop, natural_colour, paint
from paceline.tasks.material import STYLES, Sprite, concepts

Part = Literal["train", "seen", "unseen"]
SIDE = 64  # pixels
STEP = 4  # pixels; things stand on the grid of patches
LARGE, SMALL = 56, 28  # pixels of a thing; few sizes, so that each is seen often enough to be learnt
CENTRED = 0.75  # share of large things in the middle; the others stand up to a patch away from it
TINTED = 0.15  # share of things in a colour that is not their own
MIRRORED = 0.15  # share of things drawn the other way round
PLACES = {  # word -> (column, row) of three
    "at the top left": (0, 0), "at the top": (1, 0), "at the top right": (2, 0), "on the left": (0, 1),
    "in the middle": (1, 1), "on the right": (2, 1), "at the bottom left": (0, 2), "at the bottom": (1, 2),
    "at the bottom right": (2, 2),
}  # fmt: skip
NUMBERS = {2: "two", 3: "three", 4: "four"}


@dataclass(frozen=True, slots=True)
class Captioned:
    """A picture with the words for it. `seen`: every combination it shows may occur in training."""

    caption: str
    pixels: np.ndarray  # [64, 64, 3] bytes
    seen: bool


@dataclass(frozen=True, slots=True)
class _Spec:
    words: str  # what is shown and where, without background and style
    things: tuple[Placed, ...]
    held: bool  # shows a combination that training leaves out


def captioned(part: Part, index: int) -> Captioned:
    """The picture with this number. "seen" draws what "train" may show, from other numbers; "unseen" what it may not.

    Unseen are a thing in the style, or in the colour, or beside the other thing, that training never shows together.
    """
    scene = _scene(part, index)
    canvas = backdrop(scene.colour, scene.texture, SIDE, np.random.default_rng(scene.noise))
    return Captioned(scene.caption, paint(canvas, scene.spec.things), not scene.spec.held)


def caption(part: Part, index: int) -> str:
    """The words for the picture with this number, without drawing it."""
    return _scene(part, index).caption


@dataclass(frozen=True, slots=True)
class _Scene:
    caption: str
    spec: _Spec
    colour: str
    texture: str
    noise: int  # seed of the mottle


def _scene(part: Part, index: int) -> _Scene:
    rng = random.Random(f"pictures/{part}/{index}")
    while True:
        spec = _draw(rng)
        if spec.held == (part == "unseen"):
            break
    colour, texture = rng.choice(COLOURS), rng.choice(TEXTURES)
    said = spec.words + behind(rng, colour, texture)
    style = spec.things[0].sprite.style
    if spec.held or rng.random() < 0.4:
        said += f", {style}"
    return _Scene(said, spec, colour, texture, rng.getrandbits(64))


def behind(rng: random.Random, colour: str, texture: str) -> str:
    """Words for the background, in one picture of three none."""
    if rng.random() < 0.35:
        return ""
    word = f"{texture} " if texture != "plain" and rng.random() < 0.6 else ""
    return f" on {article(word + colour)} background"


def _draw(rng: random.Random) -> _Spec:
    """One thing (large, or small at a place), two things, or two to four of a kind."""
    style = rng.choice(STYLES)
    roll = rng.random()
    if roll < 0.72:
        return _single(rng, style, large=roll < 0.6)
    return _pair(rng, style) if roll < 0.88 else _several(rng, style)


def _single(rng: random.Random, style: Literal["noto", "fluent"], large: bool) -> _Spec:
    sprite = Sprite(rng.choice(concepts()), style)
    tint, word = coloured(rng, sprite)
    side = LARGE if large else SMALL
    size = ("big " if large else "small ") if rng.random() < 0.4 else ""
    place = ""
    if large:
        middle = (SIDE - side) // 2
        x, y = (middle, middle) if rng.random() < CENTRED else (_anywhere(rng, side), _anywhere(rng, side))
    else:
        place, (column, row) = rng.choice(sorted(PLACES.items()))
        x, y = (round((SIDE - side) * cell / 2 / STEP) * STEP for cell in (column, row))
    words = f"{article(size + word + sprite.concept.name)}{' ' + place if place else ''}"
    thing = Placed(sprite, side, x, y, tint, rng.random() < MIRRORED)
    return _Spec(words, (thing,), held(sprite, tint))


def _pair(rng: random.Random, style: Literal["noto", "fluent"]) -> _Spec:
    first, second = (Sprite(concept, style) for concept in rng.sample(concepts(), 2))
    (tint_a, word_a), (tint_b, word_b) = coloured(rng, first), coloured(rng, second)
    upright = rng.random() < 0.4
    link = rng.choice((" and ", " above " if upright else " left of "))
    a, b = [
        Placed(sprite, SMALL, *_half(rng, SMALL, number, upright), tint, rng.random() < MIRRORED)
        for number, (sprite, tint) in enumerate(((first, tint_a), (second, tint_b)))
    ]
    words = f"{article(word_a + first.concept.name)}{link}{article(word_b + second.concept.name)}"
    together = "|".join(sorted((first.concept.name, second.concept.name)))
    left = held(first, tint_a) or held(second, tint_b) or left_out(together, 8)
    return _Spec(words, (a, b), left)


def _several(rng: random.Random, style: Literal["noto", "fluent"]) -> _Spec:
    sprite = Sprite(rng.choice(concepts()), style)
    tint, word = coloured(rng, sprite)
    number = rng.choice(sorted(NUMBERS))
    corners = rng.sample([(x, y) for x in (0, 32) for y in (0, 32)], number)
    things = tuple(
        Placed(sprite, SMALL, x + STEP * rng.randint(0, 1), y + STEP * rng.randint(0, 1), tint) for x, y in corners
    )
    return _Spec(f"{NUMBERS[number]} {word}{sprite.concept.plural}", things, held(sprite, tint))


def coloured(rng: random.Random, sprite: Sprite) -> tuple[str | None, str]:
    """(tint, word and a space): now and then a tint, else the thing's own colour, named or not."""
    if rng.random() < TINTED:
        tint = rng.choice(sorted(HUES))
        return tint, f"{tint} "
    own = natural_colour(sprite)
    return None, f"{own} " if own and rng.random() < 0.4 else ""


def held(sprite: Sprite, tint: str | None) -> bool:
    """Whether training leaves out this thing in this style, or in this colour."""
    name = sprite.concept.name
    return left_out(f"{name}|{sprite.style}", 12) or (tint is not None and left_out(f"{name}|{tint}", 8))


def left_out(combination: str, one_in: int) -> bool:
    """Whether training leaves out this combination: one in so many, by its name alone."""
    return zlib.crc32(combination.encode()) % one_in == 0


def _half(rng: random.Random, side: int, number: int, upright: bool) -> tuple[int, int]:
    """Top left corner of a thing in the first or second half of the canvas."""
    along = number * 32 + STEP * rng.randint(0, (32 - side) // STEP)
    across = STEP * rng.randint(2, (SIDE - side) // STEP - 2)
    return (across, along) if upright else (along, across)


def _anywhere(rng: random.Random, side: int) -> int:
    return STEP * rng.randint(0, (SIDE - side) // STEP)


def article(words: str) -> str:
    """The words behind "a" or "an"."""
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"
