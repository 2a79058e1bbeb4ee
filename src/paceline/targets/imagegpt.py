"""ImageGPT: a GPT-2 over colour clusters, pixel by pixel, without a prompt.

Checkpoints: openai/imagegpt-small, openai/imagegpt-medium, openai/imagegpt-large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from paceline.core import Prompt
from paceline.errors import UsageError
from paceline.hf.body import Body
from paceline.layout import Layout
from paceline.targets.drawing import Drawing
from paceline.targets.image_mode import body_of

if TYPE_CHECKING:
    import numpy as np


class ImageGPT(Drawing):
    """Pictures of 32 x 32 pixels out of nothing: captions are not read, so that there is no guidance either."""

    auto = "ImageGPTForCausalImageModeling"
    reader = "AutoImageProcessor"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        side = math.isqrt(self.max_length)
        self.layout = Layout.raster(side, side, codes=(0, self.vocab_size))

    def seen(self) -> Body:
        model, config = self.model, self.model.config
        stack = Stack(model.transformer, config.n_positions)
        return body_of(model, stack, model.transformer.h, model.lm_head, config.n_positions, prompt=True)

    @property
    def vocab_size(self) -> int:
        return self.model.lm_head.weight.shape[0]

    @property
    def cell(self) -> int:
        return 1

    def worded(self, caption: str) -> Prompt:
        """The start token alone, whatever is asked for."""
        return Prompt(torch.tensor([self.model.config.vocab_size - 1]))

    def pixels(self, codes: Tensor) -> np.ndarray:
        """The colour of each cluster. Raises UsageError where the target was built without its image processor."""
        clusters = getattr(self.processor, "clusters", None)
        if clusters is None:
            raise UsageError("this target has no colour clusters: give its image processor beside the model")
        colours = torch.as_tensor(clusters, dtype=torch.float32)[codes]
        return ((colours + 1.0) * 127.5).round().clamp(0, 255).to(torch.uint8).numpy()


@dataclass(frozen=True)
class Hidden:
    last_hidden_state: Tensor  # [B, n, H]


class Stack(nn.Module):
    """The class's own blocks over ids at given positions, under block masks, which its `forward` would flatten."""

    def __init__(self, inner: nn.Module, positions: int) -> None:
        super().__init__()
        self.inner, self.positions = inner, positions
        self.open = torch.ones(1, 1, 1, 1, dtype=torch.bool)

    @property
    def layers(self) -> nn.ModuleList:
        """The class's blocks."""
        return self.inner.h  # type: ignore[return-value]

    def forward(
        self,
        input_ids: Tensor,
        *,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: Any = None,
        use_cache: bool = True,
        prompt: bool = False,
    ) -> Any:
        inner: Any = self.inner
        if prompt:
            return inner(input_ids=input_ids, cache=cache, use_cache=use_cache)
        hidden = inner.wte(input_ids) + inner.wpe(position_ids)
        for block in inner.h:
            hidden = self._call(block, attention_mask)(hidden, cache, attention_mask, use_cache=True)[0]
        return Hidden(inner.ln_f(hidden))

    def _call(self, block: nn.Module, mask: Tensor | None) -> Callable[..., Any]:
        """The block, whose own causal mask ends at the last position. It forbids no more than ours up to there.

        Guesses past the picture's end stand in slots behind that; for these the mask that allows all is lent to it.
        """
        slots = 0 if mask is None else mask.shape[-1]
        if slots <= self.positions:
            return block
        open_ = {"attn.bias": self.open.to(mask.device if mask is not None else None).expand(1, 1, slots, slots)}
        return lambda *args, **kwargs: functional_call(block, open_, args, kwargs)
