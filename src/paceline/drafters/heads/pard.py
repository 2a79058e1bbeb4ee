"""PARD: a small language model that reads masks for tokens yet to come and guesses all at once (arXiv 2504.18583)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from paceline.clock import Clock, silent
from paceline.conditioning import Conditioner, Full, Rows
from paceline.core import Context, Draft, Needs, Rule, Shared, TargetSession, Verdict
from paceline.drafters import directory
from paceline.drafters.heads import ranks
from paceline.drafters.heads.goals import Goals
from paceline.drafters.layers import Block, Memory, angles, built
from paceline.drafters.lesson import Lesson, Loss
from paceline.errors import UsageError


@dataclass(frozen=True, slots=True)
class PardConfig:
    """What fixes the weights and their loss. Raises ValueError out of range."""

    guesses: int = 8  # places ahead; the last guesses - 1 of them are read as masks
    layers: int = 2
    heads: int = 4
    groups: int = 2  # key heads
    feed_forward: int = 512
    keep: float = 0.7  # share of rows that learn guess i, from 0: keep ** i …
    floor: float = 0.2  # … but never less than this
    teacher: float = 0.0  # share of the target's law in what is learnt; the rest is the label
    image_embeddings: Literal["merged", "token"] = "merged"  # what stands for a picture's token
    mask_id: int | None = None  # the mask is a vector of the net's own, no row of the vocabulary

    def __post_init__(self) -> None:
        if min(self.guesses, self.layers, self.heads, self.groups, self.feed_forward) < 1 or self.heads % self.groups:
            raise ValueError("guesses, layers, heads, groups and feed_forward must be 1 or more, heads / groups whole")
        if not (0 < self.keep <= 1 and 0 <= self.floor <= 1 and 0 <= self.teacher <= 1):
            raise ValueError("keep must be in (0, 1], floor and teacher in [0, 1]")
        if self.image_embeddings not in ("merged", "token"):
            raise ValueError(f"image_embeddings is {self.image_embeddings!r}; it must be merged or token")
        if self.mask_id is not None:
            raise ValueError("the mask of pard is a vector of its own: leave mask_id out")


class PardNet(nn.Module):
    """Decoder layers over tokens and masks; a mask sees what was read before it and the masks between."""

    def __init__(self, width: int, config: PardConfig) -> None:
        super().__init__()
        self.mask = nn.Parameter(torch.zeros(1, width))
        self.layers = nn.ModuleList(
            Block(width, config.heads, config.feed_forward, config.groups) for _ in range(config.layers)
        )
        self.norm, self.size = nn.RMSNorm(width, eps=1e-6), width // config.heads

    def forward(self, x: Tensor, position: Tensor, mask: Tensor | None, memory: Memory | None = None) -> Tensor:
        """[B, n, H]; normed states after these rows. x: [B, n, H], embeddings and masks; position: [B, n]."""
        at = angles(position, self.size, x)
        for number, layer in enumerate(self.layers):
            x = layer(x, at, mask, memory, number)
        return self.norm(x)


@dataclass(frozen=True, slots=True)
class Pard:
    """Guesses all places in one pass; each is told apart by its own law, so that choices hang under each other.

    Raises ValueError for a tree deeper than there are guesses.
    """

    net: PardNet
    shared: Shared
    config: PardConfig
    conditioner: Conditioner
    tree: ranks.Paths = ()  # paths of ranks; (): the best `nodes` nodes by the chances of `ranks.usual`
    nodes: int = 16
    drawn: bool = True  # above temperature 0 children are drawn; False: the best of each place

    level: ClassVar[int] = 2
    trained: ClassVar[bool] = True
    paired: ClassVar[bool] = True
    draws: ClassVar[bool] = True  # its loss drops rows at random
    lesson_layers: ClassVar[tuple[int, ...]] = ()
    Config: ClassVar[type] = PardConfig

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", ranks.check(self.tree, self.nodes, self.config.guesses))

    @property
    def needs(self) -> Needs:
        """No features: it is a language model of its own."""
        return Needs(embeddings=self.config.image_embeddings == "merged", scores=self.conditioner.scores)

    @classmethod
    def create(cls, shared: Shared, config: PardConfig, conditioner: Conditioner, *, seed: int = 0) -> Self:
        """A drafter with new weights. Raises UsageError for heads that do not fit the target's width."""
        if shared.width % (2 * config.heads):
            raise UsageError(f"width {shared.width} must be a multiple of twice the {config.heads} heads")
        return cls(built(lambda: PardNet(shared.width, config), shared.like, seed), shared, config, conditioner)

    @classmethod
    def tiny(cls, model: Any) -> Self:
        """An instance for the law tests."""
        config = PardConfig(guesses=3, layers=2, heads=2, groups=1, feed_forward=8)
        return replace(cls.create(model.shared, config, Full(), seed=1), nodes=8)

    @classmethod
    def load(cls, path: Path, target: Any, open_model: Callable[[Path], Any], **options: Any) -> Self:
        """Read a directory; see `directory.read`."""
        return directory.read(cls, path, target, options)

    def embed(self, rows: Rows) -> Tensor:
        """[B, R, H]; merged embeddings where the rows hold them, else those of their ids."""
        return self.shared.embed(rows.ids) if rows.embeddings is None else rows.embeddings

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> PardSession:
        return PardSession(self, context, rule, clock)

    def forced(self, goals: Goals) -> Iterator[Tensor]:
        """[n, V] a guess: logits at all rows that learn it, in order, none dropped."""
        return self._said(goals, [goal.where for goal in goals.each])

    def loss(self, lesson: Lesson, generator: torch.Generator) -> Loss:
        """Cross-entropy of the guesses that are not dropped, all alike (section 3.2): their mean times terms."""
        goals = Goals(lesson, self.config.guesses)
        kept = conditional_drop([g.where for g in goals.each], self.config.keep, self.config.floor, generator)
        goals = goals.only(kept)
        loss = goals.loss(self._said(goals, kept), [1.0] * len(kept), self.config.teacher)
        counts = [int(where.sum()) for where in kept]
        sums = {
            key: lesson.terms * right / max(n, 1) for (key, right), n in zip(loss.sums.items(), counts, strict=True)
        }
        return Loss(loss.value * (lesson.terms / max(sum(counts), 1)), lesson.terms, sums)

    def _said(self, goals: Goals, kept: Sequence[Tensor]) -> Iterator[Tensor]:
        """[n, V] a guess, at the kept rows that learn it, from one pass over the true rows and all masks."""
        lesson, rows = goals.lesson, goals.lesson.rows
        anchor, copy, valid = masks_of(kept)
        place = rows.position.gather(1, anchor) + copy
        x = torch.cat([self.embed(rows), self.net.mask.expand(*anchor.shape, -1)], 1)
        states = self.net(x, torch.cat([rows.position, place], 1), sight(lesson.see, anchor, copy, valid)[:, None])
        true, masked = states.split([rows.ids.shape[1], anchor.shape[1]], 1)
        yield self.shared.head(true[kept[0]])
        for guess in range(1, len(kept)):
            yield self.shared.head(masked[valid & (copy == guess)])


