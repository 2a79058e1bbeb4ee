"""MTP: modules of one decoder layer, each a token further ahead than the last (DeepSeek-V3, arXiv 2412.19437)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from paceline.drafters.heads.goals import Goals
from paceline.drafters.heads.ranks import choices, grown
from paceline.drafters.layers import Block, Memory, angles, built
from paceline.drafters.lesson import Lesson, Loss
from paceline.errors import UsageError
from paceline.law import Law


@dataclass(frozen=True, slots=True)
class MtpConfig:
    """What fixes the weights and their loss. Raises ValueError out of range."""

    layers: int = 2  # modules; guesses beyond them are made by the last
    unroll: int = 4  # guesses that are learnt
    heads: int = 4
    groups: int = 2  # key heads
    feed_forward: int = 512
    teacher: float = 0.0  # share of the target's law in what is learnt; the rest is the label
    image_embeddings: Literal["merged", "token"] = "merged"  # what stands for a picture's token

    def __post_init__(self) -> None:
        if min(self.layers, self.heads, self.groups, self.feed_forward) < 1 or self.heads % self.groups:
            raise ValueError("layers, heads, groups and feed_forward must be 1 or more, heads a multiple of groups")
        if self.unroll < self.layers or not 0 <= self.teacher <= 1:
            raise ValueError("unroll must be layers or more, teacher in [0, 1]")
        if self.image_embeddings not in ("merged", "token"):
            raise ValueError(f"image_embeddings is {self.image_embeddings!r}; it must be merged or token")


class Module(nn.Module):
    """A decoder layer over M [norm(embedding); norm(state)], M from two widths to one."""

    def __init__(self, width: int, config: MtpConfig) -> None:
        super().__init__()
        self.norm_token, self.norm_state = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.join = nn.Linear(2 * width, width, bias=False)
        self.block = Block(width, config.heads, config.feed_forward, config.groups)
        self.norm = nn.RMSNorm(width, eps=1e-6)  # before the head


class MtpNet(nn.Module):
    """Depth d, from 0, reads beside the token d rows on what depth d - 1 made of a row: depth 0 the target's state."""

    def __init__(self, width: int, config: MtpConfig) -> None:
        super().__init__()
        self.modules_ = nn.ModuleList(Module(width, config) for _ in range(config.layers))
        self.size = width // config.heads

    def at(self, depth: int) -> Module:
        """The module of a depth: the last one serves all depths beyond."""
        module = self.modules_[min(depth, len(self.modules_) - 1)]
        assert isinstance(module, Module)
        return module

    def forward(
        self, depth: int, embedded: Tensor, state: Tensor, position: Tensor, mask: Tensor | None,
        memory: Memory | None = None,
    ) -> Tensor:  # fmt: skip
        """[B, n, H]; what the next depth reads. embedded: of the tokens `depth` rows on, at their positions."""
        module = self.at(depth)
        x = module.join(torch.cat([module.norm_token(embedded), module.norm_state(state)], -1))
        return module.block(x, angles(position, self.size, x), mask, memory)

    def logits(self, depth: int, state: Tensor, shared: Shared) -> Tensor:
        """[..., V]; what follows the token `depth` rows on."""
        return shared.head(self.at(depth).norm(state))


