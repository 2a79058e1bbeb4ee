"""What blocks are taught: random anchors in the answers, the rows behind them, and what they may look at."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from paceline.drafters.lesson import Lesson


def weights(places: int, decay: float) -> Tensor:
    """[places]; what a right guess at each place is worth in training, exp(-(k - 1) / decay) for k = 1, 2, …"""
    return torch.exp(-torch.arange(places) / decay)


def behind(see: Tensor, anchors: Tensor, n: int) -> Tensor:
    """[B, 1, A n, R + A n] bool; what rows of blocks see: what their anchor sees but itself, and their own block.

    The target has not read the anchor yet when a block is drafted, so its features are not there. see: [B, R, R].
    """
    b, a = anchors.shape
    context = see.gather(1, anchors[..., None].expand(-1, -1, see.shape[2])).scatter(2, anchors[..., None], False)
    own = torch.eye(a, dtype=torch.bool, device=see.device).repeat_interleave(n, 0).repeat_interleave(n, 1)
    return torch.cat([context.repeat_interleave(n, 1), own.expand(b, -1, -1)], 2)[:, None]


def draw_anchors(lesson: Lesson, count: int, generator: torch.Generator) -> Tensor:
    """[B, A] int64; up to `count` different rows of answer tokens with a successor to learn, in order; -1 pads.

    Rows whose token is itself an answer token: a drafter's first anchor is the first token of the answer.
    """
    labels, owner = lesson.labels, lesson.owner
    said = F.pad((labels[:, :-1] >= 0) & (owner[:, :-1] == owner[:, 1:]), (1, 0))
    fit = said & (labels >= 0)
    chance = torch.rand(fit.shape, generator=generator).to(fit.device).masked_fill(~fit, -1)
    best = chance.topk(min(count, fit.shape[1]), 1)
    last = fit.shape[1]
    rows = best.indices.masked_fill(best.values < 0, last).sort(1).values
    rows = rows[:, : max(int(fit.sum(1).max().clamp(max=count)), 1)]
    return rows.masked_fill(rows == last, -1)


def rows_behind(lesson: Lesson, anchors: Tensor, places: int) -> Tensor:
    """[B, A, places] int64; the rows whose labels blocks behind these anchors shall guess, -1 where there are none.

    Worked example: a branch of rows q0 a1 a2 a3 e with labels a1 a2 a3 e . and the anchor a1: a1, a2, a3, -1, …, whose
    labels are a2, a3 and the end token e.
    """
    found: list[Tensor] = []
    for k in range(places):
        row = lesson.further(k).gather(1, anchors.clamp(min=0))
        taught = lesson.labels.gather(1, row.clamp(min=0)) >= 0
        found.append(row.masked_fill((anchors < 0) | (row < 0) | ~taught, -1))
    return torch.stack(found, 2)


def at_rows(values: Tensor, rows: Tensor, otherwise: int = -1) -> Tensor:
    """[B, A, places]; values [B, R] at these rows, `otherwise` where rows are -1."""
    flat = rows.flatten(1)
    return values.gather(1, flat.clamp(min=0)).masked_fill(flat < 0, otherwise).view_as(rows)


def shares(asked: Tensor, decay: float) -> Tensor:
    """[B, A, places]; the share of each place in its block's loss: its weight over those of all that are asked."""
    worth = weights(asked.shape[2], decay).to(asked.device) * asked
    return worth / worth.sum(-1, keepdim=True).clamp(min=1e-9)


def runs(logits: Tensor, labels: Tensor) -> dict[str, float]:
    """Guesses right at the first place, and right in a row, over all anchors. logits: [n, V], where labels >= 0."""
    right = torch.zeros_like(labels)
    right[labels >= 0] = (logits.argmax(-1) == labels[labels >= 0]).long()
    return {"first": float(right[..., 0].sum()), "run": float(right.cumprod(-1).sum())}
