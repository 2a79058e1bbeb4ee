"""A small random vision-language model on disk, with drafters, as the command line is given them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from PIL import Image
from transformers import PreTrainedTokenizerFast

from paceline.train.architecture import TextConfig, VisionConfig, build_language_model, build_target, write
from paceline.train.vocabulary import SPECIALS, VocabularyConfig, build_processor, train_tokenizer

SIZE = len(SPECIALS) + 256 + 40  # tokens
TEXTS = ("List everything in the picture.", "a red apple, a blue car and two small dogs", "What is it? It is a cat.")
TEXT = TextConfig(layers=2, width=64, feed_forward=96, heads=2, key_value_heads=1, positions=512)
VISION = VisionConfig(layers=1, width=32, feed_forward=64, heads=2)


@dataclass(frozen=True)
class Shelf:
    """Directories and files that a command can name."""

    target: Path  # Idefics3, 512 positions
    lm: Path  # text-only, same vocabulary
    stranger: Path  # text-only, another vocabulary
    pickled: Path  # weights.bin instead of safetensors
    empty: Path  # config without weights
    picture: Path


def furnish(where: Path) -> Shelf:
    """Write all of it below this directory; equal every time."""
    shelf = Shelf(*(where / name for name in ("target", "lm", "stranger", "pickled", "empty", "picture.png")))
    tokenizer = _tokenizer("w")
    model = build_target(TEXT, VISION, tokenizer, 0)
    _loosen(model)
    write(model, shelf.target, build_processor(tokenizer, VocabularyConfig(size=SIZE)))
    write(build_language_model(TEXT, tokenizer, 1), shelf.lm, tokenizer)
    (shelf.lm / "paceline.json").write_text('{"method": "lm"}')
    other = _tokenizer("v")
    write(build_language_model(TEXT, other, 1), shelf.stranger, other)
    for where in (shelf.pickled, shelf.empty):
        where.mkdir()
        (where / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (shelf.pickled / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    Image.radial_gradient("L").convert("RGB").resize((96, 96)).save(shelf.picture)
    return shelf


@cache
def _tokenizer(letter: str) -> PreTrainedTokenizerFast:
    more = [f"{letter}{i:03d} {letter}{i:03d}" for i in range(60)]
    return train_tokenizer([*TEXTS * 3, *more], SIZE)


@torch.no_grad()
def _loosen(model: torch.nn.Module) -> None:
    """Wider weights, or a random model says one word for ever."""
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding):
            module.weight.mul_(6)
        elif isinstance(module, torch.nn.Linear):
            module.weight.mul_(1.6)