@dataclass(frozen=True, slots=True)
class Mtp:
    """Drafts a chain, one pass a guess, each depth with keys of its own. Raises ValueError for no guesses."""

    net: MtpNet
    shared: Shared
    config: MtpConfig
    conditioner: Conditioner
    guesses: int = 4
    drawn: bool = True  # above temperature 0 guesses are drawn; False: the likeliest

    level: ClassVar[int] = 1
    trained: ClassVar[bool] = True
    paired: ClassVar[bool] = True
    lesson_layers: ClassVar[tuple[int, ...]] = ()
    Config: ClassVar[type] = MtpConfig

    def __post_init__(self) -> None:
        if self.guesses < 1:
            raise ValueError(f"guesses is {self.guesses}; it must be 1 or more")

    @property
    def needs(self) -> Needs:
        return Needs((self.shared.depth,), self.config.image_embeddings == "merged", self.conditioner.scores)

    @classmethod
    def create(cls, shared: Shared, config: MtpConfig, conditioner: Conditioner, *, seed: int = 0) -> Self:
        """A drafter with new weights. Raises UsageError for heads that do not fit the target's width."""
        if shared.width % (2 * config.heads):
            raise UsageError(f"width {shared.width} must be a multiple of twice the {config.heads} heads")
        return cls(built(lambda: MtpNet(shared.width, config), shared.like, seed), shared, config, conditioner)

    @classmethod
    def tiny(cls, model: Any) -> Self:
        """An instance for the law tests, whose last module serves two depths."""
        config = MtpConfig(layers=2, unroll=3, heads=2, groups=1, feed_forward=8)
        return replace(cls.create(model.shared, config, Full(), seed=1), guesses=3)

    @classmethod
    def load(cls, path: Path, target: Any, open_model: Callable[[Path], Any], **options: Any) -> Self:
        """Read a directory; see `directory.read`."""
        return directory.read(cls, path, target, options)

    def embed(self, rows: Rows) -> Tensor:
        """[B, R, H]; merged embeddings where the rows hold them, else those of their ids."""
        return self.shared.embed(rows.ids) if rows.embeddings is None else rows.embeddings

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> MtpSession:
        return MtpSession(self, context, rule, clock)

    def forced(self, goals: Goals) -> Iterator[Tensor]:
        """[n, V] a depth: logits at the rows that learn its guess, in order, the answer's tokens read."""
        lesson, rows = goals.lesson, goals.lesson.rows
        embedded, state = self.embed(rows), rows.features
        itself = torch.eye(rows.ids.shape[1], dtype=torch.bool, device=rows.ids.device)
        for depth, goal in enumerate(goals.each):
            on = onward(lesson, depth)
            there = on.clamp(min=0)
            token = embedded.gather(1, there[..., None].expand_as(embedded))
            see = (lesson.see & (on >= 0)[:, None]) | itself
            state = self.net(depth, token, state, rows.position.gather(1, there), see[:, None])
            yield self.net.logits(depth, state[goal.where], self.shared)

    def loss(self, lesson: Lesson, generator: torch.Generator) -> Loss:
        """Mean over depths of the cross-entropy, a term being a row of the first (section 2.2, equations 24 and 25)."""
        goals = Goals(lesson, self.config.unroll)
        return goals.loss(self.forced(goals), [1 / self.config.unroll] * self.config.unroll, self.config.teacher)


def onward(lesson: Lesson, depth: int) -> Tensor:
    """[B, R] int64; the row that holds the token `depth` rows on, -1 where there is none.

    A prompt's last rows go on into the answer where it has one branch; where several branches share the prompt, their
    tokens differ, and these rows (fewer than the depth) are left out of what deeper rows see.
    """
    if not depth:
        return torch.arange(lesson.owner.shape[1], device=lesson.owner.device).expand_as(lesson.owner)
    place = torch.arange(lesson.owner.shape[1], device=lesson.owner.device)
    there = (place + depth).clamp(max=len(place) - 1)
    owner, alone = lesson.owner[:, there], lesson.owner.amax(1, keepdim=True) <= 1
    same = (owner == lesson.owner) | ((lesson.owner == 0) & (owner > 0) & alone)
    return there.where((place + depth < len(place)) & same & (lesson.owner >= 0), -1)


class MtpSession:
    """Keys of every depth, and the newest state of each that the next depth has yet to read.

    With m rows settled, depth d has read rows 0 … m - d - 1: it waits for the token d rows on. Guessing goes over the
    rows that wait, with guesses for the tokens to come; what was settled of that stays, and the rest is overwritten.
    """

    def __init__(self, how: Mtp, context: Context, rule: Rule, clock: Clock) -> None:
        self.how, self.rule, self.clock = how, rule, clock
        self.seen = how.conditioner.open(context, how.paired)
        rows, config = self.seen.prompt, how.config
        batch, room = rows.ids.shape
        self.memories = [
            Memory(1, batch, config.groups, how.net.size, how.shared.like, room) for _ in range(how.guesses)
        ]
        self.read = rows.count  # [B]; rows settled
        self.carried = how.shared.like.new_zeros(how.guesses, batch, how.shared.width)  # newest state of each depth
        with torch.inference_mode():
            self._open(rows)

    def _open(self, rows: Rows) -> None:
        """Read the prompt at every depth, as far as it reaches."""
        embedded, state = self.how.embed(rows), rows.features
        for depth, memory in enumerate(self.memories[: rows.ids.shape[1]]):
            width = rows.ids.shape[1] - depth
            mask = memory.lay(width)
            token, position = embedded[:, depth:], rows.position[:, depth:]
            state = self.how.net(depth, token, state[:, :width], position, mask, memory)
            memory.commit((rows.count - depth).clamp(min=0))
            self.carried[depth] = _at(state, rows.count - depth - 1)

    @torch.inference_mode()
    def propose(self, verdict: Verdict) -> Draft:
        """A chain of `guesses` tokens, one pass a guess."""
        how = self.how
        with self.clock("condition"):
            block = Waiting(how, self.seen.rows(verdict), self.read)
            state = block.read(0, self.memories[0], None)
        tokens, given, fresh = list[Tensor](), list[Law](), [state]
        for depth, memory in enumerate(self.memories):
            if depth:
                block.add(tokens[-1], depth)
                state = block.read(depth, memory, self.carried[depth - 1])
                fresh.append(state)
            logits = how.net.logits(depth, _at(state, block.last(depth)), how.shared)[:, None]
            given.append(self.rule.law(logits))
            at = verdict.dice.ahead(depth)
            tokens.append(choices(logits, given[-1], 1, self.rule, at, how.drawn)[:, 0, 0])
        self.carried = torch.stack([_at(state, block.settled(depth) - 1) for depth, state in enumerate(fresh)])
        self.read = self.read + block.rows.count
        q = grown(given, 1, how.drawn)
        return Draft.chain(torch.stack(tokens, 1), q)

    def keep(self, rows: Tensor) -> None:
        self.seen.keep(rows)
        for memory in self.memories:
            memory.keep(rows)
        self.read, self.carried = self.read[rows], self.carried[:, rows]

    def join(self, other: MtpSession) -> None:
        self.seen.join(other.seen)
        for memory, more in zip(self.memories, other.memories, strict=True):
            memory.join(more)
        self.read, self.carried = torch.cat([self.read, other.read]), torch.cat([self.carried, other.carried], 1)


