"""Reading prompts: each row alone and through the class's own forward, then all rows side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers.cache_utils import Cache

from paceline.clock import Clock
from paceline.core import Context, Needs, Pass, Prompt, TargetSession
from paceline.errors import UsageError
from paceline.hf.body import Body, takes, unchanged
from paceline.hf.received import received, telling
from paceline.hf.recurrent import Abreast, ReplaySession
from paceline.hf.session import Session
from paceline.hf.slots import Slots


@dataclass(frozen=True, slots=True)
class Reading:
    """What one prompt left behind."""

    cache: Cache
    logits: Tensor  # [V]; what follows the prompt
    embeddings: Tensor | None  # [S, H]
    features: Tensor | None  # [S, F]
    offset: Tensor | None  # [1]; from sequence index to position
    scores: Tensor | None = None  # [S]; attention received


@torch.inference_mode()
def open_session(
    body: Body, prompts: Sequence[Prompt], needs: Needs, image_ids: Sequence[int], clock: Clock
) -> tuple[TargetSession, Context, Pass]:
    """Read the prompts; each row's last token stays uncommitted. Raises UsageError for needs that cannot be met."""
    wrong = [k for k in needs.layers if not 0 <= k <= len(body.layers)]
    if wrong:
        raise UsageError(f"layers {wrong} asked for; this target has 0 (embeddings) to {len(body.layers)} (its last)")
    read = [_read(body, prompt, needs, image_ids, clock) for prompt in prompts]
    session = _session(body, prompts, read, needs.layers)
    seen = Pass(
        torch.stack([row.logits for row in read])[:, None],
        torch.stack([row.features[-1] for row in read])[:, None] if needs.layers else None,
    )
    return session, _context(body, prompts, read, needs, image_ids), seen


def _session(body: Body, prompts: Sequence[Prompt], read: Sequence[Reading], layers: tuple[int, ...]) -> TargetSession:
    sizes = [len(prompt.ids) for prompt in prompts]
    offsets = [row.offset for row in read if row.offset is not None]
    offset = torch.stack(offsets) if offsets else None
    committed = [size - 1 for size in sizes]
    if not body.recurrent:
        return Session(body, layers, Slots.of([row.cache for row in read], sizes), committed, offset)
    return Abreast([
        ReplaySession(
            body, layers, Slots.of([row.cache], [n]), [n - 1], None if offset is None else offset[i : i + 1],
            prompts[i].ids[None, -1:].to(body.model.device),
        )
        for i, (row, n) in enumerate(zip(read, sizes, strict=True))
    ])  # fmt: skip


def _context(
    body: Body, prompts: Sequence[Prompt], read: Sequence[Reading], needs: Needs, image_ids: Sequence[int]
) -> Context:
    device = body.model.device
    ids = pad_sequence([prompt.ids.to(device) for prompt in prompts], batch_first=True, padding_value=-1)
    image = torch.isin(ids, torch.tensor(list(image_ids), device=device, dtype=ids.dtype))
    return Context(
        tuple(prompts),
        ids,
        ids >= 0,
        image,
        embeddings=pad_sequence([row.embeddings for row in read], batch_first=True) if needs.embeddings else None,
        features=pad_sequence([row.features for row in read], batch_first=True) if needs.layers else None,
        scores=pad_sequence([row.scores for row in read], batch_first=True) if needs.scores else None,
    )


def _read(body: Body, prompt: Prompt, needs: Needs, image_ids: Sequence[int], clock: Clock) -> Reading:
    model, cache = body.model, body.cache()
    config = model.config.get_text_config(decoder=True)
    inputs = _inputs(body, prompt)
    wanted = tuple(dict.fromkeys([*needs.layers, *([0] if needs.embeddings else [])]))
    with (
        unchanged(model) as inner, body.tapped(wanted) as seen, body.last(seen), timed(body.vision, clock),
        telling(body.decoder, config, needs.scores) as told,
    ):  # fmt: skip
        shown = body.look(inputs)
        out = model(input_ids=prompt.ids[None].to(model.device), cache=cache, use_cache=True, **shown)
        offset = getattr(inner, "rope_deltas", None)
    if body.mrope and "position_ids" in inputs:  # worked out by `generate` before it called us
        offset = inputs["position_ids"][-3:].amax().view(1) + 1 - len(prompt.ids)
    elif body.mrope:
        offset = torch.zeros(1, dtype=torch.long, device=model.device) if offset is None else offset.reshape(-1)[:1]
    features = torch.cat([seen[k][0] for k in needs.layers], -1) if needs.layers else None
    image = torch.isin(prompt.ids.to(model.device), torch.tensor(list(image_ids), device=model.device))
    scores = received(told[0], image) if needs.scores else None
    return Reading(cache, out.logits[0, -1], seen[0][0] if needs.embeddings else None, features, offset, scores)


def _placed(value: Any, body: Body) -> Any:
    """A tensor on the model's device, and in its precision if it holds floats; anything else as it is."""
    if not isinstance(value, Tensor):
        return value
    return value.to(body.model.device, body.dtype if value.is_floating_point() else None)


def _inputs(body: Body, prompt: Prompt) -> dict[str, Any]:
    """What the class's forward takes beside ids, and no more logits than those of the last row."""
    idle = {"attention_mask"} if takes(body.model, "token_type_ids") else {"attention_mask", "token_type_ids"}
    inputs = {key: _placed(value, body) for key, value in prompt.inputs.items() if key not in idle}
    return {**inputs, "logits_to_keep": 1} if takes(body.model, "logits_to_keep") else inputs


@contextmanager
def timed(parts: Sequence[nn.Module], clock: Clock) -> Iterator[None]:
    """Give the time spent in these modules to the phase `vision`."""
    inside = ExitStack()

    def enter(*_: Any) -> None:
        inside.enter_context(clock("vision"))

    def leave(*_: Any) -> None:
        inside.close()

    handles = [h for part in parts for h in (part.register_forward_pre_hook(enter), part.register_forward_hook(leave))]
    try:
        with inside:
            yield
    finally:
        for handle in handles:
            handle.remove()
