"""The suite M6: picture scenes drawn by program, with questions whose answers are known.

`scene(task, split, index)` is deterministic; families load on first use.
"""

from __future__ import annotations

import difflib
import importlib
import random
from dataclasses import dataclass
from functools import cache

from PIL import Image

from paceline.tasks.scene import Exchange, Family, Scene, Slice, Split

FAMILIES = {
    "mmt": "paceline.tasks.mmt:Mmt",
    "seed": "paceline.tasks.seed:Seed",
    "science": "paceline.tasks.science:Science",
    "ocr": "paceline.tasks.ocr:Ocr",
    "chart": "paceline.tasks.chart:Chart",
    "math": "paceline.tasks.math:Math",
    "long": "paceline.tasks.long:Long",
    "human": "paceline.tasks.human:Human",
}
SIX = ("mmt", "seed", "science", "ocr", "chart", "math")  # the families of the geometric mean


@dataclass(frozen=True, slots=True)
class Sample:
    """One exchange of a scene: what a benchmark asks."""

    task: str
    split: Split
    index: int
    images: tuple[Image.Image, ...]
    longest_edge: int
    exchange: Exchange
    slice: Slice


@cache
def family(task: str) -> Family:
    """The family of that name; an unknown name raises ValueError with the nearest one."""
    if task not in FAMILIES:
        near = difflib.get_close_matches(task, FAMILIES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown task {task!r}{hint} (known: {', '.join(FAMILIES)})")
    module, name = FAMILIES[task].split(":")
    return getattr(importlib.import_module(module), name)()


def scene(task: str, split: Split, index: int) -> Scene:
    """The scene with this number; equal arguments give equal pictures and texts."""
    if split not in ("train", "val", "test"):
        raise ValueError(f"unknown split {split!r} (known: train, val, test)")
    drawn = family(task)
    images, exchanges, part = drawn.draw(random.Random(f"{task}/{split}/{index}"), split)
    return Scene(task, split, index, tuple(images), drawn.longest_edge, tuple(exchanges), part)


def prompts(task: str, split: Split, limit: int) -> list[Sample]:
    """One exchange from each of the first `limit` scenes, the kinds taking turns."""
    samples: list[Sample] = []
    for index in range(limit):
        drawn = scene(task, split, index)
        exchange = drawn.exchanges[index % len(drawn.exchanges)]
        samples.append(Sample(task, split, index, drawn.images, drawn.longest_edge, exchange, drawn.slice))
    return samples
