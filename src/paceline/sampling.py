"""Logits become a law here, and only here: temperature, then top-k, then top-p, then min-p."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from paceline.law import Dense, Law, Point, Sparse

WIDE = 1024  # ids looked at first when only top-p or min-p bounds the support


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw and when to stop. Raises ValueError for a value out of range, naming what is allowed.

    The law equals that of transformers' warpers in their order (temperature, top-k, top-p, min-p), ties at the k-th
    logit apart: exactly `top_k` ids stay.
    """

    temperature: float = 0.0  # 0: greedy
    top_k: int = 0  # ids kept; 0: all
    top_p: float = 1.0  # mass kept, in (0, 1]
    min_p: float = 0.0  # ids kept: at least this share of the best id's probability, in [0, 1]
    seed: int = 0
    max_new_tokens: int = 256
    stop_ids: tuple[int, ...] | None = None  # None: the target's own end tokens
    stop_strings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        _between("temperature", self.temperature, 0 <= self.temperature < math.inf, "0 or more")
        _between("top_k", self.top_k, self.top_k >= 0, "0 (all ids) or more")
        _between("top_p", self.top_p, 0 < self.top_p <= 1, "in (0, 1]")
        _between("min_p", self.min_p, 0 <= self.min_p <= 1, "in [0, 1]")
        _between("max_new_tokens", self.max_new_tokens, self.max_new_tokens >= 1, "1 or more")
        if any(not text for text in self.stop_strings):
            raise ValueError("stop_strings holds an empty string, which would stop at once")

    def law(self, logits: Tensor) -> Law:
        """[..., V] -> [...]; a point when greedy, a short support under top-k, top-p or min-p, else dense."""
        if self.temperature == 0:
            return Point(logits.argmax(-1))
        z = logits.to(torch.promote_types(logits.dtype, torch.float32)) / self.temperature
        vocab = z.shape[-1]
        if 0 < self.top_k < vocab:
            return self._short(z, self.top_k, None)
        if self.top_p == 1 and self.min_p == 0:
            return Dense(z.softmax(-1))
        norm = z.logsumexp(-1, keepdim=True).double()
        width = min(WIDE, vocab)
        while True:
            law = self._short(z, width, norm)
            if law.ids.shape[-1] < width or width == vocab:  # the cut fell inside what was looked at, everywhere
                return law
            width = min(width * 4, vocab)

    def _short(self, z: Tensor, k: int, norm: Tensor | None) -> Sparse:
        """The k best ids of z after top-p and min-p. norm: of the whole row, None: of the k ids alone."""
        best = z.topk(k, -1)
        values = best.values.double()
        probs = (values - (values.logsumexp(-1, keepdim=True) if norm is None else norm)).exp()
        keep = torch.ones_like(probs, dtype=torch.bool)
        if self.top_p < 1:
            keep &= probs.cumsum(-1) - probs < self.top_p
        if self.min_p > 0:  # renormalising after top-p would change no ratio
            keep &= probs >= self.min_p * probs[..., :1]
        keep[..., 0] = True
        probs = probs.where(keep, 0.0)
        width = max(int(keep.sum(-1).max()), 1)
        ids, order = best.indices[..., :width].sort(-1)
        probs = probs[..., :width].gather(-1, order)
        return Sparse(ids, probs / probs.sum(-1, keepdim=True))


def _between(name: str, value: float, fine: bool, allowed: str) -> None:
    if not fine:
        raise ValueError(f"{name} is {value}; it must be {allowed}")


GREEDY = Sampling()
