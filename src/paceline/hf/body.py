"""Where things are in a stock model, what masks it takes and how it ends: found once, when it is loaded."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, get_layer_types_and_kwargs

from paceline.errors import UsageError
from paceline.hf.attention import NAME
from paceline.hf.layers import RecurrentLayer
from paceline.hf.masks import FULL, SLIDING, Mask, Masks

RECURRENT = ("linear_attention", "conv")
GROWING = {"dynamic", "longrope"}


@dataclass(frozen=True)
class Body:
    """A model seen as: embeddings, decoder layers, a final norm and a head. Holds no state of any conversation."""

    model: PreTrainedModel
    decoder: nn.Module
    layers: nn.ModuleList
    head: Callable[[Tensor], Tensor] | None  # hidden [..., H] -> logits [..., V]; None: ask the whole class
    window: int | None  # of sliding layers
    kinds: tuple[str, ...]  # layer types, where the decoder wants one mask for each
    recurrent: tuple[int, ...]  # layers whose state cannot be cropped
    mrope: bool  # positions are triples, and the class keeps an offset after prefill
    positions: int  # how many there are; 2^31 where the config does not say
    vision: tuple[nn.Module, ...] = ()
    look: Callable[[dict[str, Any]], dict[str, Any]] = dict  # what is done with a prompt's inputs before its forward

    @staticmethod
    def of(
        model: PreTrainedModel,
        vision: tuple[nn.Module, ...] = (),
        look: Callable[[dict[str, Any]], dict[str, Any]] = dict,
    ) -> Body:
        """Look the model over. Raises UsageError for layers, attention or positions that cannot be driven exactly."""
        decoder, config = model.get_decoder(), model.config.get_text_config(decoder=True)
        types = set(get_layer_types_and_kwargs(config)[0])
        if fault := _fault(decoder, config, types):
            raise UsageError(f"{type(model).__name__} {fault}")
        kinds = sorted(types - {"dummy"})
        body = Body(
            model,
            decoder,
            decoder.layers,
            None,
            window=config.sliding_window if SLIDING in types else None,
            kinds=tuple(kinds) if kinds != [FULL] and getattr(config, "layer_types", None) is not None else (),
            recurrent=tuple(i for i, kind in enumerate(get_layer_types_and_kwargs(config)[0]) if kind in RECURRENT),
            mrope="mrope_section" in (getattr(config, "rope_parameters", None) or {}),
            positions=getattr(config, "max_position_embeddings", None) or 2**31,
            vision=vision,
            look=look,
        )
        return replace(body, head=_head(body))

    @property
    def dtype(self) -> torch.dtype:
        return next(self.layers[0].parameters()).dtype

    def masks(self) -> Masks:
        """A mask maker for one session."""
        return Masks(self.dtype, self.window, self.kinds)

    def cache(self) -> DynamicCache:
        """An empty cache for the prefill of one row: full layers for all attention, so that nothing is forgotten."""
        cache = DynamicCache()
        if self.recurrent:
            count = len(self.layers)
            cache.layers = [RecurrentLayer() if i in self.recurrent else DynamicLayer() for i in range(count)]
        return cache

    def forward(
        self, block: Tensor, mask: Mask, position: Tensor, cache: object, layers: tuple[int, ...] = ()
    ) -> tuple[Tensor, Tensor | None]:
        """Logits [B, n, V] and, side by side, the asked-for layers [B, n, F]. block, position: [B, n] int64."""
        if self.mrope:
            position = position[None].expand(3, -1, -1)
        with self.tapped(layers) as seen:
            if self.head is not None:
                out = self.decoder(
                    input_ids=block, attention_mask=mask, position_ids=position, cache=cache, use_cache=True
                )
                seen[len(self.layers)] = out.last_hidden_state
                logits = self.head(out.last_hidden_state)
            else:
                with self.last(seen):
                    logits = self.model(
                        input_ids=block, attention_mask=mask, position_ids=position, cache=cache, use_cache=True
                    ).logits
        return logits, torch.cat([seen[k] for k in layers], -1) if layers else None

    @contextmanager
    def tapped(self, layers: tuple[int, ...]) -> Iterator[dict[int, Tensor]]:
        """Hooks that live for one forward: layer id k (0 embeddings … L - 1) -> hidden states [B, n, H]."""
        seen: dict[int, Tensor] = {}

        def enter(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            seen[0] = args[0] if args else kwargs["hidden_states"]

        def leave(k: int) -> Callable[[nn.Module, object, Any], None]:
            def hook(_: nn.Module, __: object, out: Any) -> None:
                seen[k] = out[0] if isinstance(out, tuple) else out

            return hook

        handles = [self.layers[k - 1].register_forward_hook(leave(k)) for k in layers if 0 < k < len(self.layers)]
        if 0 in layers:
            handles.append(self.layers[0].register_forward_pre_hook(enter, with_kwargs=True))
        try:
            yield seen
        finally:
            for handle in handles:
                handle.remove()

    @contextmanager
    def last(self, seen: dict[int, Tensor]) -> Iterator[None]:
        def hook(_: nn.Module, __: object, out: Any) -> None:
            seen[len(self.layers)] = out.last_hidden_state

        handle = self.decoder.register_forward_hook(hook)
        try:
            yield
        finally:
            handle.remove()


@contextmanager
def unchanged(model: PreTrainedModel) -> Iterator[PreTrainedModel]:
    """The inner model, whose `rope_deltas` start empty and are put back: some classes leave a request's state there."""
    inner = getattr(model, "model", model)
    before = getattr(inner, "rope_deltas", None)
    if hasattr(inner, "rope_deltas"):
        inner.rope_deltas = None
    try:
        yield inner
    finally:
        if hasattr(inner, "rope_deltas"):
            inner.rope_deltas = before


