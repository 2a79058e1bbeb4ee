"""DREAM: self-attention, gated cross-attention to the target's states, self-attention (arXiv 2505.19201)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from paceline.clock import Clock, silent
from paceline.conditioning import Conditioner, Full, Rows
from paceline.core import Context, Draft, Needs, Rule, Shared, TargetSession, Verdict
from paceline.drafters import directory
from paceline.drafters.ar import growth
from paceline.drafters.heads.goals import Goals
from paceline.drafters.layers import Angles, Attention, Block, Memory, SwiGLU, angles, built
from paceline.drafters.lesson import Lesson, Loss
from paceline.errors import UsageError
from paceline.law import Point

OPENING, CROSS, CLOSING = 0, 1, 2  # layers of the memory


@dataclass(frozen=True, slots=True)
class DreamConfig:
    """What fixes the weights and their loss. Raises ValueError out of range."""

    heads: int = 4
    groups: int = 4  # key heads; as many as heads in the paper
    feed_forward: int = 512
    distill_layer: int = 0  # whose states teach the first block; 0: the layer at three quarters of the depth
    weight_feature: float = 0.2  # of the regression to the last states
    weight_distill: float = 0.2  # of that to the distill layer
    unroll: int = 3  # steps of self-feeding in training; 1 in the paper
    decay: float = 0.8  # weight of step j is decay^j
    image_embeddings: Literal["merged", "token"] = "merged"  # what stands for a picture's token

    def __post_init__(self) -> None:
        if min(self.heads, self.groups, self.feed_forward, self.unroll) < 1 or self.heads % self.groups:
            raise ValueError("heads, groups, feed_forward and unroll must be 1 or more, heads a multiple of groups")
        if not 0 < self.decay <= 1 or min(self.weight_feature, self.weight_distill, self.distill_layer) < 0:
            raise ValueError("decay must be in (0, 1], weights and distill_layer 0 or more")
        if self.image_embeddings not in ("merged", "token"):
            raise ValueError(f"image_embeddings is {self.image_embeddings!r}; it must be merged or token")


class DreamNet(nn.Module):
    """Three blocks whose rows hold a token and the state before it: one mask serves all three.

    A row sees the tokens and the states of its own row and of those before it, in a tree those of its ancestors: the
    state beside a guess is the drafter's own at the guess's parent. Both gates start at zero, so that the middle block
    begins as the identity.
    """

    def __init__(self, width: int, config: DreamConfig) -> None:
        super().__init__()
        heads, groups, inner = config.heads, config.groups, config.feed_forward
        self.opening, self.norm_opening = Attention(width, heads, groups), nn.RMSNorm(width, eps=1e-6)
        self.feed_opening = SwiGLU(width, inner)
        self.norm_cross, self.cross = nn.RMSNorm(width, eps=1e-6), Attention(width, heads, groups, norm=True)
        self.norm_middle, self.feed_middle = nn.RMSNorm(width, eps=1e-6), SwiGLU(width, inner)
        self.zero_gate_cross, self.zero_gate_feed = nn.Parameter(torch.zeros(())), nn.Parameter(torch.zeros(()))
        self.closing, self.norm = Block(width, heads, inner, groups), nn.RMSNorm(width, eps=1e-6)

    def forward(self, embedded: Tensor, state: Tensor, position: Tensor, mask: Tensor | None, memory: Memory) -> Tensor:
        """[B, n, H]; normed states after these tokens, which head and children read. state: [B, n, H], before them."""
        at = angles(position, self.opening.size, embedded)
        x = self.open(embedded, at, mask, memory)
        keys = memory.put(CROSS, *self.cross.keys(state, None))
        x = self.look(x, self.cross.attend(self.asked(x), *keys, mask))
        return self.norm(self.closing(x, at, mask, memory, CLOSING))

    def open(self, embedded: Tensor, at: Angles, mask: Tensor | None, memory: Memory | None = None) -> Tensor:
        """[B, n, H]; the first block, which has no norm before its attention and reads tokens alone."""
        keys = self.opening.keys(embedded, at)
        keys = keys if memory is None else memory.put(OPENING, *keys)
        x = embedded + self.opening.attend(self.opening.queries(embedded, at), *keys, mask)
        return x + self.feed_opening(self.norm_opening(x))

    def asked(self, x: Tensor) -> Tensor:
        """[B, heads, n, size]; what the middle block asks of the target's states: by content, without positions."""
        return self.cross.queries(self.norm_cross(x), None)

    def look(self, x: Tensor, attended: Tensor) -> Tensor:
        """[B, n, H]; the middle block's two gated sums."""
        x = x + torch.tanh(self.zero_gate_cross) * attended
        return x + torch.tanh(self.zero_gate_feed) * self.feed_middle(self.norm_middle(x))

    def close(self, x: Tensor, attended: Tensor) -> Tensor:
        """[B, n, H]; the last block behind its attention, and the final norm."""
        x = x + attended
        return self.norm(x + self.closing.feed(self.closing.after(x)))


