"""EAGLE-3: a layer over fused features of three target layers that feeds itself (Li et al. 2025, arXiv 2503.01840)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from paceline.clock import Clock, silent
from paceline.conditioning import Conditioner, Full, Rows
from paceline.core import Context, Draft, Needs, Rule, Shared, TargetSession, Verdict
from paceline.drafters import directory
from paceline.drafters.ar import growth
from paceline.drafters.layers import Attention, Memory, SwiGLU, angles, built
from paceline.drafters.lesson import Lesson, Loss
from paceline.errors import UsageError
from paceline.law import Point
from paceline.tree import Tree


def three_layers(depth: int) -> tuple[int, ...]:
    """Low, middle and high: hidden_states[2], [L/2] and [L - 3]. Raises UsageError where they collide (L < 8)."""
    found = (2, depth // 2, depth - 3)
    if len(set(found)) < 3 or list(found) != sorted(found):
        raise UsageError(f"the layer rule 2, L/2, L-3 gives {found} for a target of {depth} layers; name other layers")
    return found


@dataclass(frozen=True, slots=True)
class EagleConfig:
    """What fixes the weights; `layers` empty: the rule of `three_layers`. Raises ValueError out of range."""

    layers: tuple[int, ...] = ()
    heads: int = 4
    groups: int = 2  # key heads
    feed_forward: int = 512
    unroll: int = 5  # steps of the training-time test; 7 in the paper
    decay: float = 0.8  # weight of step j in the loss is decay^j
    draft_vocab: int = 0  # ids of an output head of its own; 0: all, through the target's head
    image_embeddings: Literal["merged", "token"] = "merged"  # what stands for a picture's token

    def __post_init__(self) -> None:
        if min(self.heads, self.groups, self.feed_forward, self.unroll) < 1 or self.heads % self.groups:
            raise ValueError("heads, groups, feed_forward and unroll must be 1 or more, heads a multiple of groups")
        if not 0 < self.decay <= 1 or self.draft_vocab < 0:
            raise ValueError("decay must be in (0, 1], draft_vocab 0 or more")
        if self.image_embeddings not in ("merged", "token"):
            raise ValueError(f"image_embeddings is {self.image_embeddings!r}; it must be merged or token")


class EagleNet(nn.Module):
    """Queries and keys read [norm(token embedding); norm(feature)]; the residual stream is the feature."""

    def __init__(self, width: int, config: EagleConfig, vocab_size: int) -> None:
        super().__init__()
        self.width = width
        self.fuse = nn.Linear(len(config.layers) * width, width, bias=False)
        self.norm_token, self.norm_feature = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(width, eps=1e-6)
        self.attention = Attention(width, config.heads, config.groups, reads=2 * width)
        self.norm_feed, self.feed = nn.RMSNorm(width, eps=1e-6), SwiGLU(width, config.feed_forward)
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.head = nn.Linear(width, config.draft_vocab, bias=False) if config.draft_vocab else None
        if config.draft_vocab:  # as EAGLE-3 stores them: draft id i is target id i + d2t[i]; t2d: which ids are known
            self.register_buffer("d2t", torch.zeros(config.draft_vocab, dtype=torch.long))
            self.register_buffer("t2d", torch.arange(vocab_size) < config.draft_vocab)

    def forward(
        self, embedded: Tensor, feature: Tensor, position: Tensor, mask: Tensor | None, memory: Memory
    ) -> Tensor:
        """[B, n, H]; states after these rows, not normed: the features of the next step. position: [B, n]."""
        x, at = self.read(embedded, feature), angles(position, self.attention.size, embedded)
        k, v = memory.put(0, *self.attention.keys(x, at))
        return self.finish(feature, self.attention.attend(self.attention.queries(x, at), k, v, mask))

    def read(self, embedded: Tensor, feature: Tensor) -> Tensor:
        """[B, n, 2 H]; what attention is shown."""
        return torch.cat([self.norm_token(embedded), self.norm_feature(feature)], -1)

    def finish(self, feature: Tensor, attended: Tensor) -> Tensor:
        """[B, n, H]; residual stream and feed-forward."""
        x = feature + attended
        return x + self.feed(self.norm_feed(x))

    def ids(self) -> Tensor | None:
        """[Vd]; the target ids of the draft vocabulary, rising; None: all ids."""
        return None if self.head is None else self.d2t + torch.arange(len(self.d2t), device=self.d2t.device)

    def logits(self, state: Tensor, shared: Shared) -> Tensor:
        """[..., Vd or V]; over the draft vocabulary where there is one."""
        return (shared.head if self.head is None else self.head)(self.norm(state))


@dataclass(frozen=True, slots=True)
class Eagle:
    """Drafts a dynamic tree of chosen children, or a chain of drawn ones. Serial passes a round: `depth`."""

    net: EagleNet
    shared: Shared
    config: EagleConfig
    conditioner: Conditioner
    depth: int = 5
    width: int = 4  # nodes opened a level, and children looked at under each; 1: a chain
    nodes: int = 16  # guesses verified a round
    drawn: bool = False  # at temperatures above 0: a chain drawn from the drafter's laws instead of a chosen tree

    level: ClassVar[int] = 1
    trained: ClassVar[bool] = True
    paired: ClassVar[bool] = True
    Config: ClassVar[type] = EagleConfig

    def __post_init__(self) -> None:
        if min(self.depth, self.width, self.nodes) < 1:
            raise ValueError(f"depth, width and nodes must be 1 or more, got {self.depth}, {self.width}, {self.nodes}")

    @classmethod
    def create(cls, shared: Shared, config: EagleConfig, conditioner: Conditioner, *, seed: int = 0) -> Self:
        """A drafter with new weights. Raises UsageError for layers or heads that do not fit the target."""
        config = config if config.layers else replace(config, layers=three_layers(shared.depth))
        if wrong := [k for k in config.layers if not 0 <= k <= shared.depth]:
            raise UsageError(f"layers {wrong} asked for; the target has 0 (embeddings) to {shared.depth} (its last)")
        if shared.width % config.heads or config.draft_vocab > shared.vocab_size:
            raise UsageError(
                f"width {shared.width} must be a multiple of heads {config.heads}, and draft_vocab "
                f"{config.draft_vocab} at most {shared.vocab_size}"
            )
        net = built(lambda: EagleNet(shared.width, config, shared.vocab_size), shared.like, seed)
        return cls(net, shared, config, conditioner)

    @classmethod
    def tiny(cls, model: Any) -> Self:
        """An instance for the law tests."""
        made = cls.create(model.shared, EagleConfig(heads=2, groups=1, feed_forward=8, unroll=3), Full(), seed=1)
        return replace(made, depth=3, width=2, nodes=5)

    @classmethod
    def load(cls, path: Path, target: Any, open_model: Callable[[Path], Any], **options: Any) -> Self:
        """Read a directory; see `directory.read`."""
        return directory.read(cls, path, target, options)

    @property
    def needs(self) -> Needs:
        return Needs(self.config.layers, self.config.image_embeddings == "merged", self.conditioner.scores)

    @property
    def lesson_layers(self) -> tuple[int, ...]:
        return ()

    def speak(self, frequency: Tensor) -> None:
        """Fix the draft vocabulary: the ids that answers use most, and their rows of the target's head.

        frequency: [V]. Does nothing for a drafter of the whole vocabulary.
        """
        if self.net.head is None:
            return
        chosen = frequency.topk(self.config.draft_vocab).indices.sort().values
        known = torch.zeros(self.shared.vocab_size, dtype=torch.bool).index_fill_(0, chosen, True)
        with torch.no_grad():
            eye = torch.eye(self.shared.width, dtype=self.shared.like.dtype, device=self.shared.like.device)
            self.net.head.weight.copy_(self.shared.head(eye)[:, chosen].T)
            self.net.d2t.copy_(chosen - torch.arange(len(chosen)))
            self.net.t2d.copy_(known)

    def embed(self, rows: Rows) -> Tensor:
        """[B, R, H]; merged embeddings where the rows hold them, else those of their ids."""
        return self.shared.embed(rows.ids) if rows.embeddings is None else rows.embeddings

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> EagleSession:
        return EagleSession(self, context, rule, clock)

    def loss(self, lesson: Lesson, generator: torch.Generator) -> Loss:
        """Sum over steps j of decay^j times the soft cross-entropy to the target's law, on answer tokens."""
        queries = Queries.of(lesson)
        states, ids = unroll(self, lesson, queries), self.net.ids()
        teacher = lesson.target_logits(lesson.labels >= 0)
        best = teacher.argmax(-1)
        fine = torch.ones_like(best, dtype=torch.bool) if ids is None else self.net.t2d[best]
        law = (teacher if ids is None else teacher[:, ids]).float().softmax(-1)
        total, sums = states[0].new_zeros(()), dict[str, float]()
        for j, state in enumerate(states):
            where, at = queries.learnt(j)
            state, at = state[where][fine[at]], at[fine[at]]
            logits = self.net.logits(state, self.shared).float().log_softmax(-1)
            total = total - self.config.decay**j * (law[at] * logits).sum()
            said = logits.argmax(-1) if ids is None else ids[logits.argmax(-1)]
            sums[f"hit{j + 1}"] = float((said == best[at]).sum())
        return Loss(total, lesson.terms, sums)


