"""Alignment beside joint training: a picture token shall look like the word for what it shows, and carry its place.

Tiles with dense labels (a thing, a word or a digit under every region of tokens) ask three things of a target, and none
adds a parameter: the sum of a region's tokens is nearest to its word among the text embeddings; each token is nearest
to the code of its place among fixed random codes; and the language model, standing at the region's last token, says the
word. Copying from pictures is then copying words, which a language model learns fast.
"""

from __future__ import annotations

import random
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor, nn
from torch.nn import functional

from paceline.tasks import chart, lettering, material, ocr, tables
from paceline.train import naming
from paceline.train.loop import LoopConfig, Outcome, Source
from paceline.train.packing import PackedBatch, normalise
from paceline.train.vocabulary import BEGIN, FAKE, GLOBAL, IMAGE, USER

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

TOKEN, ROW, TOKENS = 16, 32, 6  # pixels of a token, of a line of text; tokens along a tile
SHARPNESS = 20.0  # cosines are multiplied by this before the softmax
Region = tuple[tuple[int, ...], int]  # tokens of a tile in raster order, and the id of the word that they show
NUMBER_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class AlignmentConfig:
    """A stage of its own for tower and connector; of its tiles, one in `things_every` shows things, the others text."""

    tiles: int
    loop: LoopConfig
    things_every: int = 3

    def __post_init__(self) -> None:
        if self.tiles < 2 or self.things_every < 1:
            raise ValueError("tiles must be at least 2, things_every at least 1")


@dataclass(frozen=True, slots=True)
class BesideConfig:
    """Alignment tiles a step beside the first `steps` steps of joint training."""

    tiles: int
    steps: int

    def __post_init__(self) -> None:
        if self.tiles < 2 or self.steps < 0:
            raise ValueError("tiles must be at least 2, steps at least 0")


@dataclass(frozen=True, slots=True)
class AlignedTiles:
    """Single tiles in the prompt that a target sees them in, with the word that every region shows."""

    name: str
    ids: Tensor  # [B, 5 + 36]
    pixels: Tensor  # [B, 1, 3, 96, 96]
    member: Tensor  # [B * 36] region of each token, -1: none
    last: Tensor  # [N] index of each region's last token among the B * 36
    labels: Tensor  # [N] id of the word of each region
    candidates: Tensor  # [C] ids of all words that a tile may show, sorted


@dataclass(frozen=True, slots=True)
class AlignmentSource:
    """Random labelled tiles, a function of (seed, step)."""

    tokenizer: PreTrainedTokenizerFast
    seed: int
    tiles: int
    things_every: int = 3

    def micro_batches(self, step: int) -> list[AlignedTiles]:
        """Return the one batch of a step."""
        rng = random.Random(f"alignment/{self.seed}/{step}")
        lettered = words(self.tokenizer)
        digits = [(d, int(self.tokenizer.convert_tokens_to_ids(d))) for d in string.digits]
        drawn = [
            _text(rng, lettered, digits) if i % self.things_every else _things(rng, self.tokenizer)
            for i in range(self.tiles)
        ]
        begin, user, fake, whole, image = (
            int(self.tokenizer.convert_tokens_to_ids(token)) for token in (BEGIN, USER, FAKE, GLOBAL, IMAGE)
        )
        prompt = torch.tensor([begin, user, fake, whole, *[image] * TOKENS**2, fake])
        pixels = normalise(np.stack([np.asarray(picture) for picture, _ in drawn]))[:, None]
        found = [([i * TOKENS**2 + t for t in tokens], w) for i, (_, tile) in enumerate(drawn) for tokens, w in tile]
        member = torch.full((self.tiles * TOKENS**2,), -1)
        for number, (tokens, _) in enumerate(found):
            member[tokens] = number
        last, labels = (torch.tensor(column) for column in zip(*((max(t), w) for t, w in found), strict=True))
        name, ids = f"alignment step {step}", prompt.expand(self.tiles, -1)
        return [AlignedTiles(name, ids, pixels, member, last, labels, self.candidates())]

    def candidates(self) -> Tensor:
        """Ids of everything that a tile may show, sorted, [C]."""
        shown = [f" {text}" for text in ("nothing", *(c.name for c in material.concepts()))]
        firsts = {int(self.tokenizer(text, add_special_tokens=False)["input_ids"][0]) for text in shown}
        letters = {int(self.tokenizer.convert_tokens_to_ids(glyph)) for glyph in naming.GLYPHS}
        return torch.tensor(sorted(firsts | letters | {index for _, index in words(self.tokenizer)}))


@dataclass(frozen=True, slots=True)
class Together:
    """A `Source` that adds alignment tiles to the first `steps` steps of another one."""

    scenes: Source[PackedBatch]
    tiles: AlignmentSource
    steps: int

    def micro_batches(self, step: int) -> list[PackedBatch | AlignedTiles]:
        """Return the scenes of a step, and tiles while alignment lasts."""
        more = self.tiles.micro_batches(step) if step < self.steps else []
        return [*self.scenes.micro_batches(step), *more]


def look(model: nn.Module, batch: AlignedTiles) -> Outcome:
    """Sum of the losses of looks and places (over all tokens, at half weight), which tower and connector can lower."""
    image = model.model.get_image_features(batch.pixels, return_dict=True)  # type: ignore[union-attr,operator]
    return _look(torch.cat(list(image.pooler_output)), model.lm_head.weight, batch)  # type: ignore[union-attr,arg-type]