@dataclass(frozen=True, slots=True)
class Dream:
    """Drafts a dynamic tree of chosen children, or a chain of drawn ones. Serial passes a round: `depth`."""

    net: DreamNet
    shared: Shared
    config: DreamConfig
    conditioner: Conditioner
    depth: int = 5
    width: int = 4  # nodes opened a level, and children looked at under each; 1: a chain
    nodes: int = 16  # guesses verified a round
    drawn: bool = False  # at temperatures above 0: a chain drawn from the drafter's laws instead of a chosen tree

    level: ClassVar[int] = 1
    trained: ClassVar[bool] = True
    paired: ClassVar[bool] = True
    Config: ClassVar[type] = DreamConfig

    def __post_init__(self) -> None:
        if min(self.depth, self.width, self.nodes) < 1:
            raise ValueError(f"depth, width and nodes must be 1 or more, got {self.depth}, {self.width}, {self.nodes}")

    @classmethod
    def create(cls, shared: Shared, config: DreamConfig, conditioner: Conditioner, *, seed: int = 0) -> Self:
        """A drafter with new weights. Raises UsageError for heads or a layer that do not fit the target."""
        layer = config.distill_layer or round(0.75 * shared.depth)
        if layer > shared.depth:
            raise UsageError(f"distill_layer is {layer}; the target has layers 1 to {shared.depth}")
        if shared.width % (2 * config.heads):
            raise UsageError(f"width {shared.width} must be a multiple of twice the {config.heads} heads")
        config = replace(config, distill_layer=layer)
        return cls(built(lambda: DreamNet(shared.width, config), shared.like, seed), shared, config, conditioner)

    @classmethod
    def tiny(cls, model: Any) -> Self:
        """An instance for the law tests, with open gates."""
        made = cls.create(model.shared, DreamConfig(heads=2, groups=1, feed_forward=8), Full(), seed=1)
        with torch.no_grad():
            made.net.zero_gate_cross.fill_(1)
            made.net.zero_gate_feed.fill_(-1)
        return replace(made, depth=3, width=2, nodes=5)

    @classmethod
    def load(cls, path: Path, target: Any, open_model: Callable[[Path], Any], **options: Any) -> Self:
        """Read a directory; see `directory.read`."""
        return directory.read(cls, path, target, options)

    @property
    def needs(self) -> Needs:
        return Needs((self.shared.depth,), self.config.image_embeddings == "merged", self.conditioner.scores)

    @property
    def lesson_layers(self) -> tuple[int, ...]:
        return (self.config.distill_layer,) if self.config.weight_distill else ()

    def embed(self, rows: Rows) -> Tensor:
        """[B, R, H]; merged embeddings where the rows hold them, else those of their ids."""
        return self.shared.embed(rows.ids) if rows.embeddings is None else rows.embeddings

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> DreamSession:
        return DreamSession(self, context, rule, clock)

    def forced(self, goals: Goals) -> Iterator[Tensor]:
        """[n, V] a step: logits at the rows that learn its guess, in order, the answer's tokens read."""
        for state, _ in unroll(self, goals):
            yield self.shared.head(state)

    def loss(self, lesson: Lesson, generator: torch.Generator) -> Loss:
        """KL + 0.2 L_feat + 0.2 L_distill, each summed over answer tokens (section 3.3); later steps weigh decay^j.

        The divergence is summed over the vocabulary; the regressions are smooth L1, averaged over a state's entries.
        """
        goals, config = Goals(lesson, self.config.unroll), self.config
        total, sums = lesson.rows.features.new_zeros(()), dict[str, float]()
        for j, (state, first) in enumerate(unroll(self, goals)):
            logits, law, goal = self.shared.head(state).log_softmax(-1), goals.law(j), goals.each[j]
            divergence = F.kl_div(logits, law.clamp(min=1e-30).log(), reduction="sum", log_target=True)
            own = (goal.row.clamp(min=0), goal.where)
            feature = regression(state, _taken(lesson.at[self.shared.depth], *own))
            total = total + config.decay**j * (divergence + config.weight_feature * feature)
            if first is not None and config.weight_distill:
                distill = regression(first, _taken(lesson.at[config.distill_layer], *own))
                total, sums["distill"] = total + config.weight_distill * distill, float(distill.detach())
            sums[f"hit{j + 1}"] = float((logits.argmax(-1) == goal.labels[goal.where]).sum())
            sums |= {"kl": float(divergence.detach()), "feature": float(feature.detach())} if j == 0 else {}
        return Loss(total, lesson.terms, sums)


def regression(state: Tensor, goal: Tensor) -> Tensor:
    """[]; smooth L1 averaged over the entries of a state and summed over the n rows. state, goal: [n, H]."""
    return F.smooth_l1_loss(state, goal, reduction="none").mean(-1).sum()


