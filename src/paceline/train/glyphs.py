"""Reading before words: the tower learns which letter every 8-pixel patch of lettered tiles shows.

A word names itself once in a dozen tokens; its letters name themselves in every patch, which makes reading cheap to
learn. Letters come before words, as things came before sentences.
"""

from __future__ import annotations

import random
import string
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor, nn
from torch.nn import functional

from paceline.tasks import lettering
from paceline.train.loop import Outcome
from paceline.train.packing import normalise

PATCH, PATCHES, ROW = 8, 12, 32  # pixels of a patch, patches along a tile, pixels of a line
LETTERS = string.ascii_letters + string.digits
CAP_HEIGHT = 0.7  # of the size, above the base line


@dataclass(frozen=True, slots=True)
class GlyphTiles:
    """Tiles and the letter at the middle of each patch: 0 blank, then `LETTERS`."""

    name: str
    pixels: Tensor  # [B, 3, 96, 96]
    labels: Tensor  # [B, 144]


@dataclass(frozen=True, slots=True)
class GlyphSource:
    """Random lettered tiles of the given words, a function of (seed, step)."""

    words: tuple[str, ...]
    seed: int
    tiles: int

    def micro_batches(self, step: int) -> list[GlyphTiles]:
        """Return the one batch of a step."""
        rng = random.Random(f"glyphs/{self.seed}/{step}")
        drawn = [lettered(rng, self.words) for _ in range(self.tiles)]
        pixels = normalise(np.stack([np.asarray(picture) for picture, _ in drawn]))
        return [GlyphTiles(f"glyphs step {step}", pixels, torch.from_numpy(np.stack([label for _, label in drawn])))]


def lettered(rng: random.Random, words: tuple[str, ...]) -> tuple[Image.Image, np.ndarray]:
    """A tile of three lines cut out of longer ones, and the letter of every patch, [144]."""
    side, labels = PATCH * PATCHES, np.zeros((PATCHES, PATCHES), dtype=np.int64)
    picture, ink = lettering.paper(rng, side, side)
    pen, face = ImageDraw.Draw(picture), rng.choice(lettering.SEEN)
    for line in range(side // ROW):
        x, size, base = float(rng.randint(-24, 20)), rng.randint(14, 21), line * ROW + rng.randint(18, 27)
        while x < side:
            text = str(rng.randrange(1000)) if rng.random() < 0.25 else rng.choice(words)
            lettering.write(pen, x, base, text, face, size, ink)
            for place, letter in enumerate(text):
                left, right = (x + lettering.width(text[:end], face, size) for end in (place, place + 1))
                _label(labels, left, right, base - CAP_HEIGHT * size, base, 1 + LETTERS.index(letter))
            x += lettering.width(text, face, size) + rng.choice((5, 5, 12, 30))
    return picture, labels.reshape(-1)


def _label(labels: np.ndarray, left: float, right: float, top: float, bottom: float, letter: int) -> None:
    """Write the letter into the patches whose middle the box covers."""
    middle = (np.arange(PATCHES) + 0.5) * PATCH
    rows, columns = (middle >= top) & (middle < bottom), (middle >= left) & (middle < right)
    labels[np.ix_(rows, columns)] = letter


class GlyphNamer(nn.Module):
    """The tower of a target with a linear head over its patches; the head is thrown away."""

    def __init__(self, target: nn.Module, width: int, seed: int) -> None:
        super().__init__()
        self.vision = target.model.vision_model  # type: ignore[union-attr]
        self.head = nn.Linear(width, 1 + len(LETTERS))
        with torch.no_grad():
            self.head.weight.normal_(0.0, 0.02, generator=torch.Generator().manual_seed(seed))
            self.head.bias.zero_()

    def forward(self, pixels: Tensor) -> Tensor:
        """Return letter scores [B, 144, letters] of tiles [B, 3, 96, 96]."""
        return self.head(self.vision(pixel_values=pixels).last_hidden_state)


def name_glyphs(model: nn.Module, batch: GlyphTiles) -> Outcome:
    """Cross-entropy over all patches; blank ones weigh a tenth."""
    scores, labels = model(batch.pixels).flatten(0, 1), batch.labels.flatten()
    each = functional.cross_entropy(scores, labels, reduction="none")
    loss = (each * torch.where(labels > 0, 1.0, 0.1)).sum()
    inked = labels > 0
    right = (scores.detach().argmax(-1) == labels)[inked]
    return Outcome(loss, int(inked.sum()), {"accuracy": float(right.sum())})
