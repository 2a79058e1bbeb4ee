"""Alignment tiles: regions name what is under their tokens, and the losses reach every part that they should."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional

from paceline.tasks import material
from paceline.train import alignment, architecture
from paceline.train.alignment import AlignmentConfig, AlignmentSource, BesideConfig
from paceline.train.loop import LoopConfig


@pytest.fixture(scope="module")
def target(processor: Any) -> Any:
    text = architecture.TextConfig(layers=1, width=64, feed_forward=64, heads=2, key_value_heads=1, positions=64)
    vision = architecture.VisionConfig(layers=1, width=32, feed_forward=32, heads=2)
    return architecture.build_target(text, vision, processor.tokenizer, seed=1).eval()


def test_tiles_are_a_function_of_seed_and_step(processor: Any) -> None:
    source = AlignmentSource(processor.tokenizer, seed=1, tiles=4)
    (first,), (again,), (other,) = source.micro_batches(3), source.micro_batches(3), source.micro_batches(4)
    assert torch.equal(first.pixels, again.pixels)
    assert torch.equal(first.labels, again.labels)
    assert not torch.equal(first.pixels, other.pixels)


def test_regions_are_cells_of_things_or_columns_of_text(processor: Any) -> None:
    tokenizer = processor.tokenizer
    (batch,) = AlignmentSource(tokenizer, seed=1, tiles=6).micro_batches(0)
    assert batch.ids.shape == (6, 41)
    member = batch.member.view(6, 6, 6)
    text, things = member[[1, 2, 4, 5]].view(4, 3, 2, 6), member[[0, 3]].view(2, 3, 2, 3, 2)
    assert torch.equal(text[:, :, 0], text[:, :, 1])
    assert torch.equal(things, things[:, :, :1, :, :1].expand_as(things))
    assert things.min() >= 0
    assert (text == -1).any()
    assert all(batch.member[last] == region for region, last in enumerate(batch.last.tolist()))
    assert (batch.last[batch.member[batch.member >= 0]] >= torch.arange(216)[batch.member >= 0]).all()
    names = ["nothing", *(c.name for c in material.concepts() if c.hold != "new")]
    known = {tokenizer(f" {name}", add_special_tokens=False)["input_ids"][0] for name in names}
    glyphs = {tokenizer(glyph)["input_ids"][0] for glyph in alignment.naming.GLYPHS}
    assert set(batch.labels[things.flatten()].tolist()) <= known | glyphs
    spelled = {tokenizer.decode([i]) for i in batch.labels[text[text >= 0]].tolist()}
    assert all(
        word.isspace() or word.strip().isalnum() for word in spelled
    )  # a small vocabulary may split the space off


def test_the_loss_is_low_where_regions_look_like_their_words(target: Any, processor: Any) -> None:
    """Asked for the words that its regions are nearest to, a target loses less than when asked for others."""
    (batch,) = AlignmentSource(processor.tokenizer, seed=1, tiles=4).micro_batches(0)
    tokens = torch.cat(list(target.model.get_image_features(batch.pixels, return_dict=True).pooler_output))
    sums = torch.stack([tokens[batch.member == region].sum(0) for region in range(len(batch.labels))])
    asked = target.lm_head.weight[batch.candidates]
    places = (functional.normalize(sums) @ functional.normalize(asked - asked.mean(0)).T).argmax(-1)
    nearest = batch.candidates[places]
    own = alignment.look(target, replace(batch, labels=nearest))
    other = alignment.look(target, replace(batch, labels=batch.candidates[(places + 7) % len(batch.candidates)]))
    assert own.sums["#near_right"] == own.terms == len(batch.labels)
    assert other.sums["#near_right"] == 0
    assert own.loss < other.loss


def test_looking_teaches_sight_alone_and_saying_the_language_model_too(target: Any, processor: Any) -> None:
    (batch,) = AlignmentSource(processor.tokenizer, seed=1, tiles=2).micro_batches(0)
    spoken = target.model.text_model.layers[0].mlp.up_proj.weight
    for objective, speaks in ((alignment.look, False), (alignment.look_and_say, True)):
        target.zero_grad()
        objective(target, batch).loss.backward()
        assert target.model.connector.modality_projection.proj.weight.grad.abs().sum() > 0
        assert target.model.vision_model.embeddings.patch_embedding.weight.grad.abs().sum() > 0
        assert (spoken.grad is not None and bool(spoken.grad.abs().sum() > 0)) == speaks


@pytest.mark.parametrize(("tiles", "every"), [(1, 3), (8, 0)])
def test_an_alignment_that_cannot_run_is_refused(tiles: int, every: int) -> None:
    with pytest.raises(ValueError, match="tiles must be at least 2"):
        AlignmentConfig(tiles, LoopConfig(steps=1, learning_rate=1e-3), every)
    with pytest.raises(ValueError, match="tiles must be at least 2"):
        BesideConfig(tiles, every - 1) if every == 0 else BesideConfig(tiles, every)


def test_levelling_makes_picture_tokens_as_long_as_words(processor: Any) -> None:
    text = architecture.TextConfig(layers=1, width=64, feed_forward=64, heads=2, key_value_heads=1, positions=64)
    vision = architecture.VisionConfig(layers=1, width=32, feed_forward=32, heads=2)
    model = architecture.build_target(text, vision, processor.tokenizer, seed=1).eval()
    (batch,) = AlignmentSource(processor.tokenizer, seed=1, tiles=3).micro_batches(0)
    alignment.level(model, batch)
    tokens = torch.cat(list(model.model.get_image_features(batch.pixels, return_dict=True).pooler_output))
    words = model.lm_head.weight.norm(dim=-1).mean()
    assert tokens.norm(dim=-1).mean().item() == pytest.approx(words.item(), rel=1e-4)
