"""Who may see what: block masks over a store in which each row has its own length."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from paceline.tree import Tree

FULL, SLIDING = "full_attention", "sliding_attention"
Mask = Tensor | dict[str, Tensor | None] | None


class Masks:
    """Makes the additive masks that one decoder takes; keeps the band that chains slice theirs from."""

    def __init__(self, dtype: torch.dtype, window: int | None = None, kinds: Sequence[str] = ()) -> None:
        self.dtype, self.window, self.kinds = dtype, window, tuple(kinds)
        self._bands: dict[int, Tensor] = {}  # rows -> [rows, columns]

    def __call__(self, rows: Sequence[int], length: Tensor, tree: Tree, start: int, top: int) -> Mask:
        """The mask of columns start … of a block behind each row; None where a lone row sees everything.

        rows: committed tokens of each row; length: the same as a tensor, [B]; top: slots in view. One tensor
        [B or 1, 1, n, top] for decoders with one kind of layer, else a dict by kind of layer.
        """
        near = self.window is not None and top > self.window  # below that the window hides nothing
        if not self.kinds:
            return self._mask(rows, length, tree, start, top, self.window if near else None)
        masks: dict[str, Tensor | None] = dict.fromkeys(self.kinds)  # recurrent layers take none
        for kind in {FULL, SLIDING} & set(self.kinds):
            masks[kind] = self._mask(rows, length, tree, start, top, self.window if near and kind == SLIDING else None)
        return masks

    def _mask(
        self, rows: Sequence[int], length: Tensor, tree: Tree, start: int, top: int, window: int | None
    ) -> Tensor | None:
        if window is None and tree.is_chain and min(rows) == max(rows):
            n = tree.size + 1 - start
            return None if n == 1 else self._band(n, top, length.device)
        allowed = sight(length, tree, start, top, window)
        return torch.zeros(allowed.shape, dtype=self.dtype, device=length.device).masked_fill_(~allowed, -torch.inf)

    def _band(self, n: int, top: int, device: torch.device) -> Tensor:
        """[1, 1, n, top]; the last n of `top` slots, each seeing all before it and itself."""
        band = self._bands.get(n)
        if band is None or band.shape[1] < top:
            room = max(2 * top, 256)
            band = torch.full((n, room), -torch.inf, dtype=self.dtype, device=device).triu_(room - n + 1)
            self._bands[n] = band
        return band[None, None, :, band.shape[1] - top :]


def sight(length: Tensor, tree: Tree, start: int, top: int, window: int | None) -> Tensor:
    """[B, 1, n, top] bool; what columns start … of the block see: the row's past, their ancestors and themselves.

    With a window, only what stands less than `window` places before them, counted along their own path.
    """
    see, depth = tree.see[:, start:], tree.depth
    b, n, width = len(length), see.shape[1], see.shape[2]
    slot = torch.arange(top, device=length.device)
    block = length[:, None] + slot[:width]
    allowed = (slot < length[:, None])[:, None].expand(b, n, top).clone()
    allowed.scatter_(2, block[:, None].expand(b, n, width), see.expand(b, n, width))
    if window is not None:
        place = slot.expand(b, top).scatter(1, block, length[:, None] + depth)
        allowed &= place[:, None] > (length[:, None] + depth[:, start:])[..., None] - window
    return allowed[:, None]
