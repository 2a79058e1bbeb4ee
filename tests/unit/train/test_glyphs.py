"""Lettered tiles: labels lie on ink, are those of the text, and the head on top of the tower learns them."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from paceline.train import architecture, glyphs
from paceline.train.glyphs import LETTERS, GlyphSource


def test_labelled_patches_show_ink_and_only_letters_of_the_words() -> None:
    picture, labels = glyphs.lettered(random.Random(1), ("abba",))
    shown = {LETTERS[label - 1] for label in labels if label}
    assert shown <= set("ab0123456789")
    assert "a" in shown
    pixels = np.asarray(picture.convert("L"), dtype=float).reshape(12, 8, 12, 8).transpose(0, 2, 1, 3).reshape(144, 64)
    contrast = pixels.max(1) - pixels.min(1)
    assert np.mean(contrast[labels > 0] > 60) > 0.9
    assert contrast[labels > 0].mean() > 2 * contrast[labels == 0].mean()


def test_tiles_are_a_function_of_seed_and_step() -> None:
    source = GlyphSource(("river", "lake"), seed=1, tiles=2)
    (first,), (again,), (other,) = source.micro_batches(0), source.micro_batches(0), source.micro_batches(1)
    assert torch.equal(first.pixels, again.pixels)
    assert torch.equal(first.labels, again.labels)
    assert not torch.equal(first.pixels, other.pixels)


def test_the_loss_counts_inked_patches_and_falls_when_trained(processor: Any) -> None:
    text = architecture.TextConfig(layers=1, width=16, feed_forward=16, heads=1, key_value_heads=1, positions=64)
    vision = architecture.VisionConfig(layers=1, width=32, feed_forward=32, heads=2)
    namer = glyphs.GlyphNamer(architecture.build_target(text, vision, processor.tokenizer, 1), 32, 2)
    (batch,) = GlyphSource(("ox",), seed=1, tiles=2).micro_batches(0)
    optimiser = torch.optim.AdamW(namer.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        outcome = glyphs.name_glyphs(namer, batch)
        assert outcome.terms == int((batch.labels > 0).sum())
        optimiser.zero_grad()
        outcome.loss.backward()
        optimiser.step()
        losses.append(outcome.loss.item())
    assert losses[-1] < 0.6 * losses[0]
