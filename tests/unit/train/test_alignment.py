"""Alignment tiles: labels name what is under a token, and the losses reach every part that they should."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional

from paceline.tasks import material
from paceline.train import alignment, architecture
from paceline.train.alignment import IGNORED, AlignmentConfig, AlignmentSource


@pytest.fixture(scope="module")
def target(processor: Any) -> Any:
    text = architecture.TextConfig(layers=1, width=64, feed_forward=64, heads=2, key_value_heads=1, positions=64)
    vision = architecture.VisionConfig(layers=1, width=32, feed_forward=32, heads=2)
    return architecture.build_target(text, vision, processor.tokenizer, seed=1).eval()


def test_tiles_are_a_function_of_seed_and_step(processor: Any) -> None:
    source = AlignmentSource(processor.tokenizer, seed=1, tiles=4)
    first, again, other = source.batch(3), source.batch(3), source.batch(4)
    assert torch.equal(first.pixels, again.pixels)
    assert torch.equal(first.labels, again.labels)
    assert not torch.equal(first.pixels, other.pixels)


def test_labels_are_names_in_whole_cells_or_words_in_whole_lines(processor: Any) -> None:
    tokenizer = processor.tokenizer
    batch = AlignmentSource(tokenizer, seed=1, tiles=6).batch(0)
    assert batch.ids.shape == (6, 41)
    text, things = batch.labels[0::2].view(-1, 3, 2, 6), batch.labels[1::2].view(-1, 3, 2, 3, 2)
    assert torch.equal(text[:, :, 0], text[:, :, 1])
    assert torch.equal(things, things[:, :, :1, :, :1].expand_as(things))
    names = ["nothing", *(c.name for c in material.concepts() if c.hold != "new")]
    known = {tokenizer(f" {name}", add_special_tokens=False)["input_ids"][0] for name in names}
    glyphs = {tokenizer(glyph)["input_ids"][0] for glyph in alignment.naming.GLYPHS}
    assert set(things.flatten().tolist()) <= known | glyphs
    assert (text == IGNORED).any()
    spelled = {tokenizer.decode([i]) for i in text.flatten().tolist() if i != IGNORED}
    assert all(word.strip().isalnum() for word in spelled)


def test_the_losses_fall_to_nothing_where_the_labels_say_what_the_model_does(target: Any, processor: Any) -> None:
    """Asked for what it says and looks like already, a target loses less than when asked for anything else."""
    batch = AlignmentSource(processor.tokenizer, seed=1, tiles=4).batch(0)
    image = target.model.get_image_features(batch.pixels, return_dict=True)
    looks = functional.normalize(torch.stack(list(image.pooler_output)), dim=-1)
    nearest = (looks @ functional.normalize(target.lm_head.weight, dim=-1).T).argmax(-1)
    own = alignment.align(target, replace(batch, labels=nearest))
    rolled = alignment.align(target, replace(batch, labels=(nearest + 7) % 400))
    assert own.sums["#near_right"] == own.terms == batch.labels.numel()
    assert rolled.sums["#near_right"] == 0
    assert own.loss < rolled.loss


def test_gradients_reach_tower_connector_and_language_model(target: Any, processor: Any) -> None:
    target.zero_grad()
    alignment.align(target, AlignmentSource(processor.tokenizer, seed=1, tiles=2).batch(0)).loss.backward()
    for name in ("model.connector.modality_projection.proj", "model.text_model.layers.0.mlp.up_proj"):
        assert target.get_submodule(name).weight.grad.abs().sum() > 0
    assert target.model.vision_model.embeddings.patch_embedding.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(("first", "last", "tiles"), [(5, 4, 8), (-1, 4, 8), (0, 4, 1)])
def test_an_alignment_that_cannot_run_is_refused(first: int, last: int, tiles: int) -> None:
    with pytest.raises(ValueError, match="first_step"):
        AlignmentConfig(first, last, tiles)
