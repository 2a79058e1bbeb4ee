"""What a trained drafter learns from: the rows that it will see when it drafts, and what the target made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from paceline.conditioning import Rows
from paceline.core import Shared


@dataclass(frozen=True, slots=True)
class Lesson:
    """A batch under teacher forcing. Several answers may share the rows of one prompt, each a branch of its own.

    Worked example, plain rows: prompt p0 p1 p2, branches a0 a1 and b0 b1 b2, of which a1, b1 and b2 are answers.

        row        p0 p1 p2 a0 a1 b0 b1 b2
        position    0  1  2  3  4  3  4  5
        owner       0  0  0  1  1  2  2  2
        labels      .  .  . a1  . b1 b2  .
        b1 sees     x  x  x  .  .  x  x  .

    Paired rows are the same without p0, each with the features of its predecessor: those of p2 for a0 and for b0.
    """

    name: str  # for error messages: which samples
    rows: Rows  # conditioned, as in decoding
    see: Tensor  # [B, R, R] bool; which rows a row sees, itself included
    owner: Tensor  # [B, R] int64; 0 the prompt, n its n-th branch, -1 no row
    labels: Tensor  # [B, R] int64; the answer token that follows the row's own, -1 where nothing is learnt
    at: Mapping[int, Tensor]  # layer k -> [B, R, H]; hidden_states[k] at the row's own token; L is always there
    shared: Shared

    @property
    def terms(self) -> int:
        """Answer tokens to learn: what every loss is counted in."""
        return int((self.labels >= 0).sum())

    def target_logits(self, where: Tensor) -> Tensor:
        """[n, V]; what the target says after the tokens of these rows. where: [B, R] bool with n rows True."""
        with torch.no_grad():
            return self.shared.head(self.at[self.shared.depth][where])

    def further(self, steps: int) -> Tensor:
        """[B, R] int64; the row `steps` further on in the same branch, -1 where the branch has ended."""
        place = torch.arange(self.owner.shape[1], device=self.owner.device).expand_as(self.owner)
        there = (place + steps).clamp(max=self.owner.shape[1] - 1)
        same = (place + steps < self.owner.shape[1]) & (self.owner > 0) & (self.owner.gather(1, there) == self.owner)
        return there.where(same, -1)


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss summed over `terms` terms, and sums of whatever else is worth logging, divided by terms in the log."""

    value: Tensor  # []
    terms: int
    sums: Mapping[str, float] = field(default_factory=dict)
