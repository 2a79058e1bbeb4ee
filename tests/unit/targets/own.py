"""What the classes do by themselves: full forwards and their own `generate`, as references for drafted drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from paceline.core import Prompt
from unit.targets.drawn import drawn


@torch.inference_mode()
def full(name: str, prompt: Tensor, codes: Tensor) -> Tensor:
    """[N + 1, V]; bare logits at offsets 0 … N from one full forward of the stock class over prompt and codes."""
    model = drawn(name).model
    match name:
        case "janus":
            words = model.get_input_embeddings()(prompt[None])
            both = torch.cat([words, model.prepare_embeddings_for_image_generation(codes[None])], 1)
            hidden = model.model.language_model(inputs_embeds=both).last_hidden_state
            logits = model.model.generation_head(hidden)[0]
        case "glm_image":
            first = model(input_ids=prompt[None], image_grid_thw=grids(), use_cache=True)
            cached = {"cache": first.cache, "use_cache": True}
            rest = (
                model(input_ids=codes[None], position_ids=None, **cached).logits[0]
                if len(codes)
                else first.logits[0][:0]
            )
            return torch.cat([first.logits[0, -1:], rest])
        case "chameleon" | "lumina":
            ids = torch.cat([prompt, codes])[None]
            logits = model.lm_head(model.model(input_ids=ids).last_hidden_state)[0]
        case _:
            logits = model(input_ids=torch.cat([prompt, codes])[None]).logits[0]
    return logits[len(prompt) - 1 :]


def grids() -> Tensor:
    """What GLM-Image's processor gives: the picture's grid, then the preview's."""
    layout = drawn("glm_image").target.layout
    from paceline.targets.glm_image import preview

    columns, rows = preview(layout.width, layout.height)
    return torch.tensor([[1, layout.height, layout.width], [1, rows, columns]])


def allowed(name: str, length: int) -> Callable[[int, Tensor], list[int]]:
    """The row grammar as `generate` takes it: a function of what has been said so far."""
    layout = drawn(name).target.layout

    def function(_: int, said: Tensor) -> list[int]:
        demand = layout.forced[len(said) - length]
        return [demand] if demand >= 0 else list(range(*layout.codes))

    return function


def generate(
    name: str, prompt: Prompt, count: int, *, guidance: float = 1.0, ruled: bool = True, **options: Any
) -> Any:
    """The class's own `generate` on one prompt; a dictionary with sequences and processed scores."""
    made, ids = drawn(name), prompt.ids[None]
    given: dict[str, Any] = {"attention_mask": torch.ones_like(ids)}
    if ruled:
        given["prefix_allowed_tokens_fn"] = allowed(name, ids.shape[1])
    if guidance != 1:
        twin = made.target.unconditional(prompt).ids[None]
        given |= {
            "guidance_scale": guidance,
            "negative_prompt_ids": twin,
            "negative_prompt_attention_mask": torch.ones_like(twin),
        }
    if name == "glm_image":
        given["image_grid_thw"] = grids()
    if name == "imagegpt":
        del given["attention_mask"]
    return made.model.generate(
        ids, max_new_tokens=count, eos_token_id=None, pad_token_id=0, return_dict_in_generate=True, output_scores=True,
        **given, **options,
    )  # fmt: skip


@contextmanager
def sampled_laws() -> Any:
    """The laws that `torch.multinomial` was asked to draw from, in order: what a class truly samples."""
    seen: list[Tensor] = []
    stock = torch.multinomial

    def recording(probs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        seen.append(probs.clone())
        return stock(probs, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "multinomial", recording)
        yield seen


def greedy(name: str, prompt: Prompt, said: Sequence[int], guidance: float = 1.0) -> list[int]:
    """What each offset's greedy code is behind the ones said before it: guidance, then grammar, then argmax."""
    target, codes = drawn(name).target, torch.tensor(list(said[:-1]), dtype=torch.long)
    logits = full(name, prompt.ids, codes)
    if guidance != 1:
        free = full(name, target.unconditional(prompt).ids, codes)
        logits = free + guidance * (logits - free)
    return [_best(row, demand, target.layout.codes) for row, demand in zip(logits, target.layout.forced, strict=False)]


def _best(logits: Tensor, demand: int, codes: Sequence[int]) -> int:
    return demand if demand >= 0 else codes[0] + int(logits[codes[0] : codes[1]].argmax())
