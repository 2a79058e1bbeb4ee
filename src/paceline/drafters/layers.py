"""Blocks that trained drafters are built of: rotary positions, attention over ragged rows, feed-forward, memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from paceline import tree as trees
from paceline.hf.masks import Masks
from paceline.hf.slots import SPARE, Slots
from paceline.tree import Tree

Net = TypeVar("Net", bound=nn.Module)
Angles = tuple[Tensor, Tensor]


def angles(position: Tensor, width: int, like: Tensor, theta: float = 10_000.0) -> Angles:
    """Cosines and sines [B, 1, n, width] of rotary positions (Su et al. 2021). position: [B, n]; width: of a head."""
    rate = theta ** (-torch.arange(0, width, 2, device=position.device).double() / width)
    turn = (position[..., None].double() * rate).repeat(1, 1, 2)[:, None]
    return turn.cos().to(like.dtype), turn.sin().to(like.dtype)


def rotate(x: Tensor, at: Angles) -> Tensor:
    """Heads turned to their positions. x: [B, heads, n, width]."""
    low, high = x.chunk(2, -1)
    return x * at[0] + torch.cat([-high, low], -1) * at[1]


class Attention(nn.Module):
    """Grouped attention in three steps, so that keys may come from elsewhere: `keys`, `queries`, `attend`.

    `reads`: width of what keys and queries are made of, where it is not `width`; `norm`: RMSNorm on each head's
    queries and keys (Qwen3).
    """

    def __init__(
        self, width: int, heads: int, groups: int | None = None, *, reads: int | None = None, norm: bool = False
    ) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups or heads, width // heads
        self.q = nn.Linear(reads or width, heads * self.size, bias=False)
        self.k = nn.Linear(reads or width, self.groups * self.size, bias=False)
        self.v = nn.Linear(reads or width, self.groups * self.size, bias=False)
        self.o = nn.Linear(heads * self.size, width, bias=False)
        self.q_norm = nn.RMSNorm(self.size, eps=1e-6) if norm else nn.Identity()
        self.k_norm = nn.RMSNorm(self.size, eps=1e-6) if norm else nn.Identity()

    def keys(self, x: Tensor, at: Angles | None) -> tuple[Tensor, Tensor]:
        """Keys and values [B, groups, n, size] of x [B, n, reads]; at None: without positions."""
        k = self.k_norm(self._split(self.k(x), self.groups))
        return k if at is None else rotate(k, at), self._split(self.v(x), self.groups)

    def queries(self, x: Tensor, at: Angles | None) -> Tensor:
        """[B, heads, n, size] of x [B, n, reads]."""
        q = self.q_norm(self._split(self.q(x), self.heads))
        return q if at is None else rotate(q, at)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """[B, n, width]. mask: additive or bool [B or 1, 1, n, slots], or None where each query sees every slot."""
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=self.heads != self.groups)
        return self.o(out.transpose(1, 2).flatten(2))

    def unroll(
        self, q: Tensor, past: tuple[Tensor, Tensor], own: Sequence[tuple[Tensor, Tensor]], see: Tensor
    ) -> Tensor:
        """[B, n, width]; step j of a training-time test: the true rows of the past, and each row's own j later steps.

        q: [B, heads, n, size]; past: keys and values of all true rows, R slots; own: of steps 1 … j at the same n
        rows; see: [B, n, R] bool, the true rows in view (Li et al. 2025, EAGLE-3, section 3.2).
        """
        wide = self.heads // self.groups
        k, v = (t.repeat_interleave(wide, 1) if wide > 1 else t for t in past)
        later = [tuple(t.repeat_interleave(wide, 1) if wide > 1 else t for t in pair) for pair in own]
        scores = (q @ k.mT).masked_fill(~see[:, None], -torch.inf)
        ahead = [(q * own_k).sum(-1, keepdim=True) for own_k, _ in later]
        weight = (torch.cat([scores, *ahead], -1) / math.sqrt(self.size)).softmax(-1)
        out = weight[..., : k.shape[2]] @ v
        for j, (_, own_v) in enumerate(later):
            out = out + weight[..., k.shape[2] + j, None] * own_v
        return self.o(out.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor, heads: int) -> Tensor:
        return x.view(*x.shape[:2], heads, self.size).transpose(1, 2)


class SwiGLU(nn.Module):
    """down(silu(gate x) * up x) (Shazeer 2020)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A pre-norm decoder layer, with keys of its own rows put into a memory or, in training, masked by `see`."""

    def __init__(self, width: int, heads: int, inner: int, groups: int | None = None, *, norm: bool = False) -> None:
        super().__init__()
        self.before, self.attention = nn.RMSNorm(width, eps=1e-6), Attention(width, heads, groups, norm=norm)
        self.after, self.feed = nn.RMSNorm(width, eps=1e-6), SwiGLU(width, inner)

    def forward(
        self, x: Tensor, at: Angles, mask: Tensor | None, memory: Memory | None = None, layer: int = 0
    ) -> Tensor:
        """[B, n, width]. mask: see `Attention.attend`; memory: laid out for these n rows."""
        shown = self.before(x)
        k, v = self.attention.keys(shown, at)
        if memory is not None:
            k, v = memory.put(layer, k, v)
        x = x + self.attention.attend(self.attention.queries(shown, at), k, v, mask)
        return x + self.feed(self.after(x))


class Memory:
    """Keys and values of the rows that a drafter has read: every conversation at its own length, written in place.

    A pass calls `lay`, which gives the mask, and then `put` in every layer; `commit` keeps the first rows of the last
    block. What was not committed is overwritten by the next block.
    """

    def __init__(self, layers: int, batch: int, groups: int, size: int, like: Tensor, room: int = 0) -> None:
        """groups, size: key heads and their width; room: slots to begin with; like: device and precision."""
        plane = like.new_zeros(2 * layers, batch, groups, room + SPARE, size)
        self._slots = Slots([plane], {i: i for i in range(2 * layers)})
        self._rows = [0] * batch
        self._masks = Masks(like.dtype)
        self.length = torch.zeros(batch, dtype=torch.long, device=like.device)  # [B]; rows committed

    def lay(self, shape: Tree | int, start: int = 0, behind: int = 0) -> Tensor | None:
        """Ready for columns start … of a block behind each row, and what they see: additive, [B or 1, 1, n, slots].

        shape: a tree, or the number of columns of a chain. behind: committed rows at the end that count as the
        block's first columns: 1 lets the last committed row be a tree's root.
        """
        tree = trees.chain(shape - 1, self.length.device) if isinstance(shape, int) else shape
        rows, length = [n - behind for n in self._rows], self.length - behind
        top = self._slots.lay(rows, start, tree.size + 1)
        mask = self._masks(rows, length, tree, start, top)
        assert mask is None or isinstance(mask, Tensor)
        return mask

    def put(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write the block's keys and values, [B, groups, n, size]; all that is in view, [B, groups, slots, size]."""
        return self._slots.update(k, v, layer)

    def commit(self, count: Tensor) -> None:
        """Keep the first `count` rows of the last block, laid with behind = 0. count: [B] int64."""
        self._rows = [a + b for a, b in zip(self._rows, count.tolist(), strict=True)]
        self.length = self.length + count

    def keep(self, rows: Tensor) -> None:
        """Only these conversations, in this order. rows: [R] int64."""
        self._slots.keep(rows)
        self._rows, self.length = [self._rows[r] for r in rows.tolist()], self.length[rows]

    def join(self, other: Memory) -> None:
        """Append the conversations of another memory of the same net."""
        self._slots.join(other._slots)
        self._rows, self.length = self._rows + other._rows, torch.cat([self.length, other.length])


def built(make: Callable[[], Net], like: Tensor, seed: int) -> Net:
    """A net with reproducible weights: matrices from a normal law of variance 1 / inputs, vectors as they are made.

    The global random state is left alone. A parameter named `zero…` starts at zero.
    """
    with torch.random.fork_rng(devices=[]):
        net = make()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            if name.rpartition(".")[2].startswith("zero"):
                parameter.zero_()
            elif parameter.ndim >= 2:
                parameter.normal_(0, parameter.shape[-1] ** -0.5, generator=generator)
    return net.to(like.device, like.dtype)