def look_and_say(model: nn.Module, batch: AlignedTiles) -> Outcome:
    """The losses of `look`, plus that of the words which the language model says at the last token of every region."""
    inner: Any = model.model
    image = inner.get_image_features(batch.pixels, return_dict=True)
    seen = _look(torch.cat(list(image.pooler_output)), model.lm_head.weight, batch)  # type: ignore[union-attr,arg-type]
    hidden = inner(input_ids=batch.ids, mm_encoder_outputs={"image": image}, use_cache=False).last_hidden_state
    said = model.lm_head(hidden[:, 4:-1].flatten(0, 1)[batch.last])  # type: ignore[operator]
    loss = seen.loss + functional.cross_entropy(said, batch.labels, reduction="sum")
    right = float((said.argmax(-1) == batch.labels).sum())
    return Outcome(loss, seen.terms, {**seen.sums, "#said_right": right})


@torch.no_grad()
def level(model: nn.Module, batch: AlignedTiles) -> None:
    """Scale the connector so that picture tokens are as long, on average, as the text embeddings.

    Longer tokens drown what the layers add to them: the language model could read but never rework them.
    """
    inner: Any = model.model
    tokens = torch.cat(list(inner.get_image_features(batch.pixels, return_dict=True).pooler_output))
    wanted = model.lm_head.weight.norm(dim=-1).mean()  # type: ignore[union-attr,operator]
    inner.connector.modality_projection.proj.weight.mul_(wanted / tokens.norm(dim=-1).mean())


def _look(tokens: Tensor, embeddings: Tensor, batch: AlignedTiles) -> Outcome:
    """Losses of connector tokens [B * 36, W] against the words of regions and the codes of places."""
    shown = batch.member >= 0
    regions = tokens.new_zeros(len(batch.labels), tokens.shape[1]).index_add(0, batch.member[shown], tokens[shown])
    asked = embeddings.detach()[batch.candidates]
    words = functional.normalize(asked - asked.mean(0), dim=-1)  # what they share tells no word from another
    near = SHARPNESS * functional.normalize(regions, dim=-1) @ words.T  # [N, C]
    answers = torch.searchsorted(batch.candidates, batch.labels)
    places = SHARPNESS * functional.normalize(tokens, dim=-1) @ place_codes(tokens.shape[1]).to(tokens).T
    where = torch.arange(TOKENS**2).repeat(len(tokens) // TOKENS**2)
    loss = functional.cross_entropy(near, answers, reduction="sum")
    loss = loss + 0.5 * functional.cross_entropy(places, where, reduction="sum")
    sums = {
        "#near_right": float((near.argmax(-1) == answers).sum()),
        "#place_right": float((places.argmax(-1) == where).float().mean()) * len(batch.labels),
        "#aligned": float(len(batch.labels)),
    }
    return Outcome(loss, len(batch.labels), sums)


def place_codes(width: int) -> Tensor:
    """The fixed random unit vector of each of the 36 places in a tile, [36, width]."""
    return functional.normalize(torch.randn(TOKENS**2, width, generator=torch.Generator().manual_seed(36)), dim=-1)


def words(tokenizer: PreTrainedTokenizerFast) -> list[tuple[str, int]]:
    """The words that pictures of the suite are lettered with, each with its first token after a space."""
    names = {name for concept in material.concepts() if concept.hold != "new" for name in concept.name.split()}
    labels = {row.country for rows in tables.countries("train", "seen").values() for row in rows}
    words = sorted({*ocr.SIGNS, *ocr.GROCERIES, *chart.MEASURES, "total", *names, *labels})
    return [(word, int(tokenizer(f" {word}", add_special_tokens=False)["input_ids"][0])) for word in words]


def _things(rng: random.Random, tokenizer: PreTrainedTokenizerFast) -> tuple[Image.Image, list[Region]]:
    """A tile of 3 x 3 cells; the four tokens of a cell show the first token of its name."""
    picture, cells = naming.tile(rng)
    names = ["nothing", *(concept.name for concept in material.concepts())]
    regions = []
    for cell, label in enumerate(cells):
        text = f" {names[label]}" if label < len(names) else naming.GLYPHS[label - len(names)]
        corner = cell // naming.SIDE * 2 * TOKENS + cell % naming.SIDE * 2
        tokens = (corner, corner + 1, corner + TOKENS, corner + TOKENS + 1)
        regions.append((tokens, int(tokenizer(text, add_special_tokens=False)["input_ids"][0])))
    return picture, regions


def _text(
    rng: random.Random, words: list[tuple[str, int]], digits: list[tuple[str, int]]
) -> tuple[Image.Image, list[Region]]:
    """A tile of three lines of words and numbers, cut out of longer lines; a region is a word or a digit."""
    side, regions = TOKEN * TOKENS, list[Region]()
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
                    columns = _columns(x, x + width, middle=number)
                    shown = tuple((2 * line + half) * TOKENS + column for half in (0, 1) for column in columns)
                    regions += [(shown, index)] if shown else []
                x += width
            x += rng.choice((5, 5, 12, 30, 60))
    return picture, regions


def _columns(left: float, right: float, middle: bool) -> list[int]:
    """Columns of tokens whose middle, or else most of whose width, lies between left and right."""
    found = []
    for column in range(TOKENS):
        overlap = min(right, (column + 1) * TOKEN) - max(left, column * TOKEN)
        if left <= (column + 0.5) * TOKEN < right if middle else overlap >= 0.6 * TOKEN:
            found.append(column)
    return found