class Waiting:
    """The rows that wait at each depth in one round: those settled since, and behind them those of guesses.

    Worked example: 5 rows were settled, 2 are new. Depth 0 reads rows 5 and 6; depth 1 reads 4, 5 and 6, beside the
    tokens of 5, 6 and of the first guess, and only 4 and 5 stay; depth 2 reads 3 … 6, and 3 and 4 stay.
    """

    def __init__(self, how: Mtp, rows: Rows, before: Tensor) -> None:
        self.how, self.rows, self.before = how, rows, before
        self.embedded = pad(how.embed(rows), (0, 0, 0, how.guesses))  # of new tokens, then of guesses
        self.state, self.short = rows.features, int(before.min()) < how.guesses - 1

    def lack(self, depth: int) -> Tensor:
        """[B] int64; rows by which a text is too short for this depth to have any that wait from before."""
        return (depth - self.before).clamp(min=0)

    def settled(self, depth: int) -> Tensor:
        """[B] int64; rows of the block that stay."""
        return (self.before + self.rows.count - depth).clamp(min=0) - (self.before - depth).clamp(min=0)

    def last(self, depth: int) -> Tensor:
        """[B] int64; the block's newest row, whose state makes the guess."""
        return self.rows.count + depth - self.lack(depth) - 1

    def add(self, token: Tensor, depth: int) -> None:
        """Put a guess behind each conversation's own tokens. token: [B]; its number is `depth`, from 1."""
        place = (self.rows.count + depth - 1)[:, None, None].expand(-1, 1, self.embedded.shape[2])
        self.embedded = self.embedded.scatter(1, place, self.how.shared.embed(token.clamp(min=0))[:, None])

    def read(self, depth: int, memory: Memory, carried: Tensor | None) -> Tensor:
        """[B, n, H]; one pass at this depth. carried: [B, H], the newest settled state of the depth before."""
        width = self.rows.ids.shape[1] + depth
        token, position = self.embedded[:, :width], self.rows.position[:, :1] + torch.arange(width).to(self.before)
        if carried is not None:
            self.state = torch.cat([carried[:, None], self.state], 1)
        if self.short:  # where nothing waits from before, the block begins with what the depth before has just read
            lack = self.lack(depth)[:, None]
            column = torch.arange(width, device=lack.device).expand(len(lack), -1)
            token, position = _rows(self.embedded, column + lack), position + lack
            self.state = _rows(self.state, column + (lack > 0))
        self.state = self.how.net(depth, token, self.state, position, memory.lay(width), memory)
        memory.commit(self.settled(depth))
        return self.state


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """[B, n, H]; values [B, m, H] at these rows, the last one for those beyond. index: [B, n]."""
    index = index.clamp(max=values.shape[1] - 1)
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[2]))


def _at(values: Tensor, index: Tensor) -> Tensor:
    """[B, H]; values [B, n, H] at one row each, the first for negative ones. index: [B]."""
    return _rows(values, index.clamp(min=0)[:, None])[:, 0]
