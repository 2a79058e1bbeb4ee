"""Medusa: heads on the target's last state, each guessing one place further ahead than the last (Cai et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from paceline.clock import Clock, silent
from paceline.conditioning import Conditioner, Conditioning, Full
from paceline.core import Context, Draft, Needs, Rule, Shared, TargetSession, Verdict
from paceline.drafters import directory, layers
from paceline.drafters.heads import ranks
from paceline.drafters.heads.goals import Goals
from paceline.drafters.lesson import Lesson, Loss


@dataclass(frozen=True, slots=True)
class MedusaConfig:
    """Raises ValueError for no guesses, and for shares outside 0 … 1."""

    guesses: int = 4  # heads
    own_head: bool = False  # a vocabulary matrix for every head, as published; else the target's serves all of them
    decay: float = 0.8  # head k counts decay ** k, k from 1
    teacher: float = 0.0  # share of the target's law in what is learnt; the rest is the label

    def __post_init__(self) -> None:
        if self.guesses < 1 or not (0 < self.decay <= 1 and 0 <= self.teacher <= 1):
            raise ValueError(f"medusa needs guesses >= 1, 0 < decay <= 1 and 0 <= teacher <= 1, got {self}")


class MedusaNet(nn.Module):
    """h + silu(W_k h) for every head k, W_k starting at zero: K (H² + H V) parameters with vocabulary matrices.

    Without them the sum is R_k h + silu(W_k h), R_k starting at one, which does before the target's matrix what one of
    the head's own would do: K 2 H² parameters.
    """

    def __init__(self, width: int, vocab: int, config: MedusaConfig) -> None:
        super().__init__()
        self.zero_mix = nn.Parameter(torch.zeros(config.guesses, width, width))
        own = config.own_head
        self.skip = None if own else nn.Parameter(torch.zeros(config.guesses, width, width))
        self.head = nn.Parameter(torch.zeros(config.guesses, vocab, width)) if own else None

    def forward(self, hidden: Tensor) -> Tensor:
        """[n, K, H]; the state of every head. hidden: [n, H], the target's final normed states."""
        guesses, width, _ = self.zero_mix.shape
        mixed = F.silu(F.linear(hidden, self.zero_mix.view(-1, width))).view(-1, guesses, width)
        if self.skip is None:
            return hidden[:, None] + mixed
        return F.linear(hidden, self.skip.view(-1, width)).view(-1, guesses, width) + mixed

    def all_logits(self, states: Tensor, shared: Shared) -> Tensor:
        """[n, K', V] of the first K' heads' states, [n, K', H]."""
        if self.head is None:
            return shared.head(states)
        return torch.einsum("nkh,kvh->nkv", states, self.head[: states.shape[1]])

    def logits(self, states: Tensor, guess: int, shared: Shared) -> Tensor:
        """[n, V] of one head's states, [n, H]."""
        return shared.head(states) if self.head is None else F.linear(states, self.head[guess])


@dataclass(frozen=True, slots=True)
class Medusa:
    """Guesses all places in one pass over one state, and hangs the choices of the heads under each other.

    Raises ValueError for a tree deeper than there are heads.
    """

    net: MedusaNet
    shared: Shared
    config: MedusaConfig
    conditioner: Conditioner
    tree: ranks.Paths = ()  # paths of ranks; (): the best `nodes` nodes by the chances of `ranks.usual`
    nodes: int = 16
    drawn: bool = True  # above temperature 0 children are drawn; False: the heads' best, as published

    level: ClassVar[int] = 2
    trained: ClassVar[bool] = True
    paired: ClassVar[bool] = True
    lesson_layers: ClassVar[tuple[int, ...]] = ()
    Config: ClassVar[type] = MedusaConfig

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", ranks.check(self.tree, self.nodes, self.config.guesses))

    @property
    def needs(self) -> Needs:
        return Needs(layers=(self.shared.depth,), scores=self.conditioner.scores)

    @classmethod
    def create(cls, shared: Shared, config: MedusaConfig, conditioner: Conditioner, *, seed: int = 0) -> Medusa:
        """New heads, which say what the target says: W_k is zero, R_k one, and vocabulary matrices the target's."""
        net = layers.built(lambda: MedusaNet(shared.width, shared.vocab_size, config), shared.like, seed)
        one = torch.eye(shared.width).to(shared.like)
        with torch.no_grad():
            if net.head is not None:
                net.head.copy_(shared.head(one).T)
            if net.skip is not None:
                net.skip.copy_(one)
        return cls(net, shared, config, conditioner)

    @classmethod
    def tiny(cls, model: Any) -> Medusa:
        """An instance for the law tests, with heads that differ."""
        made = cls.create(model.shared, MedusaConfig(guesses=3, own_head=True), Full(), seed=1)
        with torch.no_grad():
            made.net.zero_mix.normal_(generator=torch.Generator().manual_seed(2))
        return replace(made, nodes=8)

    @classmethod
    def load(cls, path: Path, target: Any, open_model: Callable[[Path], Any], **options: Any) -> Medusa:
        """Read a directory. Raises UsageError for one of another target."""
        return directory.read(cls, path, target, options)

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> MedusaSession:
        return MedusaSession(self, self.conditioner.open(context, self.paired), rule, clock)

    def forced(self, goals: Goals) -> Iterator[Tensor]:
        """[n, V] a head: its logits at the rows that learn its guess, in order."""
        first = goals.each[0].where
        states = self.net(goals.lesson.rows.features[first])
        for k, goal in enumerate(goals.each):
            yield self.net.logits(states[goal.where[first], k], k, self.shared)

    def loss(self, lesson: Lesson, generator: torch.Generator) -> Loss:
        """Sum over heads of decay ** k times cross-entropy; a term is a row of the first head (section 2.2.1)."""
        goals = Goals(lesson, self.config.guesses)
        return goals.loss(
            self.forced(goals), [self.config.decay ** (k + 1) for k in range(len(goals.each))], self.config.teacher
        )


class MedusaSession:
    """Remembers nothing but what its conditioner does: a round's newest state is all that is read."""

    def __init__(self, how: Medusa, seen: Conditioning, rule: Rule, clock: Clock) -> None:
        self.how, self.seen, self.rule, self.clock = how, seen, rule, clock

    @torch.inference_mode()
    def propose(self, verdict: Verdict) -> Draft:
        """A tree of ranks, [B, nodes]."""
        how, rows = self.how, self.seen.rows(verdict)
        newest = (rows.count - 1)[:, None, None].expand(-1, 1, rows.features.shape[2])
        states = how.net(rows.features.gather(1, newest)[:, 0])
        shape = ranks.chosen(how.tree, how.nodes, how.config.guesses, verdict.root.device)
        logits = how.net.all_logits(states[:, : shape.height], how.shared)
        return ranks.fill(logits, shape, self.rule, verdict.dice, how.drawn)

    def keep(self, rows: Tensor) -> None:
        self.seen.keep(rows)

    def join(self, other: MedusaSession) -> None:
        self.seen.join(other.seen)
