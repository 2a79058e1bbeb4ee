"""Received attention equals that of the class's own eager attention, and asking for it changes nothing else."""

from __future__ import annotations

import pytest
import torch

from paceline.core import Needs
from paceline.targets import load_target
from unit.targets.tiny import tiny

NAMES = ["idefics3", "llava_next", "qwen2_5_vl", "gemma3", "gemma3_window8", "qwen3", "mistral3"]


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_those_of_eager_attention(name: str) -> None:
    made = tiny(name)
    target, prompts = load_target(made.model), made.prompts()
    _, context, seen = target.open(prompts, Needs(scores=True))
    _, _, plain = target.open(prompts)
    torch.testing.assert_close(seen.logits, plain.logits, rtol=0, atol=0)
    assert context.scores is not None
    text = made.model.get_decoder()
    kinds = getattr(text.config, "layer_types", None) or ["full_attention"] * len(text.layers)
    last = max(i for i, kind in enumerate(kinds) if kind == "full_attention")
    before = text.config._attn_implementation
    text.set_attn_implementation("eager")
    try:
        for row, prompt in enumerate(prompts):
            inputs = {k: v for k, v in prompt.inputs.items() if k != "attention_mask"}
            with torch.no_grad():
                out = made.model(input_ids=prompt.ids[None], output_attentions=True, use_cache=False, **inputs)
            weights = out.attentions[last][0].mean(0)
            image = context.image[row, : len(prompt.ids)]
            begin = int(image.nonzero()[-1]) + 1 if bool(image.any()) else 0
            wanted = weights[begin if begin < len(prompt.ids) else 0 :].mean(0)
            torch.testing.assert_close(context.scores[row, : len(prompt.ids)].double(), wanted, rtol=1e-4, atol=1e-6)
            assert bool((context.scores[row, len(prompt.ids) :] == 0).all())
    finally:
        text.set_attn_implementation(before)


def test_nothing_is_left_behind() -> None:
    made = tiny("idefics3")
    target = load_target(made.model)
    modules = list(made.model.modules())
    hooks = [len(m._forward_hooks) for m in modules]
    configs = [getattr(m, "config", None) for m in modules]
    target.open(made.prompts()[:1], Needs(scores=True))
    assert [len(m._forward_hooks) for m in modules] == hooks
    assert all(a is getattr(m, "config", None) for a, m in zip(configs, modules, strict=True))
