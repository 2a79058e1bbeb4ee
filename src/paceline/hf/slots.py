"""The key-value store of a batch of conversations: written in place, every row at its own length."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers.cache_utils import Cache

SPARE = 64  # slots left free when a store is laid out or grown


class Slots(Cache):
    """One preallocated store for the keys and values of all attention layers, sliding ones too.

    Row b holds its committed tokens in slots 0 … length_b - 1 and the block under test behind them, so that rejected
    guesses need no clearing, rows of unlike length no padding, and a chain is committed by counting on. Layers are
    stacked in planes of like shape: a tree's path moves with one gather a plane, not two a layer.
    """

    def __init__(self, planes: Sequence[Tensor], place: dict[int, int], layers: Sequence[object] = ()) -> None:
        super().__init__(layers=list(layers))
        self.planes = list(planes)  # each [G, B, heads, slots, width]; unused slots are zero, never NaN
        self._place = place  # layer -> where its keys are in the planes laid end to end; its values come next
        self._read: list[Tensor] = []
        self._write: list[Tensor] = []
        self._at: tuple[Tensor, Tensor] | None = None  # rows and slots of the block, where rows differ in length
        self._top = 0

    @staticmethod
    def of(caches: Sequence[Cache], lengths: Sequence[int]) -> Slots:
        """The store of these caches, one a row and each of a batch of one; the caches are emptied on the way.

        lengths: tokens in each cache. Recurrent layers stay what they are, for a single row.
        """
        shapes: dict[tuple[int, int], list[tuple[int, str]]] = {}
        for i, layer in enumerate(caches[0].layers):
            for kind in ("keys", "values"):
                tensor = getattr(layer, kind, None)
                if tensor is not None:
                    shapes.setdefault((tensor.shape[1], tensor.shape[3]), []).append((i, kind))
        planes, place, sample = [], {}, next(iter(shapes.values()))[0]
        like = getattr(caches[0].layers[sample[0]], sample[1])
        room = max(lengths) + SPARE
        count = 0
        for (heads, width), members in shapes.items():
            plane = like.new_zeros(len(members), len(caches), heads, room, width)
            for g, (i, kind) in enumerate(members):
                place[2 * i + (kind == "values")] = count + g
                for b, (cache, length) in enumerate(zip(caches, lengths, strict=True)):
                    plane[g, b, :, :length] = getattr(cache.layers[i], kind)[0]
                    setattr(cache.layers[i], kind, None)
            planes.append(plane)
            count += len(members)
        return Slots(planes, place, caches[0].layers)

    def lay(self, lengths: Sequence[int], start: int, width: int) -> int:
        """Ready the store for columns start … width - 1 of a block behind each row; returns the slots in view."""
        low, high = min(lengths), max(lengths)
        self._top = top = high + width
        if top > self.planes[0].shape[3]:
            self._grow(top)
        self._read = [t for plane in self.planes for t in plane.narrow(3, 0, top).unbind(0)]
        if low == high:
            new = [plane.narrow(3, low + start, width - start).unbind(0) for plane in self.planes]
            self._write, self._at = [t for part in new for t in part], None
        else:
            device = self.planes[0].device
            rows = torch.arange(len(lengths), device=device)[:, None]
            self._at = rows, torch.tensor(lengths, device=device)[:, None] + torch.arange(start, width, device=device)
        return top

    def update(  # type: ignore[override]
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """What each attention layer calls: puts the block, [B, heads, n, width], and gives all that is in view."""
        key, value = self._place[2 * layer_idx], self._place[2 * layer_idx + 1]
        keys, values = self._read[key], self._read[value]
        if self._at is None:
            self._write[key].copy_(key_states)
            self._write[value].copy_(value_states)
        else:
            keys.transpose(1, 2)[self._at] = key_states.transpose(1, 2)
            values.transpose(1, 2)[self._at] = value_states.transpose(1, 2)
        return keys, values

    def move(self, row: int, source: Tensor, to: int) -> None:
        """Copy slots of a row to the slots from `to` on. source: [A], rising, with source[i] >= to + i."""
        for plane in self.planes:
            plane[:, row, :, to : to + len(source)] = plane[:, row].index_select(2, source)

    def keep(self, rows: Tensor) -> None:
        """Only these rows, in this order. rows: [R] int64."""
        self.planes = [plane.index_select(1, rows) for plane in self.planes]

    def join(self, other: Slots) -> None:
        """Append the rows of another store of the same model."""
        room = max(self.planes[0].shape[3], other.planes[0].shape[3])
        self._grow(room, 0)
        other._grow(room, 0)
        self.planes = [torch.cat(pair, 1) for pair in zip(self.planes, other.planes, strict=True)]

    def _grow(self, room: int, spare: int | None = None) -> None:
        old = self.planes[0].shape[3]
        more = room - old if spare == 0 else max(2 * old, room + SPARE) - old
        if more > 0:
            self.planes = [torch.nn.functional.pad(plane, (0, 0, 0, more)) for plane in self.planes]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Slots in view without the block: read by classes that make masks or positions when they get none."""
        return self._top - (self._write[0].shape[2] if self._at is None else self._at[1].shape[1])

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        """Slots in view, and the first of them."""
        return self._top, 0
