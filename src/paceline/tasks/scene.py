"""The nouns of the suite: a scene is pictures plus what can be asked about them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from PIL import Image

Split = Literal["train", "val", "test"]
Slice = Literal["seen", "style", "new"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One question about a scene with its answer; the wording of the answer is fixed by the wording of the question."""

    kind: str  # question type inside the family, e.g. "count"
    question: str
    answer: str
    items: tuple[str, ...]  # the checkable facts inside `answer`, in order of appearance; scored one by one


@dataclass(frozen=True, slots=True)
class Scene:
    """Pictures (0 to 4, RGB) and the exchanges that they allow; equal for equal (task, split, index)."""

    task: str  # family name: "mmt", "seed", ...
    split: Split
    index: int
    images: tuple[Image.Image, ...]
    longest_edge: int  # pixels; what the processor's longest edge must be for this family: 96, 192 or 384
    exchanges: tuple[Exchange, ...]
    slice: Slice = "seen"  # material: seen in training, seen in another style or font, never seen


class Family(Protocol):
    """A task family: draws a scene from a random stream and the material of one split."""

    name: str
    longest_edge: int

    def draw(self, rng: random.Random, split: Split) -> tuple[Sequence[Image.Image], Sequence[Exchange], Slice]: ...
