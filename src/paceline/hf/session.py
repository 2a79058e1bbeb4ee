"""A batch of conversations on one stock decoder."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paceline.core import Draft, Pass
from paceline.errors import UsageError
from paceline.hf.body import Body
from paceline.hf.slots import Slots


class Session:
    """Cache, lengths and position offsets of the rows; the model itself is only read.

    Rows of unlike length share each forward. A chain is committed by counting on, a tree by moving its path.
    """

    def __init__(
        self, body: Body, layers: tuple[int, ...], slots: Slots, rows: Sequence[int], offset: Tensor | None
    ) -> None:
        self.body, self.layers, self.slots = body, layers, slots
        self._rows = list(rows)  # tokens committed, as numbers: they decide on layout, and need no device
        self._length = torch.tensor(self._rows, device=body.model.device)
        self._offset = offset  # [B, 1] int64; added to sequence indices where pictures take fewer positions than rows
        self._masks = body.masks()

    @property
    def length(self) -> Tensor:
        """[B] int64; tokens committed."""
        return self._length

    @torch.inference_mode()
    def forward(self, root: Tensor, draft: Draft, start: int = 0) -> Pass:
        """Read root and draft behind what is committed. root: [B]; see `TargetSession` for `start`.

        Guesses past the model's last position are read there: none of them can be emitted.
        """
        tree = draft.tree
        block = torch.cat([root[:, None], draft.tokens], 1)[:, start:].clamp_(min=0)
        top = self.slots.lay(self._rows, start, tree.size + 1)
        index = self._length[:, None] + tree.depth[:, start:]
        mask = self._masks(self._rows, self._length, tree, start, top)
        position = self.positions(index)
        if top > self.body.positions:
            position = position.clamp(max=self.body.positions - 1)
        return Pass(*self.body.forward(block, mask, position, self.slots, self.layers))

    def positions(self, index: Tensor) -> Tensor:
        """What the decoder is told of the places of sequence indices [B, n]."""
        return index if self._offset is None else index + self._offset

    @torch.inference_mode()
    def commit(self, path: Tensor, length: Tensor) -> None:
        """Keep these columns of the block, in order, and forget the rest. path: [B, A]; length: [B], 0 allowed."""
        counts = length.tolist()
        for row, (columns, count) in enumerate(zip(path.tolist(), counts, strict=True)):
            skipped = next((i for i in range(count) if columns[i] != i), count)
            if skipped < count:
                at = self._rows[row]
                source = torch.tensor([at + c for c in columns[skipped:count]], device=path.device)
                self.slots.move(row, source, at + skipped)
        self._rows = [a + b for a, b in zip(self._rows, counts, strict=True)]
        self._length = self._length + length

    @torch.inference_mode()
    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these. Between commit and forward only. rows: [R] int64."""
        self.slots.keep(rows)
        self._rows = [self._rows[r] for r in rows.tolist()]
        self._length = self._length[rows]
        self._offset = None if self._offset is None else self._offset[rows]

    @torch.inference_mode()
    def join(self, other: Session) -> None:
        """Append the rows of another session of the same target. Raises UsageError for a session of another model."""
        if other.body.model is not self.body.model or other.layers != self.layers:
            raise UsageError("only sessions of one target, opened with the same needs, can be joined")
        self.slots.join(other.slots)
        self._rows += other._rows
        self._length = torch.cat([self._length, other._length])
        if self._offset is not None and other._offset is not None:
            self._offset = torch.cat([self._offset, other._offset])
