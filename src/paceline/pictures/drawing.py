"""Draws sprites over mottled backgrounds: the pixels behind every caption."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from PIL import Image, ImageOps

from paceline.tasks.material import BACKGROUNDS, Sprite, background

HUES = {"red": 0, "orange": 20, "yellow": 40, "green": 85, "blue": 150, "purple": 192, "pink": 230}  # of 256
TEXTURES = ("plain", "cloudy", "striped", "checked", "dotted")
GRAIN = {"plain": 4.0, "cloudy": 11.0, "striped": 4.0, "checked": 4.0, "dotted": 4.0}  # spread of the mottle, of 255
SWING = 17.0  # how far the dark half of a pattern lies below the light one, of 255


@dataclass(frozen=True, slots=True)
class Placed:
    """A sprite on a canvas: pixels of its side and of its top left corner."""

    sprite: Sprite
    side: int
    x: int
    y: int
    tint: str | None = None  # a key of HUES; None: its own colours
    mirrored: bool = False


def backdrop(colour: str, texture: str, side: int, rng: np.random.Generator) -> np.ndarray:
    """[side, side, 3] float32 of 0..255: a background colour with a pattern of its own, and mottled like paper."""
    canvas = np.asarray(background(colour, side, side), np.float32)
    return canvas + (_pattern(texture, side, rng) * SWING + mottle(side, GRAIN[texture], rng))[..., None]


def paint(canvas: np.ndarray, things: tuple[Placed, ...]) -> np.ndarray:
    """The canvas [H, W, 3] as bytes, with the things over it in order; they may stick out."""
    page = Image.fromarray(canvas.clip(0, 255).astype(np.uint8))
    for thing in things:
        picture = _look(thing.sprite, thing.side, thing.tint, thing.mirrored)
        page.paste(picture, (thing.x, thing.y), picture)
    return np.asarray(page)


def mottle(side: int, spread: float, rng: np.random.Generator) -> np.ndarray:
    """[side, side] float32; smooth noise of this spread (of 255) and about five pixels a grain."""
    coarse = rng.normal(0.0, spread * 1.5, (side // 5 + 2, side // 5 + 2)).astype(np.float32)
    return np.asarray(Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC))


def _pattern(texture: str, side: int, rng: np.random.Generator) -> np.ndarray:
    """[side, side]; 0 or -1, shifted by whole patches, so that it looks alike in every patch that it meets."""
    y, x = np.mgrid[:side, :side] + 4 * rng.integers(0, 4, (2, 1, 1))
    if texture == "striped":
        return -1.0 * ((x // 8) % 2)
    if texture == "checked":
        return -1.0 * ((x // 8 + y // 8) % 2)
    if texture == "dotted":
        return -1.0 * ((x % 16 < 4) & (y % 16 < 4) | (x % 16 // 4 == 2) & (y % 16 // 4 == 2))
    return np.zeros((side, side))


@lru_cache(maxsize=8192)
def _look(sprite: Sprite, side: int, tint: str | None, mirrored: bool) -> Image.Image:
    picture = sprite.image(side)
    if tint is not None:
        picture = _tinted(picture, HUES[tint])
    return ImageOps.mirror(picture) if mirrored else picture


def _tinted(picture: Image.Image, hue: int) -> Image.Image:
    """The picture with every colour that is not grey turned to one hue (of 256)."""
    hsv = np.array(picture.convert("RGB").convert("HSV"))
    hsv[..., 0] = np.where(hsv[..., 1] > 50, hue, hsv[..., 0])
    turned = Image.fromarray(hsv, "HSV").convert("RGB")
    turned.putalpha(picture.getchannel("A"))
    return turned


@cache
def natural_colour(sprite: Sprite) -> str | None:
    """The word for the colour that covers most of a sprite; None when no colour does."""
    pixels = np.asarray(sprite.image(32)).reshape(-1, 4)
    names = [_colour_word(*pixel[:3] / 255.0) for pixel in pixels if pixel[3] > 128]
    word = max(sorted(set(names)), key=names.count)
    return word if names.count(word) > 0.5 * len(names) else None


def _colour_word(red: float, green: float, blue: float) -> str:
    hue, saturation, value = colorsys.rgb_to_hsv(red, green, blue)
    if value < 0.25:
        return "black"
    if saturation < 0.18:
        return "white" if value > 0.82 else "gray"
    if 0.02 < hue < 0.12 and value < 0.75:
        return "brown"
    return min(HUES, key=lambda name: min(abs(hue - HUES[name] / 256), 1 - abs(hue - HUES[name] / 256)))


COLOURS = tuple(BACKGROUNDS)
