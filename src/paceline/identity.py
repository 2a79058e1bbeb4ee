"""Is the drafted text the plain text? A differing token is a tie of the floats, or a fault."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from paceline.answer import TextTarget
from paceline.core import Draft, Prompt
from paceline.dice import RACE, Dice
from paceline.law import Point
from paceline.sampling import Sampling

TIE = 8.0  # times the measured kernel noise


class ExactTarget(TextTarget, Protocol):
    """A target that can be had in another precision."""

    def astype(self, dtype: torch.dtype) -> Any: ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two texts that should be one. Only the first difference can be judged: behind it the contexts differ."""

    identical: bool  # the same ids, literally
    ties: int  # 0 or 1: the two ids differ by less than the kernels' own noise
    faults: int  # 0 or 1: they differ by more
    first: int | None = None  # index of the first differing token
    margin: float | None = None  # between the two ids' scores in float64
    noise: float | None = None  # between the scores of those ids in the target's precision and in float64

    def __str__(self) -> str:
        if self.identical:
            return "identical"
        kind = "tie" if self.ties else "fault"
        return f"{kind} at token {self.first} (margin {self.margin:.2e}, kernel noise {self.noise:.2e})"


def compare(
    target: ExactTarget, prompt: Prompt, sampling: Sampling, seed: int, ours: Sequence[int], reference: Sequence[int]
) -> Comparison:
    """Judge drafted ids against plain ones of the same seed, drawn by the Gumbel race (greedy: the argmax).

    The scores of the two ids at the first difference are computed again in float64 behind the common prefix. It is a
    tie where their margin is at most 8 times the largest move of those scores between the precisions (one row and
    several rows of the same kernels differ by such amounts), else a fault; a text that ends early is always a fault.
    """
    first = next((i for i, (a, b) in enumerate(zip(ours, reference, strict=False)) if a != b), None)
    if first is None:
        same = len(ours) == len(reference)
        return Comparison(same, 0, int(not same), None if same else min(len(ours), len(reference)))
    pair = [ours[first], reference[first]]
    here = scores(target, prompt, ours[:first], sampling, seed)[pair]
    exact = scores(target.astype(torch.float64), prompt, ours[:first], sampling, seed)[pair]
    noise = float((here - exact).abs().nan_to_num(torch.inf).max())
    margin = float((exact[0] - exact[1]).abs().nan_to_num(torch.inf))
    tie = margin <= TIE * noise < float("inf")
    return Comparison(False, int(tie), int(not tie), first, margin, noise)


def scores(target: TextTarget, prompt: Prompt, said: Sequence[int], sampling: Sampling, seed: int) -> Tensor:
    """[V] float64; what the next token is the argmax of: logits when greedy, else log p plus the position's noise."""
    with torch.inference_mode():
        session, context, seen = target.open([prompt])
        if said:
            root = context.ids[:, len(prompt.ids) - 1]
            tail = torch.tensor([list(said)], device=root.device)
            seen = session.forward(root, Draft.chain(tail))
        logits = seen.logits[:, -1]
        law = sampling.law(logits)
        if isinstance(law, Point):
            return logits[0].double()
        vocab = logits.shape[-1]
        position = torch.tensor([len(prompt.ids) + len(said)], device=logits.device)
        dice = Dice(torch.tensor([seed], device=logits.device), position, torch.zeros_like(position))
        u = dice.uniform(RACE, torch.arange(vocab, device=logits.device), shared=True)
        return (law.dense(vocab).double().log() - (-(-u).log1p()).log())[0]
