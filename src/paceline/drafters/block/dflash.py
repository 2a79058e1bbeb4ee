"""DFlash: one pass over an anchor and masks guesses a whole block (arXiv 2602.06036).

Features of several target layers are fused once a committed token, and every draft layer reads them through keys and
values of its own, beside those of the block, whose rows see one another in both directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from paceline.clock import Clock, silent
from paceline.conditioning import Conditioner, Conditioning, Full, Rows
from paceline.core import Context, Draft, Needs, Rule, Shared, TargetSession, Verdict
from paceline.drafters import directory
from paceline.drafters.block.anchors import at_rows, behind, draw_anchors, rows_behind, runs, shares
from paceline.drafters.block.best_first import along, apart, likeliest
from paceline.drafters.layers import Angles, Memory, angles, built, rotate
from paceline.drafters.lesson import Lesson, Loss
from paceline.errors import UsageError
from paceline.law import Point


def taps(depth: int, count: int) -> tuple[int, ...]:
    """The layers k (hidden_states[k]) that a drafter of a target with so many layers reads.

    The published rule names layers by their number from 0, so that k is one more: round(1 + i (L - 4) / (m - 1)) for
    i = 0 … m - 1, and L // 2 for one. Raises UsageError where two of them fall together.
    """
    step = (depth - 4) / (count - 1) if count > 1 else 0.0
    found = tuple(round(1 + i * step) + 1 for i in range(count)) if count > 1 else (depth // 2 + 1,)
    if count < 1 or list(found) != sorted(set(found)):
        raise UsageError(f"{count} taps do not fit a target of {depth} layers: fewer taps, or name the layers")
    return found


@dataclass(frozen=True, slots=True)
class DFlashConfig:
    """What fixes the weights and their meaning. Width is the target's, which lends embedding and head."""

    layers: tuple[int, ...] = ()  # hidden_states[k] that are fused; empty: three by the published rule
    depth: int = 2  # draft layers
    heads: int = 4
    groups: int = 2  # key heads
    feed_forward: int = 512
    block_size: int = 8  # rows of a block, the anchor among them
    decay: float = 4.0  # of the loss along the block: published 7 for blocks of 16, 5 for 10, 4 for 8
    anchors: int = 32  # blocks that a row of a batch is asked for, in training
    mask_id: int | None = None  # the id whose embedding is the mask. None: the mask is a vector of its own
    theta: float = 10_000.0  # of the rotary positions

    def __post_init__(self) -> None:
        if min(self.depth, self.heads, self.groups, self.feed_forward, self.anchors) < 1 or self.block_size < 2:
            raise UsageError("depth, heads, groups, feed_forward and anchors must be 1 or more, block_size 2 or more")
        if self.heads % self.groups or not self.decay > 0:
            raise UsageError(f"heads ({self.heads}) must be a multiple of groups ({self.groups}), decay positive")


EPS = 1e-6  # of all norms


class Keys(Protocol):
    """Where a layer's keys and values go, and where all that the block may look at comes from."""

    def put(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]: ...


