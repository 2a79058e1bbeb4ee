"""Alignment beside joint training: a picture token shall look like the word for what it shows, and carry its place.

Tiles with dense labels (a thing, a word or a digit under every token) ask three things of a target, and none adds a
parameter: the connector's token is nearest to its word among the text embeddings; it is nearest to the code of its
place among fixed random codes; and the language model, standing at that token, says the word. Copying from pictures is
then copying words, which a language model learns fast.
"""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor, nn
from torch.nn import functional

from paceline.tasks import lettering, material
from paceline.train import naming
from paceline.train.loop import Outcome, Source
from paceline.train.packing import PackedBatch, normalise
from paceline.train.vocabulary import BEGIN, FAKE, GLOBAL, IMAGE, USER

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TOKEN, ROW, TOKENS = 16, 32, 6  # pixels of a token, of a line of text; tokens along a tile
SHARPNESS = 20.0  # cosines are multiplied by this before the softmax
IGNORED = -100
NUMBER_SHARE = 0.25
WORD = re.compile("Ġ([A-Za-z][a-z]{1,9})")


@dataclass(frozen=True, slots=True)
class AlignmentConfig:
    """Tiles a step (half of things, half of text) from `first_step` until before `last_step`."""

    first_step: int
    last_step: int
    tiles: int

    def __post_init__(self) -> None:
        if not 0 <= self.first_step <= self.last_step or self.tiles < 2:
            raise ValueError("first_step must not be after last_step, and tiles must be at least 2")


@dataclass(frozen=True, slots=True)
class AlignedTiles:
    """Single tiles in the prompt that a target sees them in, with the word under every token."""

    name: str
    ids: Tensor  # [B, 5 + 36]
    pixels: Tensor  # [B, 1, 3, 96, 96]
    labels: Tensor  # [B, 36] token ids; IGNORED where nothing is asked


@dataclass(frozen=True, slots=True)
class AlignmentSource:
    """Random labelled tiles, a function of (seed, step)."""

    tokenizer: PreTrainedTokenizerFast
    seed: int
    tiles: int

    def batch(self, step: int) -> AlignedTiles:
        """Return the tiles of a step."""
        rng = random.Random(f"alignment/{self.seed}/{step}")
        words = _words(self.tokenizer)
        digits = [(d, int(self.tokenizer.convert_tokens_to_ids(d))) for d in string.digits]
        drawn = [_things(rng, self.tokenizer) if i % 2 else _text(rng, words, digits) for i in range(self.tiles)]
        begin, user, fake, whole, image = (
            int(self.tokenizer.convert_tokens_to_ids(token)) for token in (BEGIN, USER, FAKE, GLOBAL, IMAGE)
        )
        prompt = torch.tensor([begin, user, fake, whole, *[image] * TOKENS**2, fake])
        pixels = normalise(np.stack([np.asarray(picture) for picture, _ in drawn]))[:, None]
        labels = torch.from_numpy(np.stack([labels for _, labels in drawn]))
        return AlignedTiles(f"alignment step {step}", prompt.expand(self.tiles, -1), pixels, labels)


@dataclass(frozen=True, slots=True)
class Together:
    """A `Source` that adds alignment tiles to the steps of another one."""

    scenes: Source[PackedBatch]
    tiles: AlignmentSource
    config: AlignmentConfig

    def micro_batches(self, step: int) -> list[PackedBatch | AlignedTiles]:
        """Return the scenes of a step, and tiles while alignment lasts."""
        more = [self.tiles.batch(step)] if self.config.first_step <= step < self.config.last_step else []
        return [*self.scenes.micro_batches(step), *more]


