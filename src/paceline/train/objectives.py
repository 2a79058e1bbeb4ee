"""Objectives of the training loop: pure functions of a model and a batch."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from paceline.train.alignment import AlignedTiles, look_and_say
from paceline.train.loop import Outcome
from paceline.train.packing import PackedBatch


def joint(model: nn.Module, batch: PackedBatch | AlignedTiles) -> Outcome:
    """The objective of joint training, whose steps hold scenes and, for a while, alignment tiles."""
    return look_and_say(model, batch) if isinstance(batch, AlignedTiles) else answer_tokens(model, batch)


def answer_tokens(model: nn.Module, batch: PackedBatch) -> Outcome:
    """Cross-entropy of the answer and end tokens, given pictures and question; the head runs on those rows only.

    `model` is a stock conditional-generation class, or a causal language model when the batch has no pictures.
    """
    pictures = {} if batch.pixels is None else {"pixel_values": batch.pixels}
    hidden = model.model(  # type: ignore[operator]
        input_ids=batch.ids, position_ids=batch.positions, attention_mask=batch.mask, use_cache=False, **pictures
    ).last_hidden_state
    logits = model.lm_head(hidden[batch.source])  # type: ignore[operator]
    loss = functional.cross_entropy(logits, batch.labels, reduction="sum")
    sums = {"#answer_nll": loss.item(), "#answers": float(len(batch.labels)), **_per_task(logits.detach(), batch)}
    return Outcome(loss, len(batch.labels), sums)


def _per_task(logits: torch.Tensor, batch: PackedBatch) -> dict[str, float]:
    right = logits.argmax(-1) == batch.labels
    sums = {"#answer_right": float(right.sum())}
    for number, name in enumerate(batch.tasks):
        own = batch.task == number
        sums[f"#{name}_right"], sums[f"#{name}_tokens"] = float(right[own].sum()), float(own.sum())
    return sums
