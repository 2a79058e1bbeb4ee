"""What several guesses ahead learn from: the answer tokens after a row's own, and cross-entropy against them.

Worked example, paired rows of an answer a1 a2 a3 to a question that ends in a0; the labels are those of guess 0:

    row           a0 a1 a2 a3
    guess 0       a1 a2 a3  .
    guess 1       a2 a3  .  .      said by the target at the next row
    guess 2       a3  .  .  .      at the one after it
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from paceline.drafters.lesson import Lesson, Loss


@dataclass(frozen=True, slots=True)
class Goal:
    """What one guess of every row shall be."""

    labels: Tensor  # [B, R] int64; -1 where nothing is learnt
    row: Tensor  # [B, R] int64; the row after whose token the target says it, -1 where nothing is learnt

    @property
    def where(self) -> Tensor:
        """[B, R] bool; rows that learn."""
        return self.labels >= 0


class Goals:
    """The goals of guesses 0, 1, …; from the first token on that is no answer token, nothing."""

    def __init__(self, lesson: Lesson, guesses: int) -> None:
        self.lesson = lesson
        place = torch.arange(lesson.labels.shape[1], device=lesson.labels.device).expand_as(lesson.labels)
        self.each = [Goal(lesson.labels, place.where(lesson.labels >= 0, -1))]
        for step in range(1, guesses):
            row = lesson.further(step)
            labels = lesson.labels.gather(1, row.clamp(min=0)).where((row >= 0) & self.each[-1].where, -1)
            self.each.append(Goal(labels, row.where(labels >= 0, -1)))
        self._law: Tensor | None = None

    def only(self, kept: Sequence[Tensor]) -> Goals:
        """The same goals at fewer rows. kept: for each guess, [B, R] bool."""
        fewer = copy.copy(self)
        fewer.each = [
            Goal(goal.labels.where(where, -1), goal.row.where(where, -1))
            for goal, where in zip(self.each, kept, strict=True)
        ]
        return fewer

    def law(self, guess: int) -> Tensor:
        """[n, V]; what the target says where this guess is learnt. The head runs once for all guesses."""
        known = self.lesson.labels >= 0
        if self._law is None:
            self._law = self.lesson.target_logits(known).softmax(-1)
        number = known.flatten().cumsum(0).view_as(known) - 1
        goal = self.each[guess]
        return self._law[number.gather(1, goal.row.clamp(min=0))[goal.where]]

    def entropy(self, guess: int, logits: Tensor, teacher: float) -> tuple[Tensor, float]:
        """Cross-entropy in nats summed over the rows that learn, and how many of them have the label as best id.

        logits: [n, V] at those rows, in order; teacher: share of the target's own law in what is learnt, the rest is
        the label. By the law alone it is the KL divergence up to a constant.
        """
        goal = self.each[guess]
        labels, loss = goal.labels[goal.where], logits.new_zeros(())
        if teacher < 1:
            loss = (1 - teacher) * F.cross_entropy(logits, labels, reduction="sum")
        if teacher > 0:
            loss = loss - teacher * (self.law(guess) * logits.log_softmax(-1)).sum()
        return loss, float((logits.detach().argmax(-1) == labels).sum())

    def loss(self, forced: Iterable[Tensor], weights: Sequence[float], teacher: float) -> Loss:
        """Weighted sum over guesses of their cross-entropies; a term is a row that learns guess 0.

        forced: for each guess, logits [n, V] at the rows that learn it; the log has how often each is right.
        """
        total, sums = torch.zeros((), device=self.lesson.labels.device), dict[str, float]()
        for guess, (logits, weight) in enumerate(zip(forced, weights, strict=True)):
            value, right = self.entropy(guess, logits, teacher)
            total = total + weight * value
            sums[f"right_{guess + 1}"] = right
        return Loss(total, self.lesson.terms, sums)


@torch.no_grad()
def accuracies(
    forced: Callable[[Goals], Iterable[Tensor]], lessons: Iterable[Lesson], guesses: int, choices: int = 8
) -> list[list[float]]:
    """How often choice r of guess k is the answer's token, [guesses][choices]: what `ranks.best` makes a tree of.

    forced: a drafter's logits under teacher forcing. Raises ValueError for lessons in which a guess is never learnt.
    """
    right = torch.zeros(guesses, choices)
    seen = [0] * guesses
    for lesson in lessons:
        goals = Goals(lesson, guesses)
        for guess, (goal, logits) in enumerate(zip(goals.each, forced(goals), strict=True)):
            best = logits.topk(min(choices, logits.shape[-1]), -1).indices
            right[guess, : best.shape[1]] += (best == goal.labels[goal.where][:, None]).sum(0).cpu()
            seen[guess] += len(logits)
    if not all(seen):
        raise ValueError(f"guess {seen.index(0) + 1} is learnt nowhere: the answers are too short to measure it")
    return (right / torch.tensor(seen)[:, None]).tolist()
