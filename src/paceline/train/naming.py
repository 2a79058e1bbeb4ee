"""Stage 0 of a target: tower and connector learn to name what each 32-pixel cell of a tile shows, before any text.

Dense labels make this cheap: nine answers a tile, where a caption teaches one.
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

from paceline.tasks import lettering, material
from paceline.train.loop import Outcome
from paceline.train.packing import normalise

CELL, SIDE = 32, 3  # pixels of a cell, cells along a tile
GLYPHS = string.digits + string.ascii_letters
GLYPH_SHARE, EMPTY_SHARE = 0.15, 0.15
SIZES = (22, 24, 26, 28, 30, 32)  # pixels of a drawn sprite


@dataclass(frozen=True, slots=True)
class Cells:
    """Tiles and what each cell shows: 0 nothing, then concepts, then glyphs."""

    name: str
    pixels: Tensor  # [B, 1, 3, 96, 96]
    labels: Tensor  # [B, 9]


@dataclass(frozen=True, slots=True)
class CellSource:
    """Random tiles of `batch` pictures a step, a function of (seed, step)."""

    seed: int
    batch: int

    def micro_batches(self, step: int) -> list[Cells]:
        """Return the one batch of this step."""
        rng = random.Random(f"naming/{self.seed}/{step}")
        drawn = [tile(rng) for _ in range(self.batch)]
        tiles = np.stack([np.asarray(picture) for picture, _ in drawn])
        return [Cells(f"naming step {step}", normalise(tiles)[:, None], torch.tensor([labels for _, labels in drawn]))]


def classes() -> int:
    """Number of labels: nothing, every concept, every glyph."""
    return 1 + len(material.concepts()) + len(GLYPHS)


def tile(rng: random.Random) -> tuple[Image.Image, list[int]]:
    """Draw a tile of 3 x 3 cells; return it and the label of every cell in reading order."""
    plain = rng.random() < 0.75
    if plain:
        canvas = material.background(rng.choice(list(material.BACKGROUNDS)), CELL * SIDE, CELL * SIDE)
        ink = (250, 250, 250) if max(canvas.getpixel((0, 0))) < 100 else (20, 20, 24)  # type: ignore[arg-type]
    else:
        canvas, ink = lettering.paper(rng, CELL * SIDE, CELL * SIDE)
    pen = ImageDraw.Draw(canvas)
    sprites = material.draw_sprites(rng, "seen", SIDE * SIDE)
    labels = []
    for cell, sprite in enumerate(sprites):
        x, y = cell % SIDE * CELL, cell // SIDE * CELL
        chance = rng.random()
        if chance < EMPTY_SHARE:
            labels.append(0)
        elif chance < EMPTY_SHARE + GLYPH_SHARE:
            glyph = rng.randrange(len(GLYPHS))
            face, place = rng.choice(lettering.SEEN), (x + rng.randint(9, 23), y + rng.randint(21, 27))
            lettering.write(pen, *place, GLYPHS[glyph], face, rng.randint(14, 22), ink, anchor="ms")
            labels.append(1 + len(material.concepts()) + glyph)
        else:
            side = rng.choice(SIZES)
            slack = CELL - side
            material.place(canvas, sprite, x + rng.randint(0, slack), y + rng.randint(0, slack), side)
            labels.append(1 + sprite.concept.index)
    return canvas, labels


class CellNamer(nn.Module):
    """The vision half of a target with a linear head over the 2 x 2 tokens of a cell; the head is thrown away."""

    def __init__(self, target: nn.Module, width: int, seed: int) -> None:
        super().__init__()
        self.vision, self.connector = target.model.vision_model, target.model.connector  # type: ignore[union-attr]
        self.head = nn.Linear(4 * width, classes())
        with torch.no_grad():
            self.head.weight.normal_(0.0, 0.02, generator=torch.Generator().manual_seed(seed))
            self.head.bias.zero_()

    def forward(self, pixels: Tensor) -> Tensor:
        """Return class scores [B, 9, classes] of tiles [B, 1, 3, 96, 96]."""
        tokens = self.connector(self.vision(pixel_values=pixels[:, 0]).last_hidden_state)  # [B, 36, width]
        batch, _, width = tokens.shape
        cells = tokens.view(batch, SIDE, 2, SIDE, 2, width).transpose(2, 3).reshape(batch, SIDE * SIDE, 4 * width)
        return self.head(cells)


def name_cells(model: nn.Module, batch: Cells) -> Outcome:
    """Cross-entropy over all cells of a batch."""
    scores = model(batch.pixels).flatten(0, 1)
    labels = batch.labels.flatten()
    right = scores.detach().argmax(-1) == labels
    shown = (labels > 0) & (labels <= len(material.concepts()))
    return Outcome(
        functional.cross_entropy(scores, labels, reduction="sum"),
        len(labels),
        {"accuracy": float(right.sum()), "#object_right": float(right[shown].sum()), "#objects": float(shown.sum())},
    )
