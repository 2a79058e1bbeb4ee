"""Hydra: heads that read the guesses before theirs, so that they draft one after the other (Ankner et al. 2024)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from paceline.clock import Clock, silent
from paceline.conditioning import Conditioner, Conditioning, Full, Rows
from paceline.core import Context, Draft, Needs, Rule, Shared, TargetSession, Verdict
from paceline.drafters import directory, layers
from paceline.drafters.heads import ranks
from paceline.drafters.heads.goals import Goals
from paceline.drafters.layers import Block, Memory
from paceline.drafters.lesson import Lesson, Loss
from paceline.errors import UsageError
from paceline.law import Law


@dataclass(frozen=True, slots=True)
class HydraConfig:
    """Raises ValueError for no guesses or layers, and for shares outside 0 … 1."""

    guesses: int = 4  # heads
    layers: int = 1  # residual blocks a head
    prefix: bool = False  # Hydra++: a decoder layer over all states of the target stands before the heads
    heads: int = 4  # attention heads of that layer, and key groups, and feed-forward width
    groups: int = 2
    feed_forward: int = 512
    own_head: bool = False  # a vocabulary matrix for every head, as published; else the target's serves all of them
    teacher: float = 1.0  # share of the target's law in what is learnt: all of it in Hydra++
    decay: float = 1.0  # head k counts decay ** (k - 1)

    def __post_init__(self) -> None:
        if min(self.guesses, self.layers) < 1 or not (0 < self.decay <= 1 and 0 <= self.teacher <= 1):
            raise ValueError(f"hydra needs guesses, layers >= 1, 0 < decay <= 1 and 0 <= teacher <= 1, got {self}")


class Head(nn.Module):
    """Residual blocks over a state and the embeddings of the tokens since: `reads` vectors side by side.

    The first block takes all of them to one width, by two matrices: R x + silu(W x).
    """

    def __init__(self, width: int, reads: int, blocks: int) -> None:
        super().__init__()
        self.skip = nn.Linear(reads * width, width, bias=False)
        self.mix = nn.Linear(reads * width, width, bias=False)
        self.more = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(blocks - 1))

    def forward(self, x: Tensor) -> Tensor:
        """[..., H] of x [..., reads * H]."""
        x = self.skip(x) + F.silu(self.mix(x))
        for block in self.more:
            x = x + F.silu(block(x))
        return x


class HydraNet(nn.Module):
    """Head k, from 0, reads k + 2 vectors: the state, the root's embedding and those of k guesses."""

    def __init__(self, width: int, vocab: int, config: HydraConfig) -> None:
        super().__init__()
        self.prefix = Block(width, config.heads, config.feed_forward, config.groups) if config.prefix else None
        self.heads = nn.ModuleList(Head(width, k + 2, config.layers) for k in range(config.guesses))
        self.head = nn.Parameter(torch.zeros(config.guesses, vocab, width)) if config.own_head else None

    def forward(self, guess: int, read: Tensor, shared: Shared) -> Tensor:
        """[..., V] logits of one guess. read: [..., (guess + 2) * H]."""
        states = self.heads[guess](read)
        return shared.head(states) if self.head is None else F.linear(states, self.head[guess])

    def states(self, features: Tensor, position: Tensor, mask: Tensor | None, memory: Memory | None = None) -> Tensor:
        """[B, R, H]; what the heads read of the target: its states, or those of the prefix layer over them."""
        if self.prefix is None:
            return features
        at = layers.angles(position, self.prefix.attention.size, features)
        return self.prefix(features, at, mask, memory)


