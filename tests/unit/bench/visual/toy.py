"""A visual target without weights: a synthetic grid whose codes are grey levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from paceline.bench.grid import StreamTarget, synthetic_grid
from paceline.core import Prompt
from paceline.errors import UsageError
from paceline.law import Law
from paceline.layout import Layout
from paceline.sampling import Sampling

VOCAB = 16


@dataclass(frozen=True)
class Toy:
    """Draws frames of `side` x `side` codes, each a pixel; captions differ in the length of their prompt alone."""

    layout: Layout
    stream: StreamTarget
    name: str = "toy"
    dtype = torch.float32
    device = torch.device("cpu")
    defaults = {"guidance": 1.0, "temperature": 1.0, "top_k": 0}  # noqa: RUF012
    model = torch.nn.Identity()
    vocab_size = VOCAB

    def open(self, *args: Any, **kwargs: Any) -> Any:
        return self.stream.open(*args, **kwargs)

    def encode_caption(self, caption: str) -> Prompt:
        return Prompt(torch.zeros(len(caption.split()), dtype=torch.long))

    def guided(self, scale: float) -> Toy:
        if scale != 1:
            raise UsageError(f"guidance is {scale}, but this target has no unconditional branch")
        return self

    def sized(self, width: int, height: int) -> Toy:
        if (width, height) != (self.layout.width, self.layout.height):
            raise UsageError(f"toy cannot draw {width} x {height}")
        return self

    def rule_law(self, sampling: Sampling) -> Callable[[Tensor], Law]:
        return sampling.law

    def frames(self, tokens: Sequence[int]) -> list[Any]:
        grid = torch.tensor(list(tokens)).view(self.layout.frames, self.layout.height, self.layout.width)
        levels = (grid * 255 // (VOCAB - 1)).where(grid >= 0, 128).to(torch.uint8).numpy()
        return [Image.fromarray(frame).convert("RGB") for frame in levels]


def toy(side: int = 4, frames: int = 1) -> Toy:
    layout = Layout.raster(side, side, frames, codes=(0, VOCAB))
    stream = synthetic_grid(side, VOCAB)
    return Toy(layout, StreamTarget(stream.logits, VOCAB, layout.size))