@dataclass(frozen=True, slots=True)
class Queries:
    """The rows whose successor is an answer token, closed up: [B, Q]; and how steps ahead of them are numbered."""

    lesson: Lesson
    row: Tensor  # [B, Q] int64; their rows of the lesson
    valid: Tensor  # [B, Q] bool
    number: Tensor  # [B, R] int64; of each such row among all of the batch, as `Lesson.target_logits` counts them

    @staticmethod
    def of(lesson: Lesson) -> Queries:
        learnt = lesson.labels >= 0
        width = int(learnt.sum(1).max())
        row = learnt.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :width]
        number = (learnt.flatten().cumsum(0) - 1).view_as(lesson.labels)
        return Queries(lesson, row, learnt.gather(1, row), number)

    def ahead(self, steps: int) -> Tensor:
        """[B, Q]; the row `steps` on in the same branch if its successor is learnt too, else -1."""
        there = self.lesson.further(steps).gather(1, self.row) if steps else self.row
        fine = self.valid & (there >= 0) & (self.lesson.labels.gather(1, there.clamp(min=0)) >= 0)
        return there.where(fine, -1)

    def learnt(self, steps: int) -> tuple[Tensor, Tensor]:
        """Which of [B, Q] learn at this step, and the number of the target's law that each learns."""
        there = self.ahead(steps)
        return there >= 0, self.number.gather(1, there.clamp(min=0))[there >= 0]


