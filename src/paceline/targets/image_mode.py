"""A stock model seen in its image mode: a prompt, then codes, each with an embedding and a head of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from paceline.hf.body import Body

Embed = Callable[[Tensor], Tensor]  # ids [B, n] -> [B, n, H]


@dataclass(frozen=True)
class Logits:
    """What a class's forward gives, as far as prefill reads it."""

    logits: Tensor  # [B, 1, V]


class Decoder(nn.Module):
    """A stock decoder fed with ids: those of a prompt through one embedding, codes through another."""

    def __init__(self, inner: nn.Module, words: Embed, codes: Embed) -> None:
        super().__init__()
        self.inner, self.words, self.codes = inner, words, codes

    @property
    def layers(self) -> nn.ModuleList:
        """Those of the stock decoder."""
        return self.inner.layers  # type: ignore[return-value]

    def forward(self, input_ids: Tensor, *, prompt: bool = False, **options: Any) -> Any:
        return self.inner(inputs_embeds=(self.words if prompt else self.codes)(input_ids), **options)


class ImageMode(nn.Module):
    """What prefill calls in place of the whole class: the decoder over a prompt, then the head that makes codes."""

    def __init__(self, model: PreTrainedModel, decoder: nn.Module, head: Embed, options: Mapping[str, Any]) -> None:
        """options: what else the decoder is told at prefill."""
        super().__init__()
        self.config, self.device = model.config, model.device
        self.decoder, self.head, self.options = decoder, head, options

    def forward(self, input_ids: Tensor, cache: object, use_cache: bool) -> Logits:
        out = self.decoder(input_ids=input_ids, cache=cache, use_cache=use_cache, **self.options)
        return Logits(self.head(out.last_hidden_state[:, -1:]))


def body_of(
    model: PreTrainedModel, decoder: nn.Module, layers: nn.ModuleList, head: Embed, positions: int, **options: Any
) -> Body:
    """The model as sessions drive it, in image mode. layers: the decoder's; options: see `ImageMode`."""
    image_mode: Any = ImageMode(model, decoder, head, options)
    return Body(
        image_mode, decoder, layers, head, window=None, kinds=(), recurrent=(), mrope=False, positions=positions
    )


def to_bytes(picture: Tensor) -> Tensor:
    """Bytes of a picture with values in -1 … 1, as the classes' own processors round them: downwards."""
    return ((picture.float() * 0.5 + 0.5) * 255).clamp(0, 255).to(torch.uint8)