def align(model: nn.Module, batch: AlignedTiles) -> Outcome:
    """Sum of the three losses over all labelled tokens (places: over all tokens, at half weight)."""
    inner: Any = model.model
    image = inner.get_image_features(batch.pixels, return_dict=True)
    looks = functional.normalize(torch.stack(list(image.pooler_output)), dim=-1)  # [B, 36, W]
    hidden = inner(input_ids=batch.ids, mm_encoder_outputs={"image": image}, use_cache=False).last_hidden_state
    asked = batch.labels != IGNORED
    labels, head = batch.labels[asked], model.lm_head
    near = SHARPNESS * looks[asked] @ functional.normalize(head.weight.detach(), dim=-1).T  # type: ignore[union-attr]
    said = head(hidden[:, 4:-1][asked])  # type: ignore[operator]
    places = SHARPNESS * looks @ place_codes(looks.shape[-1]).to(looks).T  # [B, 36, 36]
    where = torch.arange(TOKENS**2).expand(len(looks), -1)
    loss = (
        functional.cross_entropy(near, labels, reduction="sum")
        + functional.cross_entropy(said, labels, reduction="sum")
        + 0.5 * functional.cross_entropy(places.flatten(0, 1), where.flatten(), reduction="sum")
    )
    sums = {
        "#near_right": float((near.argmax(-1) == labels).sum()),
        "#said_right": float((said.argmax(-1) == labels).sum()),
        "#place_right": float((places.argmax(-1) == where).float().mean() * len(labels)),
        "#aligned": float(len(labels)),
    }
    return Outcome(loss, len(labels), sums)


def place_codes(width: int) -> Tensor:
    """The fixed random unit vector of each of the 36 places in a tile, [36, width]."""
    return functional.normalize(torch.randn(TOKENS**2, width, generator=torch.Generator().manual_seed(36)), dim=-1)


def _words(tokenizer: PreTrainedTokenizerFast) -> list[tuple[str, int]]:
    """Words that are one token with the space before them, with that token's id, in order of id."""
    found = ((WORD.fullmatch(token), index) for token, index in tokenizer.get_vocab().items())
    return sorted(((match[1], index) for match, index in found if match), key=lambda pair: pair[1])


def _things(rng: random.Random, tokenizer: PreTrainedTokenizerFast) -> tuple[Image.Image, np.ndarray]:
    """A tile of 3 x 3 cells; all four tokens of a cell are asked for the first token of what it shows."""
    picture, cells = naming.tile(rng)
    names = ["nothing", *(concept.name for concept in material.concepts())]
    texts = [f" {names[label]}" if label < len(names) else naming.GLYPHS[label - len(names)] for label in cells]
    ids = np.asarray([tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in texts], dtype=np.int64)
    side = naming.SIDE
    return picture, ids.reshape(side, 1, side, 1).repeat(2, 1).repeat(2, 3).reshape(-1)


def _text(
    rng: random.Random, words: list[tuple[str, int]], digits: list[tuple[str, int]]
) -> tuple[Image.Image, np.ndarray]:
    """A tile of three lines of words and numbers, cut out of longer lines; blank tokens are not asked."""
    side, labels = TOKEN * TOKENS, np.full((TOKENS, TOKENS), IGNORED, dtype=np.int64)
    picture, ink = lettering.paper(rng, side, side)
    pen, face = ImageDraw.Draw(picture), rng.choice(lettering.SEEN)
    for line in range(side // ROW):
        x, size, base = float(rng.randint(-24, 30)), rng.randint(15, 20), line * ROW + rng.randint(20, 26)
        while x < side:
            number = rng.random() < NUMBER_SHARE
            parts = rng.choices(digits, k=rng.randint(1, 3)) if number else [rng.choice(words)]
            for text, index in parts:
                width = lettering.width(text, face, size)
                lettering.write(pen, x, base, text, face, size, ink)
                if min(x + width, side) - max(x, 0) >= 0.7 * width:
                    _label(labels[2 * line : 2 * line + 2], x, x + width, index, middle=number)
                x += width
            x += rng.choice((5, 5, 12, 30, 60))
    return picture, labels.reshape(-1)


def _label(rows: np.ndarray, left: float, right: float, index: int, middle: bool) -> None:
    """Ask the tokens, in both rows of a line, whose middle (or most of whose width) lies between left and right."""
    for column in range(TOKENS):
        centre = (column + 0.5) * TOKEN
        overlap = min(right, (column + 1) * TOKEN) - max(left, column * TOKEN)
        if left <= centre < right if middle else overlap >= 0.6 * TOKEN:
            rows[:, column] = index
