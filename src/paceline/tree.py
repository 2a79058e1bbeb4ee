"""The shape of a draft: who hangs under whom, who may see whom, how deep."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Tree:
    """Nodes hung under a root, parents first; node i is column i + 1, the root column 0.

    One shape may serve a whole batch: then its leading axis is 1.
    """

    parent: Tensor  # [B or 1, N] int64; 0 is the root, i + 1 is node i
    see: Tensor  # [B or 1, N + 1, N + 1] bool; a node sees its ancestors and itself
    depth: Tensor  # [B or 1, N + 1] int64; the root 0
    kids: Tensor  # [B or 1, N + 1, W] int64; the children of each node in order, 0 where there are fewer
    height: int  # the largest depth
    is_chain: bool  # each node the only child of the one before it

    @property
    def size(self) -> int:
        """N, the number of nodes without the root."""
        return self.parent.shape[1]

    def keep(self, rows: Tensor) -> Tree:
        """The trees of these rows. rows: [R] int64."""
        if self.parent.shape[0] == 1:
            return self
        see, depth, kids = self.see[rows], self.depth[rows], self.kids[rows]
        return Tree(self.parent[rows], see, depth, kids, self.height, self.is_chain)

    def join(self, other: Tree, mine: int, theirs: int) -> Tree:
        """The trees of `mine` rows of this one and `theirs` of the other; the smaller gets idle nodes at the root."""
        size = max(self.size, other.size)
        if self.is_chain and other.is_chain:
            return chain(size, self.parent.device)
        rows = [
            torch.nn.functional.pad(each.parent.expand(count, -1), (0, size - each.size))
            for each, count in ((self, mine), (other, theirs))
        ]
        return of(torch.cat(rows))


def of(parent: Tensor) -> Tree:
    """The tree with these parents, [B or 1, N]. Raises ValueError unless 0 <= parent[:, i] <= i."""
    b, n = parent.shape
    order = torch.arange(n, device=parent.device)
    if n and bool(((parent < 0) | (parent > order)).any()):
        raise ValueError(f"parents come first: 0 <= parent[:, i] <= i is broken by {parent.tolist()}")
    if bool((parent == order).all()):
        return chain(n, parent.device)
    reach = torch.eye(n + 1, device=parent.device).repeat(b, 1, 1)  # 1 where a step or none leads to
    reach[torch.arange(b, device=parent.device)[:, None], order + 1, parent] = 1
    for _ in range(n.bit_length()):  # twice as many steps each time
        reach = (reach @ reach).clamp_(max=1)
    see = reach > 0
    depth = see.sum(2) - 1
    return Tree(parent, see, depth, _children(parent), int(depth.max()), False)


@lru_cache(maxsize=256)
def chain(n: int, device: torch.device | str = "cpu") -> Tree:
    """A chain of n nodes, for any batch. Built once a length and device: treat its tensors as constants."""
    line = torch.arange(n + 1, device=device)
    kids = torch.cat([line[1:], line[:1]])[None, :, None] if n else line.new_zeros(1, 1, 0)
    see = torch.ones(1, n + 1, n + 1, dtype=torch.bool, device=device).tril_()
    return Tree(line[None, :n], see, line[None], kids, n, True)


def _children(parent: Tensor) -> Tensor:
    """[B, N + 1, W]; the children of each node in order, 0 where there are fewer."""
    b, n = parent.shape
    is_child = torch.zeros(b, n + 1, n + 1, dtype=torch.bool, device=parent.device)
    node = torch.arange(1, n + 1, device=parent.device)
    is_child[torch.arange(b, device=parent.device)[:, None], parent, node] = True
    width = int(is_child.sum(2).max())
    order = is_child.to(torch.int8).argsort(dim=2, descending=True, stable=True)[..., :width]
    return order * is_child.gather(2, order)