def _fault(decoder: nn.Module, config: Any, types: set[str]) -> str | None:
    """Why a decoder cannot be driven exactly, as the end of a sentence about its class."""
    known = {FULL, SLIDING, "dummy", *RECURRENT}
    if not isinstance(getattr(decoder, "layers", None), nn.ModuleList):
        return "has no decoder with `layers`, which paceline drives models by"
    if types - known:
        return f"has layers of kind {', '.join(sorted(types - known))}; known are {', '.join(sorted(known))}"
    if not {FULL, SLIDING} & types:
        return "has no attention layers, which paceline counts tokens by"
    if config._attn_implementation not in ("sdpa", "eager", NAME):
        return (
            f"uses attention {config._attn_implementation!r}, which takes no block masks; load it with "
            "attn_implementation='sdpa' or 'eager'"
        )
    if growing := GROWING & _rope_types(getattr(config, "rope_parameters", None) or {}):
        return (
            f"rescales its positions as the text grows (rope_type {growing.pop()!r}), so that a draft changes what "
            "came before it"
        )
    return None


def _rope_types(rope: dict[str, Any]) -> set[str]:
    """The kinds of rotary positions, in a config for all layers or one for each kind of layer."""
    nested = [value for value in rope.values() if isinstance(value, dict)]
    return {str(each["rope_type"]) for each in (rope, *nested) if "rope_type" in each}


def takes(model: PreTrainedModel, name: str) -> bool:
    """Whether the class's forward has an argument of this name."""
    return name in inspect.signature(type(model).forward).parameters


@torch.inference_mode()
def _head(body: Body) -> Callable[[Tensor], Tensor] | None:
    """What turns the decoder's output into the class's own logits, found by comparing bits on one token."""
    model, config = body.model, body.model.config.get_text_config(decoder=True)
    project = model.get_output_embeddings()
    if project is None:
        return None
    seen: dict[int, Tensor] = {}
    with unchanged(model), body.last(seen):
        wanted = model(input_ids=torch.ones(1, 1, dtype=torch.long, device=model.device), use_cache=False).logits
    hidden = seen[len(body.layers)]
    cap = getattr(config, "final_logit_softcapping", None)

    def capped(hidden: Tensor) -> Tensor:
        return torch.tanh(project(hidden) / cap) * cap

    for head in (project, capped) if cap else (project,):
        if torch.equal(head(hidden), wanted):
            return head
    return None