class BlockNet(nn.Module):
    """Fusion of the features, draft layers, final norm. One call is one serial pass.

    Weights of like kind stand stacked, layer by layer, so that a few rows cost few products: `qkv` holds
    queries, then keys, then values of each layer, and the keys and values of all layers come from one product.
    """

    def __init__(self, width: int, config: DFlashConfig) -> None:
        super().__init__()
        depth, size, inner = config.depth, width // config.heads, config.feed_forward
        self.heads, self.groups, self.size, self.theta = config.heads, config.groups, size, config.theta
        self.fuse = nn.Linear(len(config.layers) * width, width, bias=False)
        self.fused, self.norm = nn.RMSNorm(width, eps=EPS), nn.RMSNorm(width, eps=EPS)
        self.attend_norm = nn.ParameterList(torch.ones(width) for _ in range(depth))
        self.feed_norm = nn.ParameterList(torch.ones(width) for _ in range(depth))
        self.head_norm = nn.ParameterList(torch.ones(2 * size) for _ in range(depth))  # of a query, then of a key
        self.qkv = nn.Parameter(torch.empty(depth, (self.heads + 2 * self.groups) * size, width))
        self.out = nn.Parameter(torch.empty(depth, width, self.heads * size))
        self.gate_up = nn.Parameter(torch.empty(depth, 2 * inner, width))
        self.down = nn.Parameter(torch.empty(depth, width, inner))
        self.mask = nn.Parameter(torch.ones(width)) if config.mask_id is None else None

    def angles(self, position: Tensor) -> Angles:
        """Rotary positions of rows [B, R], ready to turn heads."""
        return angles(position, self.size, self.qkv, self.theta)

    def inject(self, features: Tensor, at: Angles, into: Keys) -> None:
        """Hand each layer its keys and values of these rows. features: [B, R, m H]; at: their rotary positions."""
        rows, h, g = self.fused(self.fuse(features)), self.heads * self.size, self.groups
        both = torch.matmul(rows, self.qkv[:, None, h:].mT).unflatten(-1, (2 * g, self.size)).transpose(2, 3)
        k = F.rms_norm(both[:, :, :g], (self.size,), None, EPS)  # [depth, B, groups, R, size]
        for layer, of_head in enumerate(self.head_norm):
            into.put(layer, rotate(k[layer] * of_head[self.size :], at), both[layer, :, g:])

    def forward(self, x: Tensor, at: Angles, mask: Tensor | None, keys: Keys) -> Tensor:
        """[B, n, H] of blocks x [B, n, H]; mask: what each row sees of what `keys` gives, None: all."""
        for layer, weights in enumerate(zip(self.qkv, self.out, self.gate_up, self.down, strict=True)):
            x = self._layer(layer, x, at, mask, keys, *weights)
        return self.norm(x)

    def _layer(
        self, layer: int, x: Tensor, at: Angles, mask: Tensor | None, keys: Keys,
        qkv: Tensor, out: Tensor, gate_up: Tensor, down: Tensor,
    ) -> Tensor:  # fmt: skip
        h, g, size = self.heads, self.groups, self.size
        every = F.linear(F.rms_norm(x, x.shape[-1:], self.attend_norm[layer], EPS), qkv)
        every = every.unflatten(-1, (h + 2 * g, size)).transpose(1, 2)  # [B, heads + 2 groups, n, size]
        of_q, of_k = self.head_norm[layer].view(2, 1, size)
        scale = torch.cat([of_q.expand(h, 1, size), of_k.expand(g, 1, size)])
        qk = rotate(F.rms_norm(every[:, : h + g], (size,), None, EPS) * scale, at)
        k, v = keys.put(layer, qk[:, h:], every[:, h + g :])
        seen = F.scaled_dot_product_attention(qk[:, :h], k, v, attn_mask=mask, enable_gqa=h != g)
        x = x + F.linear(seen.transpose(1, 2).flatten(2), out)
        gate, up = F.linear(F.rms_norm(x, x.shape[-1:], self.feed_norm[layer], EPS), gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, down)


