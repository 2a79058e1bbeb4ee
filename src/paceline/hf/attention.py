"""Attention that shares keys among the heads of a group instead of copying them for each."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "paceline"


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """[B, n, heads, width] from query [B, heads, n, width] and key, value [B, groups, slots, width].

    A mask with several heads' worth of keys makes the stock function repeat them in memory: at eight rows behind 256
    tokens that is half of its time. Raises ValueError for options that change the scores.
    """
    if (strange := {"softcap", "position_bias", "s_aux"} & {k for k, v in options.items() if v is not None}) or dropout:
        raise ValueError(f"attention {NAME!r} takes no {', '.join(strange) or 'dropout'}")
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    out = scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask, scale=scaling, enable_gqa=query.shape[1] != key.shape[1],
        is_causal=bool(causal) and attention_mask is None and query.shape[2] > 1,
    )  # fmt: skip
    return out.transpose(1, 2), None


def register() -> str:
    """Make it known to transformers under its name, any number of times; the name."""
    ALL_ATTENTION_FUNCTIONS.register(NAME, grouped_attention)
    ALL_MASK_ATTENTION_FUNCTIONS.register(NAME, sdpa_mask)
    return NAME
