"""Scenes into tensors: one shared picture prefix, then branches of question and answer that see it and themselves.

Worked example: prefix of 3 tokens, branches of 2 and 3 tokens.

    token      p0 p1 p2 a0 a1 b0 b1 b2
    position    0  1  2  3  4  3  4  5
    b1 sees     x  x  x  .  .  x  x  .
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Branch:
    """One exchange as token ids; ids from `answer` on are predicted (answer and end token)."""

    ids: np.ndarray  # [n] question, turn tokens, answer, end
    answer: int  # index of the first answer token in `ids`


@dataclass(frozen=True, slots=True)
class Packed:
    """One scene ready for training: tiles as stored bytes, the prefix that stands for them, and the branches."""

    task: str
    index: int
    tiles: np.ndarray  # [t, h, w, 3] uint8
    prefix: np.ndarray  # [p]
    branches: tuple[Branch, ...]

    @property
    def length(self) -> int:
        """Tokens in the packed row."""
        return len(self.prefix) + sum(len(branch.ids) for branch in self.branches)


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Rows of packed scenes with equally many tiles, right-padded."""

    name: str  # for error messages: tasks and scene numbers
    ids: Tensor  # [B, L]
    positions: Tensor  # [B, L]
    mask: Tensor  # [B, 1, L, L], True where row may see column
    pixels: Tensor | None  # [B, t, 3, h, w]
    source: Tensor  # [B, L], True at tokens whose successor is predicted
    labels: Tensor  # [n] successors, in row order
    task: Tensor  # [n] index into `tasks`
    tasks: tuple[str, ...]


def normalise(tiles: np.ndarray) -> Tensor:
    """Return tiles [..., h, w, 3] of bytes as [..., 3, h, w] float32 in [-1, 1], rounded as the processor rounds."""
    table = torch.from_numpy(((np.arange(256) * (1 / 255)).astype(np.float32) - np.float32(0.5)) / np.float32(0.5))
    return table[torch.from_numpy(np.ascontiguousarray(np.moveaxis(tiles, -1, -3))).int()]


def row(scene: Packed) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return ids, positions, branch numbers (0: prefix) and prediction flags of one scene, each [L]."""
    start = len(scene.prefix)
    ids, positions, owner = [scene.prefix], [np.arange(start)], [np.zeros(start, dtype=np.int64)]
    source = [np.zeros(start, dtype=bool)]
    for number, branch in enumerate(scene.branches, start=1):
        size = len(branch.ids)
        flags = np.zeros(size, dtype=bool)
        flags[branch.answer - 1 : size - 1] = True
        ids.append(branch.ids)
        positions.append(np.arange(start, start + size))
        owner.append(np.full(size, number))
        source.append(flags)
    return np.concatenate(ids), np.concatenate(positions), np.concatenate(owner), np.concatenate(source)


def collate(scenes: Sequence[Packed], pad: int) -> PackedBatch:
    """Return a batch of `scenes`, which must have equally many tiles; `pad` fills the right end of shorter rows."""
    if len({len(scene.tiles) for scene in scenes}) != 1:
        raise ValueError("scenes of one batch must have equally many tiles")
    rows, length = [row(scene) for scene in scenes], max(scene.length for scene in scenes)
    shape = (len(scenes), length)
    ids, positions = torch.full(shape, pad, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    owner, source = torch.full(shape, -1, dtype=torch.long), torch.zeros(shape, dtype=torch.bool)
    labels, task = [], []
    tasks = tuple(sorted({scene.task for scene in scenes}))
    for number, (tokens, places, owners, flags) in enumerate(rows):
        size = len(tokens)
        ids[number, :size] = torch.from_numpy(tokens.astype(np.int64))
        positions[number, :size], owner[number, :size] = torch.from_numpy(places), torch.from_numpy(owners)
        source[number, :size] = torch.from_numpy(flags)
        chosen = tokens[np.flatnonzero(flags) + 1]
        labels.append(chosen)
        task.append(np.full(len(chosen), tasks.index(scenes[number].task)))
    pixels = normalise(np.stack([scene.tiles for scene in scenes])) if len(scenes[0].tiles) else None
    return PackedBatch(
        name=", ".join(f"{scene.task}/{scene.index}" for scene in scenes),
        ids=ids, positions=positions, mask=branch_mask(owner), pixels=pixels, source=source,
        labels=torch.from_numpy(np.concatenate(labels).astype(np.int64)), task=torch.from_numpy(np.concatenate(task)),
        tasks=tasks,
    )  # fmt: skip


def branch_mask(owner: Tensor) -> Tensor:
    """Return [B, 1, L, L]: a token sees the prefix (0) and its own branch up to itself; padding (-1) sees padding."""
    length = owner.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    same = owner[:, :, None] == owner[:, None, :]
    prefix = (owner == 0)[:, None, :] & (owner > 0)[:, :, None]
    return ((same | prefix) & causal)[:, None]
