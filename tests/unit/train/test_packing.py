"""Packing: branches behind a shared prefix equal the same samples one by one, and wrong masks or places are seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from paceline.train import architecture, objectives
from paceline.train.packing import Branch, Packed, PackedBatch, collate

TEXT = architecture.TextConfig(layers=2, width=32, feed_forward=48, heads=2, key_value_heads=1, positions=256)
VISION = architecture.VisionConfig(layers=1, width=16, feed_forward=32, heads=2, tile=16, patch=4)


@pytest.fixture(scope="module")
def model(processor: Any) -> Any:
    made = architecture.build_target(TEXT, VISION, processor.tokenizer, seed=1).double().eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.ndim > 1:  # wide enough that a wrong mask shows in every logit
                parameter.normal_(0.0, 0.3, generator=generator)
    return made


def scenes(processor: Any) -> list[Packed]:
    """Two scenes of two tiles (16 px, 4 visual tokens each) with three and two branches."""
    rng = np.random.default_rng(0)
    image = processor.tokenizer.convert_tokens_to_ids("<image>")
    prefix = np.array([1, 6, 4, 5, *[image] * 4, 4, 4, 5, *[image] * 4, 4], dtype=np.int32)
    made = []
    for index, sizes in enumerate([(5, 9, 7), (8, 6)]):
        branches = tuple(Branch(rng.integers(80, 400, size).astype(np.int32), answer=3) for size in sizes)
        made.append(Packed("mmt", index, rng.integers(0, 256, (2, 16, 16, 3), dtype=np.uint8), prefix, branches))
    return made


def packed_logits(model: Any, batch: PackedBatch) -> Tensor:
    assert batch.pixels is not None
    hidden = model.model(
        input_ids=batch.ids, position_ids=batch.positions, attention_mask=batch.mask, pixel_values=batch.pixels.double()
    ).last_hidden_state
    return model.lm_head(hidden[batch.source])


def separate_logits(model: Any, packed: list[Packed]) -> Tensor:
    rows = []
    for scene in packed:
        pixels = collate([scene], 0).pixels
        assert pixels is not None
        for branch in scene.branches:
            ids = torch.from_numpy(np.concatenate([scene.prefix, branch.ids]).astype(np.int64))[None]
            logits = model(input_ids=ids, pixel_values=pixels.double()).logits[0]
            start = len(scene.prefix) + branch.answer - 1
            rows.append(logits[start : start + len(branch.ids) - branch.answer])
    return torch.cat(rows)


def test_packed_branches_equal_separate_samples(model: Any, processor: Any) -> None:
    packed = scenes(processor)
    assert torch.allclose(packed_logits(model, collate(packed, 0)), separate_logits(model, packed), atol=1e-10)


def test_labels_are_the_answers_in_row_order(processor: Any) -> None:
    packed = scenes(processor)
    expected = np.concatenate([branch.ids[branch.answer :] for scene in packed for branch in scene.branches])
    assert collate(packed, 0).labels.tolist() == expected.tolist()


def _leaky(batch: PackedBatch) -> PackedBatch:
    return replace(batch, mask=torch.ones_like(batch.mask).tril())


def _running_places(batch: PackedBatch) -> PackedBatch:
    return replace(batch, positions=torch.arange(batch.ids.shape[1]).expand_as(batch.ids))


def _blind(batch: PackedBatch) -> PackedBatch:
    assert batch.pixels is not None
    return replace(batch, pixels=batch.pixels.flip(0))


@pytest.mark.parametrize("mutant", [_leaky, _running_places, _blind])
def test_mutants_are_seen(model: Any, processor: Any, mutant: Any) -> None:
    packed = scenes(processor)
    broken = packed_logits(model, mutant(collate(packed, 0)))
    assert (broken - separate_logits(model, packed)).abs().amax() > 1e-2


def test_the_objective_sums_the_answers_of_all_branches(model: Any, processor: Any) -> None:
    packed = scenes(processor)
    batch = collate(packed, 0)
    assert batch.pixels is not None
    outcome = objectives.answer_tokens(model, replace(batch, pixels=batch.pixels.double()))
    expected = torch.nn.functional.cross_entropy(separate_logits(model, packed), batch.labels, reduction="sum")
    assert outcome.loss.item() == pytest.approx(expected.item(), abs=1e-9)
    assert outcome.terms == len(batch.labels) == outcome.sums["#mmt_tokens"]


def test_scenes_of_unequal_tiles_are_refused(processor: Any) -> None:
    first, second = scenes(processor)
    with pytest.raises(ValueError, match="equally many tiles"):
        collate([first, replace(second, tiles=second.tiles[:1])], 0)