def conditional_drop(wanted: Sequence[Tensor], keep: float, floor: float, generator: torch.Generator) -> list[Tensor]:
    """Rows that learn each guess i, [B, R] bool: a random share max(keep ** i, floor) of those that learn the first.

    A row that learns a guess learns all before it, since a mask reads the masks between its row and itself. At the
    published keep 0.7, floor 0.2 and 8 guesses, 3.37 rows are left of every 8.
    """
    first = wanted[0]
    order = torch.randperm(int(first.sum()), generator=generator).to(first.device)
    luck = torch.ones_like(first, dtype=torch.float64).masked_scatter(first, order.double() / max(len(order), 1))
    return [where & (luck < (1.0 if i == 0 else max(keep**i, floor))) for i, where in enumerate(wanted)]


def masks_of(kept: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The masks that stand behind rows, for guesses 1, 2, …: row [B, M], guess [B, M], which are real [B, M].

    Masks of one guess stand together, in the order of their rows.
    """
    later = torch.stack(list(kept[1:]), 1) if len(kept) > 1 else kept[0][:, None].expand(-1, 0, -1)
    flat = later.flatten(1)
    width = int(flat.sum(1).max()) if flat.shape[1] else 0
    index = flat.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :width]
    return index % kept[0].shape[1], index // kept[0].shape[1] + 1, flat.gather(1, index)


def sight(see: Tensor, anchor: Tensor, copy: Tensor, valid: Tensor) -> Tensor:
    """[B, R + M, R + M] bool; true rows see as they did, masks what their row sees and the masks between.

    see: [B, R, R]; anchor, copy, valid: see `masks_of`. A mask that is none sees itself.
    """
    behind = see.gather(1, anchor[..., None].expand(-1, -1, see.shape[2]))
    between = (anchor[:, :, None] == anchor[:, None]) & (copy[:, :, None] >= copy[:, None]) & valid[:, None]
    between = between | torch.eye(anchor.shape[1], dtype=torch.bool, device=see.device)
    return torch.cat([pad(see, (0, anchor.shape[1])), torch.cat([behind, between], 2)], 1)


class PardSession:
    """Keys of the tokens read so far; masks stand behind them until the next round overwrites them."""

    def __init__(self, how: Pard, context: Context, rule: Rule, clock: Clock) -> None:
        self.how, self.rule, self.clock = how, rule, clock
        self.seen = how.conditioner.open(context, how.paired)
        rows, config = self.seen.prompt, how.config
        room = rows.ids.shape[1]
        self.memory = Memory(config.layers, len(rows.ids), config.groups, how.net.size, how.shared.like, room)
        with torch.inference_mode():
            if room:
                how.net(how.embed(rows), rows.position, self.memory.lay(room), self.memory)
                self.memory.commit(rows.count)

    @torch.inference_mode()
    def propose(self, verdict: Verdict) -> Draft:
        """A tree of ranks, [B, nodes]: one pass over the tokens that were settled and the masks behind them."""
        how, rows = self.how, self.seen.rows(verdict)
        shape = ranks.chosen(how.tree, how.nodes, how.config.guesses, verdict.root.device)
        masks = shape.height - 1
        column = torch.arange(rows.ids.shape[1] + masks, device=verdict.root.device)
        real = (column < rows.count[:, None])[..., None]
        x = torch.where(real, pad(how.embed(rows), (0, 0, 0, masks)), how.net.mask)
        states = how.net(x, rows.position[:, :1] + column, self.memory.lay(len(column)), self.memory)
        self.memory.commit(rows.count)
        guess = rows.count[:, None] - 1 + torch.arange(masks + 1, device=column.device)
        states = states.gather(1, guess[..., None].expand(-1, -1, states.shape[2]))
        return ranks.fill(how.shared.head(states), shape, self.rule, verdict.dice, how.drawn)

    def keep(self, rows: Tensor) -> None:
        self.seen.keep(rows)
        self.memory.keep(rows)

    def join(self, other: PardSession) -> None:
        self.seen.join(other.seen)
        self.memory.join(other.memory)
