"""Captioned clips drawn by number: one or two things that move over a background that stands still."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from paceline.pictures.captions import Part, article, behind, coloured, held, left_out
from paceline.pictures.drawing import COLOURS, TEXTURES, Placed, backdrop, mottle, paint
from paceline.tasks.material import STYLES, Sprite, concepts

SIDE, FRAMES = 32, 8  # pixels, and frames a clip
FLICKER = 2.5  # spread of the noise that is new in every frame, of 255: no two frames of a camera are equal
WAYS = {"right": (1, 0), "left": (-1, 0), "down": (0, 1), "up": (0, -1)}
PACES = {"slowly": 2, "fast": 4}  # pixels a frame


@dataclass(frozen=True, slots=True)
class CaptionedClip:
    """Frames with the words for them. `seen`: every combination they show may occur in training."""

    caption: str
    pixels: np.ndarray  # [8, 32, 32, 3] bytes
    seen: bool


@dataclass(frozen=True, slots=True)
class _Mover:
    """A thing with its start and its step, in pixels, and the words for both."""

    thing: Placed
    step: tuple[int, int]
    words: str

    def at(self, frame: int) -> Placed:
        thing, (dx, dy) = self.thing, self.step
        x, y = thing.x + dx * frame, thing.y + dy * frame
        return Placed(thing.sprite, thing.side, x, y, thing.tint, thing.mirrored)


def clip(part: Part, index: int) -> CaptionedClip:
    """The clip with this number; parts as those of pictures: "unseen" shows what training never shows together."""
    scene = _scene(part, index)
    noise = np.random.default_rng(scene.noise)
    still = backdrop(scene.colour, scene.texture, SIDE, noise)
    frames = [
        paint(still + mottle(SIDE, FLICKER, noise)[..., None], tuple(mover.at(frame) for mover in scene.movers))
        for frame in range(FRAMES)
    ]
    return CaptionedClip(scene.caption, np.stack(frames), scene.seen)


def caption(part: Part, index: int) -> str:
    """The words for the clip with this number, without drawing it."""
    return _scene(part, index).caption


@dataclass(frozen=True, slots=True)
class _Scene:
    caption: str
    movers: tuple[_Mover, ...]
    colour: str
    texture: str
    noise: int  # seed of mottle and flicker
    seen: bool


def _scene(part: Part, index: int) -> _Scene:
    rng = random.Random(f"clips/{part}/{index}")
    while True:
        movers, left = _draw(rng)
        if left == (part == "unseen"):
            break
    colour, texture = rng.choice(COLOURS), rng.choice(TEXTURES)
    said = " and ".join(mover.words for mover in movers) + behind(rng, colour, texture)
    if left or rng.random() < 0.4:
        said += f", {movers[0].thing.sprite.style}"
    return _Scene(said, tuple(movers), colour, texture, rng.getrandbits(64), not left)


def _draw(rng: random.Random) -> tuple[list[_Mover], bool]:
    """Movers, and whether training leaves them out."""
    style = rng.choice(STYLES)
    sprites = [Sprite(concept, style) for concept in rng.sample(concepts(), 1 if rng.random() < 0.75 else 2)]
    movers = [_mover(rng, sprite, number, len(sprites)) for number, sprite in enumerate(sprites)]
    together = "|".join(sorted(sprite.concept.name for sprite in sprites))
    left = any(held(mover.thing.sprite, mover.thing.tint) for mover in movers)
    return movers, left or (len(sprites) == 2 and left_out(together, 8))


def _mover(rng: random.Random, sprite: Sprite, number: int, of: int) -> _Mover:
    """A thing that crosses the frame; of two, each keeps to its own half."""
    tint, word = coloured(rng, sprite)
    side = rng.choice((20, 24, 28)) if of == 1 else 16
    name = article(word + sprite.concept.name)
    if rng.random() < 0.2:
        x, y = (4 * rng.randint(0, (SIDE - side) // 4) for _ in range(2))
        return _Mover(Placed(sprite, side, x, 16 * number if of == 2 else y, tint), (0, 0), f"{name} standing still")
    way = rng.choice(sorted(WAYS) if of == 1 else ["left", "right"])
    pace = rng.choice(sorted(PACES))
    dx, dy = (PACES[pace] * part for part in WAYS[way])
    across = 16 * number if of == 2 else 4 * rng.randint(0, (SIDE - side) // 4)
    start = _start(side, dx or dy)
    x, y = (start, across) if dx else (across, start)
    said = f"{name} moving {way}" + (f" {pace}" if rng.random() < 0.7 else "")
    return _Mover(Placed(sprite, side, x, y, tint, way == "right"), (dx, dy), said)


def _start(side: int, step: int) -> int:
    """Where a thing starts, so that it is about the middle of the frame in the middle of the clip."""
    middle = (SIDE - side) // 2
    return (middle - step * (FRAMES - 1) // 2) // 2 * 2
