"""What a visual generator is taught: a medium draws captioned pixels by number, on a grid of patches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from paceline.pictures import captions, clips


@dataclass(frozen=True, slots=True)
class Medium:
    """Grid of codes in raster order (rows and columns, frames first for clips) and the drawing of samples."""

    layout: tuple[int, ...]  # H, W or T, H, W, in patches
    patch: int  # pixels
    caption: Callable[[captions.Part, int], str]  # (part, number), without drawing
    draw: Callable[[captions.Part, int], tuple[str, np.ndarray]]  # (part, number) -> caption, bytes [(T,) H, W, 3]


def picture(part: captions.Part, number: int) -> tuple[str, np.ndarray]:
    """Caption and pixels [64, 64, 3] of a picture."""
    drawn = captions.captioned(part, number)
    return drawn.caption, drawn.pixels


def clip(part: captions.Part, number: int) -> tuple[str, np.ndarray]:
    """Caption and pixels [8, 32, 32, 3] of a clip."""
    drawn = clips.clip(part, number)
    return drawn.caption, drawn.pixels


MEDIA = {"picture": Medium((16, 16), 4, captions.caption, picture), "clip": Medium((8, 8, 8), 4, clips.caption, clip)}