class Beside:
    """Keys in training: those of the context, kept at the first call of each layer, then beside those of blocks."""

    def __init__(self) -> None:
        self.context: dict[int, tuple[Tensor, Tensor]] = {}

    def put(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """What there is to see, [B, groups, slots, size]: context, then block."""
        if layer not in self.context:
            self.context[layer] = k, v
            return k, v
        before = self.context[layer]
        return torch.cat([before[0], k], 2), torch.cat([before[1], v], 2)


@dataclass(frozen=True, slots=True)
class DFlash:
    """Block diffusion with injected features: `block_size - 1` guesses, each behind the same prefix, in one pass.

    A chain of them is drawn from their laws; with `nodes`, the likeliest tree of so many is chosen instead.
    """

    net: BlockNet
    shared: Shared
    config: DFlashConfig
    conditioner: Conditioner
    guesses: int = 0  # a round; 0: as many as a block has. Fewer make a smaller block of the same net
    nodes: int = 0  # of the tree; 0: a chain
    width: int = 6  # candidates at each place of the tree

    level: ClassVar[int] = 3
    trained: ClassVar[bool] = True
    paired: ClassVar[bool] = False
    lesson_layers: ClassVar[tuple[int, ...]] = ()
    Config: ClassVar[type[DFlashConfig]] = DFlashConfig
    first: ClassVar[int] = 1  # row of a block that guesses the token behind the anchor

    def __post_init__(self) -> None:
        most = self.config.block_size - self.first
        if not 0 <= self.guesses <= most or self.nodes < 0 or self.width < 1:
            raise UsageError(f"guesses must be 0 … {most}, nodes 0 or more, width 1 or more; got {self.guesses}, "
                             f"{self.nodes}, {self.width}")  # fmt: skip

    @classmethod
    def create(cls, shared: Shared, config: Any, conditioner: Conditioner, *, seed: int = 0) -> Any:
        """A new drafter for a target of these sizes. Raises UsageError for a config that does not fit it."""
        config = config if config.layers else replace(config, layers=taps(shared.depth, 3))
        if wrong := [k for k in config.layers if not 0 <= k <= shared.depth]:
            raise UsageError(f"layers {wrong} do not exist: this target has 0 (embeddings) … {shared.depth}")
        if shared.width % config.heads:
            raise UsageError(f"heads is {config.heads}, which does not divide the target's width {shared.width}")
        if config.mask_id is not None and not 0 <= config.mask_id < shared.vocab_size:
            raise UsageError(f"mask_id is {config.mask_id}; this target has ids 0 … {shared.vocab_size - 1}")
        net = built(lambda: cls.made(shared, config), shared.like, seed)
        return cls(net, shared, config, conditioner)

    @classmethod
    def made(cls, shared: Shared, config: Any) -> Any:
        """The net of this config, with weights as torch makes them."""
        return BlockNet(shared.width, config)

    @classmethod
    def tiny(cls, model: Any) -> Any:
        """An instance for the law tests."""
        config = cls.Config(layers=(2, 5), depth=2, heads=2, groups=1, feed_forward=8, block_size=4, anchors=4)
        return cls.create(model.shared, config, Full(), seed=1)

    @classmethod
    def load(cls, path: Path, target: Any, open_model: Callable[[Path], Any], **options: Any) -> Any:
        """The drafter in this directory. Raises UsageError where it does not fit the target."""
        return directory.read(cls, path, target, options)

    @property
    def needs(self) -> Needs:
        """Features of the fused layers."""
        return Needs(layers=self.config.layers, scores=self.conditioner.scores)

    @property
    def places(self) -> int:
        """K, guesses along a block."""
        return self.guesses or self.config.block_size - self.first

    @torch.inference_mode()
    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> BlockSession:
        return BlockSession(self, self.conditioner.open(context, self.paired), rule, clock)

    def block(self, anchor: Tensor, rows: int) -> Tensor:
        """[..., rows, H]; the anchor's embedding, then masks. anchor: [...] int64."""
        masks = self.net.mask
        if masks is None:
            masks = self.shared.embed(torch.tensor(self.config.mask_id, device=anchor.device))
        wide = masks.expand(*anchor.shape, rows - 1, -1)
        return torch.cat([self.shared.embed(anchor)[..., None, :], wide], -2)

    def guess(self, hidden: Tensor, verdict: Verdict, rule: Rule) -> Draft:
        """The draft of one pass. hidden: [B, K, H], of the rows that guess."""
        logits = self.shared.head(hidden)
        if self.nodes:
            return likeliest(apart(logits, rule, verdict.dice, self.width), self.nodes)
        law = rule.law(logits)
        tokens = rule.coupling.propose(law, 1, along(verdict.dice, logits.shape[1]))[..., 0]
        if isinstance(law, Point):
            return Draft.chain(tokens)
        column = torch.arange(logits.shape[1] + 1, device=tokens.device).clamp(max=logits.shape[1] - 1)
        return Draft.chain(tokens, law[:, column])

    def taught(self, lesson: Lesson, anchors: Tensor) -> Tensor:
        """[B, A, K, H]; what blocks behind these anchors say under teacher forcing. anchors: [B, A] rows, -1 pads."""
        places, rows = self.config.block_size - self.first, lesson.rows
        n, keys = places + self.first, Beside()
        self.net.inject(rows.features, self.net.angles(rows.position), keys)
        at = anchors.clamp(min=0)
        x = self.block(rows.ids.gather(1, at), n)
        position = rows.position.gather(1, at)[..., None] + torch.arange(n, device=at.device)
        sight = behind(lesson.see, at, n)
        out = self.net(x.flatten(1, 2), self.net.angles(position.flatten(1)), sight, keys)
        return out.unflatten(1, (-1, n))[:, :, self.first :]

    def loss(self, lesson: Lesson, generator: torch.Generator) -> Loss:
        """Cross-entropy along blocks behind random anchors, each block's mean weighted by `anchors.weights`."""
        anchors = draw_anchors(lesson, self.config.anchors, generator)
        labels = at_rows(lesson.labels, rows_behind(lesson, anchors, self.config.block_size - self.first))
        asked = labels >= 0
        logits = self.shared.head(self.taught(lesson, anchors)[asked])
        found = F.cross_entropy(logits, labels[asked], reduction="none")
        value = (found * shares(asked, self.config.decay)[asked]).sum()
        return Loss(value, int(asked[..., 0].sum()), runs(logits, labels))


class Turns:
    """Rotary positions of a net, made once and looked up."""

    def __init__(self, net: BlockNet) -> None:
        self.net, self.made = net, 0
        self.table: Angles | None = None

    def __call__(self, position: Tensor) -> Angles:
        """As `BlockNet.angles`. position: [B, R]."""
        last = int(position.max())
        if self.table is None or last >= self.made:
            self.made = 2 * (last + 1)
            self.table = self.net.angles(torch.arange(self.made, device=position.device)[None])
        cos, sin = self.table
        return cos[0, 0, position][:, None], sin[0, 0, position][:, None]


class BlockSession:
    """Keys and values of all that was committed; the block's own are overwritten by what is committed next."""

    def __init__(self, how: DFlash, shown: Conditioning, rule: Rule, clock: Clock) -> None:
        self.how, self.shown, self.rule, self.clock = how, shown, rule, clock
        batch, room = shown.prompt.ids.shape
        self.memory = Memory(how.config.depth, batch, how.config.groups, how.net.size, how.shared.like, room)
        self.turns = Turns(how.net)
        self._read(shown.prompt)

    @torch.inference_mode()
    def propose(self, verdict: Verdict) -> Draft:
        """Read what was settled, then guess a block behind it."""
        with self.clock("condition"):
            self._read(self.shown.rows(verdict))
        n = self.how.places + self.how.first
        at = self.turns(along(verdict.dice, n).position - 1)
        self.memory.lay(n)
        x = self.how.block(verdict.root, n)
        hidden = self.how.net(x, at, mutual(self.memory.length, n), self.memory)
        return self.how.guess(hidden[:, self.how.first :], verdict, self.rule)

    def _read(self, rows: Rows) -> None:
        if rows.ids.shape[1]:
            self.memory.lay(rows.ids.shape[1])
            self.how.net.inject(rows.features, self.turns(rows.position), self.memory)
            self.memory.commit(rows.count)

    def keep(self, rows: Tensor) -> None:
        self.memory.keep(rows)
        self.shown.keep(rows)

    def join(self, other: BlockSession) -> None:
        self.memory.join(other.memory)
        self.shown.join(other.shown)


def mutual(length: Tensor, n: int) -> Tensor | None:
    """[B, 1, 1, slots] bool; a block of n behind each row sees the row's past and all of itself. None: all slots."""
    if len(length) == 1:
        return None
    slot = torch.arange(int(length.max()) + n, device=length.device)
    return (slot < (length + n)[:, None])[:, None, None]