def unroll(drafter: Dream, goals: Goals) -> Iterator[tuple[Tensor, Tensor | None]]:
    """For each step: states [n, H] at the rows that learn its guess, and at step 0 the first block's as well.

    At step j a row reads the token j further on. The first block reads tokens alone, so that its output there is that
    of the true row j further on. The middle block asks the true states up to the row's own and the drafter's own
    states of steps 0 … j - 1; the last block the true rows up to its own, and steps 1 … j.
    """
    net, lesson, rows = drafter.net, goals.lesson, goals.lesson.rows
    at, see = angles(rows.position, net.opening.size, rows.features), lesson.see[:, None]
    first = net.open(drafter.embed(rows), at, see)
    states = net.cross.keys(rows.features, None)
    second = net.look(first, net.cross.attend(net.asked(first), *states, see))
    past, attention = net.closing.attention.keys(net.closing.before(second), at), net.closing.attention
    query, valid = _closed_up(goals.each[0].where)
    view = _taken(lesson.see, query) | ~valid[..., None]  # a padded query sees anything rather than nothing
    own_states, own_past = list[tuple[Tensor, Tensor]](), list[tuple[Tensor, Tensor]]()
    state = first.new_empty(0)
    for j, goal in enumerate(goals.each):
        here = angles(rows.position.gather(1, query) + j, net.opening.size, first)
        opened = _taken(first, query if not j else goal.row.gather(1, query).clamp(min=0))
        if j:
            own_states.append(net.cross.keys(state, None))
        x = net.look(opened, net.cross.unroll(net.asked(opened), states, own_states, view))
        shown = net.closing.before(x)
        if j:
            own_past.append(attention.keys(shown, here))
        state = net.close(x, attention.unroll(attention.queries(shown, here), past, own_past, view))
        learnt = valid & goal.where.gather(1, query)
        yield state[learnt], opened[learnt] if j == 0 else None


def _closed_up(where: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of the True entries of each row, closed up to the left, and which are real: [B, Q] both."""
    width = int(where.sum(1).max())
    query = where.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :width]
    return query, where.gather(1, query)


def _taken(values: Tensor, rows: Tensor, where: Tensor | None = None) -> Tensor:
    """[B, Q, …]: values [B, R, …] at these rows [B, Q]; with a mask [B, Q], only where it holds, [n, …]."""
    found = values.gather(1, rows[..., None].expand(-1, -1, values.shape[2]))
    return found if where is None else found[where]


class DreamSession:
    """Keys of the rows read so far; guesses stand behind them until the next round overwrites them."""

    def __init__(self, how: Dream, context: Context, rule: Rule, clock: Clock) -> None:
        self.how, self.rule, self.clock = how, rule, clock
        self.seen = how.conditioner.open(context, how.paired)
        rows, attention = self.seen.prompt, how.net.opening
        self.memory = Memory(3, len(rows.ids), attention.groups, attention.size, how.shared.like, rows.ids.shape[1])
        with torch.inference_mode():
            if rows.ids.shape[1]:
                self._read(rows)

    def _read(self, rows: Rows) -> Tensor:
        """[B, R, H]; read settled rows beside the target's own states, and keep them."""
        mask = self.memory.lay(rows.ids.shape[1])
        states = self.how.net(self.how.embed(rows), rows.features, rows.position, mask, self.memory)
        self.memory.commit(rows.count)
        return states

    @torch.inference_mode()
    def propose(self, verdict: Verdict) -> Draft:
        """A tree of `nodes` chosen guesses, or a chain of `depth` drawn ones."""
        how = self.how
        with self.clock("condition"):
            rows = self.seen.rows(verdict)
            state = _taken(self._read(rows), (rows.count - 1)[:, None])
        logits, growing = how.shared.head(state)[:, 0], growth.Growing(self._guess, self.memory, state, verdict)
        if how.drawn and not isinstance(first := self.rule.law(logits), Point):
            return growth.chain(
                self.rule, first, lambda ids, level: self.rule.law(growing.after(ids, level)), how.depth, verdict.dice
            )
        pick = growth.choice(self.rule, verdict.dice)
        return Draft(*growth.grow(logits, growing.step, pick, how.depth, how.width, how.nodes))

    def _guess(self, ids: Tensor, state: Tensor, position: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """[B, w, H] and [B, w, V]; one serial pass, see `growth.Read`."""
        state = self.how.net(self.how.shared.embed(ids), state, position, mask, self.memory)
        return state, self.how.shared.head(state)

    def keep(self, rows: Tensor) -> None:
        self.seen.keep(rows)
        self.memory.keep(rows)

    def join(self, other: DreamSession) -> None:
        self.seen.join(other.seen)
        self.memory.join(other.memory)
