"""Classifier-free guidance: a session made of two, conditional and unconditional, read in one forward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paceline.clock import Clock, silent
from paceline.core import Context, Draft, Needs, Pass, Prompt, Target, TargetSession
from paceline.errors import UsageError
from paceline.tree import Tree

Opened = tuple[TargetSession, Context, Pass]


@dataclass(frozen=True)
class Guided:
    """A target whose logits are u + s (c - u): c with the prompt, u with its unconditional twin (Ho, Salimans 2022)."""

    target: Target
    twin: Callable[[Prompt], Prompt]
    scale: float

    @property
    def vocab_size(self) -> int:
        return self.target.vocab_size

    def open(self, prompts: Sequence[Prompt], needs: Needs = Needs(), *, clock: Clock = silent) -> Opened:
        """Read the prompts and their twins. Context and features are those of the prompts."""
        both = [*prompts, *map(self.twin, prompts)]
        return guide(self.target.open(both, needs, clock=clock), self.scale)


class GuidedSession:
    """Rows 0 … B - 1 of the inner session are conditional, B … 2 B - 1 their twins, fed with the same tokens."""

    def __init__(self, inner: TargetSession, scale: float) -> None:
        self.inner, self.scale = inner, scale

    @property
    def length(self) -> Tensor:
        """[B] int64; tokens committed behind the conditional prompts."""
        both = self.inner.length
        return both[: len(both) // 2]

    def forward(self, root: Tensor, draft: Draft, start: int = 0) -> Pass:
        """One forward over both halves; see `TargetSession`."""
        both = Draft(draft.tokens.repeat(2, 1), _twice(draft.tree, len(root)))
        return combine(self.inner.forward(root.repeat(2), both, start), self.scale)

    def commit(self, path: Tensor, length: Tensor) -> None:
        self.inner.commit(path.repeat(2, 1), length.repeat(2))

    def keep(self, rows: Tensor) -> None:
        self.inner.keep(torch.cat([rows, rows + len(self.length)]))

    def join(self, other: GuidedSession) -> None:
        """Raises UsageError for a session under another scale."""
        if other.scale != self.scale:
            raise UsageError(f"rows under guidance {self.scale:g} and {other.scale:g} cannot share a session")
        mine, theirs = len(self.length), len(other.length)
        self.inner.join(other.inner)
        row = torch.arange(2 * (mine + theirs), device=self.inner.length.device)
        twins = row[mine : 2 * mine], row[2 * mine + theirs :]
        self.inner.keep(torch.cat([row[:mine], row[2 * mine : 2 * mine + theirs], *twins]))


def guide(opened: Opened, scale: float) -> Opened:
    """A session opened on prompts and then on their twins, as one guided session on the prompts."""
    session, context, seen = opened
    return GuidedSession(session, scale), _first_half(context), combine(seen, scale)


def combine(seen: Pass, scale: float) -> Pass:
    """u + s (c - u) of rows c … u. The features are the conditional ones."""
    given, free = seen.logits.chunk(2)
    return Pass(free + scale * (given - free), None if seen.features is None else seen.features.chunk(2)[0])


def check_scale(scale: float) -> float:
    """The scale. Raises UsageError for one below 1 or without end."""
    if not 1 <= scale < math.inf:
        raise UsageError(f"guidance is {scale:g}; it must be 1 (none) or more")
    return float(scale)


def _twice(tree: Tree, rows: int) -> Tree:
    """The shape for both halves: shared by all rows, or one a row."""
    return tree if tree.parent.shape[0] == 1 else tree.keep(torch.arange(2 * rows, device=tree.parent.device) % rows)


def _first_half(context: Context) -> Context:
    n = len(context.prompts) // 2
    width = max(len(prompt.ids) for prompt in context.prompts[:n])

    def cut(rows: Tensor | None) -> Tensor | None:
        return None if rows is None else rows[:n, :width]

    return replace(
        context, prompts=context.prompts[:n], ids=context.ids[:n, :width], valid=context.valid[:n, :width],
        image=context.image[:n, :width], embeddings=cut(context.embeddings), features=cut(context.features),
        scores=cut(context.scores),
    )  # fmt: skip