def unroll(drafter: Eagle, lesson: Lesson, queries: Queries) -> list[Tensor]:
    """States [B, Q, H] of the training-time test: step 0 on true features, then each on the state before it.

    At step j a row reads the token j further on, at its position, beside its own last state; it sees the true rows up
    to its own and its own steps 1 … j (Li et al. 2025, figure 6).
    """
    net, rows, attention = drafter.net, lesson.rows, drafter.net.attention
    wide = queries.row[..., None]
    fused, embedded = net.fuse(rows.features), drafter.embed(rows)
    x = net.read(embedded, fused)
    past = attention.keys(x, angles(rows.position, attention.size, x))
    see = lesson.see.gather(1, wide.expand(-1, -1, lesson.see.shape[2]))
    see = see | ~queries.valid[..., None]  # a padded query sees anything rather than nothing
    feature = fused.gather(1, wide.expand(-1, -1, fused.shape[2]))
    shown, position = x.gather(1, wide.expand(-1, -1, x.shape[2])), rows.position.gather(1, queries.row)
    own, states = list[tuple[Tensor, Tensor]](), list[Tensor]()
    for j in range(drafter.config.unroll):
        at = angles(position + j, attention.size, x)
        if j:
            ids = rows.ids.gather(1, queries.ahead(j).clamp(min=0))
            shown = net.read(drafter.shared.embed(ids), feature)
            own.append(attention.keys(shown, at))
        feature = net.finish(feature, attention.unroll(attention.queries(shown, at), past, own, see))
        states.append(feature)
    return states