@dataclass(frozen=True, slots=True)
class Hydra:
    """Grows a tree of ranks depth by depth, one pass a depth. Raises ValueError for a tree deeper than its heads."""

    net: HydraNet
    shared: Shared
    config: HydraConfig
    conditioner: Conditioner
    tree: ranks.Paths = ()  # paths of ranks; (): the best `nodes` nodes by the chances of `ranks.usual`
    nodes: int = 16
    drawn: bool = True  # above temperature 0 children are drawn; False: the heads' best, as published

    level: ClassVar[int] = 1
    trained: ClassVar[bool] = True
    paired: ClassVar[bool] = True
    lesson_layers: ClassVar[tuple[int, ...]] = ()
    Config: ClassVar[type] = HydraConfig

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", ranks.check(self.tree, self.nodes, self.config.guesses))

    @property
    def needs(self) -> Needs:
        return Needs(layers=(self.shared.depth,), scores=self.conditioner.scores)

    @classmethod
    def create(cls, shared: Shared, config: HydraConfig, conditioner: Conditioner, *, seed: int = 0) -> Hydra:
        """New heads. Raises UsageError where the prefix layer's heads do not divide the width."""
        if config.prefix and shared.width % (2 * config.heads):
            raise UsageError(f"width {shared.width} must be a multiple of twice the {config.heads} heads")
        net = layers.built(lambda: HydraNet(shared.width, shared.vocab_size, config), shared.like, seed)
        return cls(net, shared, config, conditioner)

    @classmethod
    def tiny(cls, model: Any) -> Hydra:
        """An instance for the law tests, with all that the config offers."""
        config = HydraConfig(guesses=3, layers=2, prefix=True, heads=2, groups=1, feed_forward=8)
        made = cls.create(model.shared, config, Full(), seed=1)
        return replace(made, nodes=8)

    @classmethod
    def load(cls, path: Path, target: Any, open_model: Callable[[Path], Any], **options: Any) -> Hydra:
        """Read a directory. Raises UsageError for one of another target."""
        return directory.read(cls, path, target, options)

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> HydraSession:
        return HydraSession(self, self.conditioner.open(context, self.paired), rule, clock)

    def forced(self, goals: Goals) -> Iterator[Tensor]:
        """[n, V] a head: its logits at the rows that learn its guess, in order, the answer's tokens read."""
        rows, shared = goals.lesson.rows, self.shared
        state = self.net.states(rows.features, rows.position, goals.lesson.see[:, None])
        token = shared.embed(rows.ids)
        first = goals.each[0].where
        read = torch.cat([state[first], token[first]], -1)
        for k, goal in enumerate(goals.each):
            here = goal.where[first]
            if k:
                b = torch.arange(len(first), device=first.device)[:, None].expand_as(first)
                said = token[b[first], goal.row.clamp(min=0)[first]]
                read = torch.cat([read, said], -1)
            yield self.net(k, read[here], shared)

    def loss(self, lesson: Lesson, generator: torch.Generator) -> Loss:
        """Cross-entropy with the target's law summed over heads; a term is a row of the first (section 4)."""
        goals = Goals(lesson, self.config.guesses)
        weights = [self.config.decay**k for k in range(len(goals.each))]
        return goals.loss(self.forced(goals), weights, self.config.teacher)


class HydraSession:
    """The prefix layer's keys and values, where there is one."""

    def __init__(self, how: Hydra, seen: Conditioning, rule: Rule, clock: Clock) -> None:
        self.how, self.seen, self.rule, self.clock = how, seen, rule, clock
        self.memory: Memory | None = None
        if (block := how.net.prefix) is not None:
            attention = block.attention
            self.memory = Memory(1, len(seen.prompt.ids), attention.groups, attention.size, how.shared.like)
            with torch.inference_mode():
                self._read(seen.prompt)

    @torch.inference_mode()
    def propose(self, verdict: Verdict) -> Draft:
        """A tree of ranks, [B, nodes], grown one depth a pass."""
        how, shared = self.how, self.how.shared
        with self.clock("condition"):
            rows = self.seen.rows(verdict)
            newest = (rows.count - 1)[:, None, None].expand(-1, 1, shared.width)
            state = self._read(rows).gather(1, newest)
        shape = ranks.chosen(how.tree, how.nodes, how.config.guesses, verdict.root.device)
        read = torch.cat([state, shared.embed(verdict.root)[:, None]], -1)
        tokens, given, start = list[Tensor](), list[Law](), 0
        for k, (parent, width) in enumerate(zip(shape.above, shape.width, strict=True)):
            logits = how.net(k, read, shared)
            given.append(self.rule.law(logits))
            picks = ranks.choices(logits, given[-1], width, self.rule, verdict.dice.ahead(k), how.drawn)
            tokens.append(picks[:, parent, shape.rank[start : start + len(parent)]])
            start += len(parent)
            if k + 1 < shape.height:
                read = torch.cat([read[:, parent], shared.embed(tokens[-1].clamp(min=0))], -1)
        leaves = shape.tree.size + 1 - sum(law.shape[1] for law in given)
        return Draft(torch.cat(tokens, 1), shape.tree, ranks.grown(given, leaves, how.drawn))

    def _read(self, rows: Rows) -> Tensor:
        """[B, R, H]; the states of settled rows, remembered where a later one looks back."""
        if self.memory is None:
            return self.how.net.states(rows.features, rows.position, None)
        mask = self.memory.lay(rows.ids.shape[1])
        states = self.how.net.states(rows.features, rows.position, mask, self.memory)
        self.memory.commit(rows.count)
        return states

    def keep(self, rows: Tensor) -> None:
        self.seen.keep(rows)
        if self.memory is not None:
            self.memory.keep(rows)

    def join(self, other: HydraSession) -> None:
        self.seen.join(other.seen)
        if self.memory is not None and other.memory is not None:
            self.memory.join(other.memory)
