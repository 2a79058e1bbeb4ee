"""How much attention each row of a prompt received: one layer tells its weights while it is asked to."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import get_layer_types_and_kwargs
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from paceline.errors import UsageError
from paceline.hf.attention import grouped_attention
from paceline.hf.masks import FULL

NAME = "paceline_telling"


def telling_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """As `grouped_attention`, and for weights their mean over heads, float32 [B, n, slots], one head at a time."""
    out, _ = grouped_attention(module, query, key, value, attention_mask, dropout, scaling, is_causal, **options)
    n, slots, heads = query.shape[2], key.shape[2], query.shape[1]
    if attention_mask is None:
        hidden = torch.ones(n, slots, dtype=torch.bool, device=query.device).triu(slots - n + 1)
    elif attention_mask.dtype == torch.bool:
        hidden = ~attention_mask[:, 0, :, :slots]
    else:
        hidden = attention_mask[:, 0, :, :slots] < torch.finfo(attention_mask.dtype).min / 2
    total = torch.zeros(query.shape[0], n, slots, device=query.device)
    for head in range(heads):
        scores = (query[:, head] @ key[:, head * key.shape[1] // heads].mT).float()
        scores = scores * (query.shape[3] ** -0.5 if scaling is None else scaling)
        total += scores.masked_fill_(hidden, -torch.inf).softmax(-1)
    return out, total / heads


@contextmanager
def telling(decoder: nn.Module, config: Any, wanted: bool) -> Iterator[list[Tensor]]:
    """While inside, the last full-attention layer puts its weights, [B, n, slots], into the list; `wanted` False: none.

    Raises UsageError for a decoder whose attention cannot be found.
    """
    told: list[Tensor] = []
    if not wanted:
        yield told
        return
    kinds = get_layer_types_and_kwargs(config)[0]
    layer = decoder.layers[max(i for i, kind in enumerate(kinds) if kind == FULL)]  # type: ignore[index]
    attention = getattr(layer, "self_attn", None)
    if attention is None or not hasattr(attention, "config"):
        raise UsageError(f"{type(layer).__name__} does not say where its attention is: no received attention here")
    ALL_ATTENTION_FUNCTIONS.register(NAME, telling_attention)
    own = attention.config
    attention.config = copy.copy(own)
    attention.config._attn_implementation = NAME
    handle = attention.register_forward_hook(lambda _, __, out: told.append(out[1]))
    try:
        yield told
    finally:
        handle.remove()
        attention.config = own


def received(weights: Tensor, image: Tensor) -> Tensor:
    """[S]; the mean weight that each row gets from the rows behind the last picture, from all where there is none.

    weights: [1, S, S]; image: [S] bool.
    """
    pictured = image.nonzero()[:, 0]
    first = int(pictured[-1]) + 1 if len(pictured) else 0
    asking = weights[0, first if first < len(image) else 0 :]
    return asking.mean(0)