class EagleSession:
    """Keys of the rows read so far; guesses stand behind them until the next round overwrites them."""

    def __init__(self, how: Eagle, context: Context, rule: Rule, clock: Clock) -> None:
        self.how, self.rule, self.clock = how, rule, clock
        self.seen = how.conditioner.open(context, how.paired)
        rows, attention = self.seen.prompt, how.net.attention
        self.memory = Memory(1, len(rows.ids), attention.groups, attention.size, how.shared.like, rows.ids.shape[1])
        with torch.inference_mode():
            self._store(rows)

    def _store(self, rows: Rows) -> None:
        """Keys and values of the prompt; nothing asks for its states."""
        if rows.ids.shape[1]:
            net = self.how.net
            x = net.read(self.how.embed(rows), net.fuse(rows.features))
            self.memory.lay(rows.ids.shape[1])
            self.memory.put(0, *net.attention.keys(x, angles(rows.position, net.attention.size, x)))
            self.memory.commit(rows.count)

    def _catch_up(self, verdict: Verdict) -> Tensor:
        """[B, 1, H]; read what was settled; the state after the root."""
        rows = self.seen.rows(verdict)
        mask = self.memory.lay(rows.ids.shape[1])
        fused = self.how.net.fuse(rows.features)
        states = self.how.net(self.how.embed(rows), fused, rows.position, mask, self.memory)
        self.memory.commit(rows.count)
        return states.gather(1, (rows.count - 1)[:, None, None].expand(-1, 1, states.shape[2]))

    @torch.inference_mode()
    def propose(self, verdict: Verdict) -> Draft:
        """A tree of `nodes` chosen guesses, or a chain of `depth` drawn ones."""
        with self.clock("condition"):
            state = self._catch_up(verdict)
        how = self.how
        logits, growing = (
            how.net.logits(state[:, 0], how.shared),
            growth.Growing(self._guess, self.memory, state, verdict),
        )
        if how.drawn and not isinstance(first := self.rule.law(self._whole(logits)), Point):
            return growth.chain(
                self.rule, first, lambda ids, level: self.rule.law(self._whole(growing.after(ids, level))), how.depth,
                verdict.dice,
            )  # fmt: skip

        def step(tokens: Tensor, came: Tensor, shape: Tree, start: int) -> Tensor:
            return growing.step(self._spelled(tokens), came, shape, start)

        tokens, shape = growth.grow(logits, step, self._pick(verdict), how.depth, how.width, how.nodes)
        return Draft(self._spelled(tokens), shape)

    def _guess(self, ids: Tensor, feature: Tensor, position: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """[B, w, H] and [B, w, Vd or V]; one serial pass, see `growth.Read`."""
        state = self.how.net(self.how.shared.embed(ids), feature, position, mask, self.memory)
        return state, self.how.net.logits(state, self.how.shared)

    def _pick(self, verdict: Verdict) -> growth.Pick:
        """Choosing among the draft vocabulary: laws and races are over the target's ids, steps count in the draft's."""
        pick, ids = growth.choice(self.rule, verdict.dice), self.how.net.ids()
        if ids is None:
            return pick
        known = ids

        def among(logits: Tensor, width: int, level: int) -> tuple[Tensor, Tensor]:
            found, scores = pick(self._whole(logits), width, level)
            return torch.searchsorted(known, found.clamp(min=0)).where(found >= 0, -1), scores

        return among

    def _whole(self, logits: Tensor) -> Tensor:
        """[..., V]; logits over the target's ids, minus infinity where the draft vocabulary has none."""
        ids = self.how.net.ids()
        if ids is None:
            return logits
        return logits.new_full((*logits.shape[:-1], self.how.shared.vocab_size), -torch.inf).index_copy_(
            -1, ids, logits
        )

    def _spelled(self, tokens: Tensor) -> Tensor:
        ids = self.how.net.ids()
        return tokens if ids is None else ids[tokens.clamp(min=0)].where(tokens >= 0, -1)

    def keep(self, rows: Tensor) -> None:
        self.seen.keep(rows)
        self.memory.keep(rows)

    def join(self, other: EagleSession) -> None:
        self.seen.join(other.seen)
        self.memory.join(other.memory)
