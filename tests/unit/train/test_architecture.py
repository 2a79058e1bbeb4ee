"""Targets and language models: equal for equal seeds, and quiet ones start as their embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from paceline.train.architecture import TextConfig, VisionConfig, build_language_model, build_target

TEXT = TextConfig(layers=2, width=32, feed_forward=48, heads=2, key_value_heads=1, positions=64)
VISION = VisionConfig(layers=1, width=16, feed_forward=32, heads=2, tile=16, patch=4)


def test_equal_seeds_give_equal_targets(processor: Any) -> None:
    first, again, other = (build_target(TEXT, VISION, processor.tokenizer, seed) for seed in (1, 1, 2))
    same = [torch.equal(p, q) for p, q in zip(first.parameters(), again.parameters(), strict=True)]
    assert all(same)
    assert not torch.equal(first.lm_head.weight, other.lm_head.weight)
    assert first.lm_head.weight is first.get_input_embeddings().weight


def test_a_quiet_model_adds_nothing_to_its_embeddings_yet(processor: Any) -> None:
    ids = torch.tensor([[90, 91, 92]])
    loud = build_language_model(TEXT, processor.tokenizer, 1)
    quiet = build_language_model(replace(TEXT, quiet=True), processor.tokenizer, 1)
    for model, expected in ((quiet, True), (loud, False)):
        states = model(ids, output_hidden_states=True).hidden_states
        assert torch.equal(states[0], states[1]) == expected
    assert torch.allclose(quiet.lm_head.weight, 2 * loud.lm_head.weight)
