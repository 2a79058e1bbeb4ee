"""Trees of fixed shape, whose nodes are named by ranks: (0, 2) is the third choice below the first choice."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from paceline import law as laws
from paceline import tree
from paceline.core import Draft, Rule
from paceline.dice import Dice
from paceline.law import Law, Point
from paceline.tree import Tree

Paths = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Ranks:
    """A static tree with what a drafter needs to fill it, built once: treat its tensors as constants."""

    tree: Tree  # of N nodes, for all rows
    rank: Tensor  # [N] int64; a node's place among its parent's choices
    above: tuple[Tensor, ...]  # at depth 1, 2, … K: [n] int64, each node's parent, counted within the depth before
    width: tuple[int, ...]  # most choices of one parent at depth 1, 2, … K

    @property
    def height(self) -> int:
        """K, the largest depth."""
        return len(self.above)


def product(widths: Sequence[int]) -> Paths:
    """Every combination of the first `widths[k]` choices at depth k + 1: Medusa's cartesian tree."""
    paths: list[tuple[int, ...]] = []
    last: list[tuple[int, ...]] = [()]
    for width in widths:
        last = [(*path, rank) for path in last for rank in range(width)]
        paths += last
    return tuple(paths)


def best(accuracy: Sequence[Sequence[float]], nodes: int) -> Paths:
    """The tree of `nodes` nodes that is accepted longest on average, if choices are right independently.

    accuracy[k][r]: chance that choice r at depth k + 1 is right, falling in r. Since a child is never likelier than its
    parent or its elder sibling, taking the likeliest open node each time is optimal (Cai et al. 2024, section 2.3.3).
    Fewer nodes come back where the table has no more combinations.
    """
    if not accuracy or any(not row for row in accuracy):
        raise ValueError("a tree needs at least one choice at every depth")

    def open_node(path: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
        return -math.prod(accuracy[k][rank] for k, rank in enumerate(path)), path

    heap, found = [open_node((0,))], list[tuple[int, ...]]()
    while heap and len(found) < nodes:
        _, path = heapq.heappop(heap)
        found.append(path)
        if path[-1] + 1 < len(accuracy[len(path) - 1]):
            heapq.heappush(heap, open_node((*path[:-1], path[-1] + 1)))
        if len(path) < len(accuracy):
            heapq.heappush(heap, open_node((*path, 0)))
    return tuple(sorted(found, key=lambda path: (len(path), path)))


def usual(depths: int) -> list[list[float]]:
    """Chances of choices where nobody has measured them: three in five for the first, two fifths of it for the next."""
    return [[0.6 * 0.4**rank for rank in range(8)]] * depths


def check(tree: Sequence[Sequence[int]], nodes: int, guesses: int) -> Paths:
    """The option as paths. Raises ValueError for what makes no tree, or one deeper than its drafter guesses."""
    if nodes < 1:
        raise ValueError(f"nodes is {nodes}; it must be 1 or more")
    paths = tuple(tuple(path) for path in tree)
    if paths and build(paths).height > guesses:
        raise ValueError(f"the tree is {build(paths).height} deep; this drafter guesses {guesses} places")
    return paths


def chosen(tree: Paths, nodes: int, guesses: int, device: torch.device | str = "cpu") -> Ranks:
    """The tree that the options of a drafter ask for: `tree`, or without one the best of so many nodes."""
    return build(tree or _best_usual(nodes, guesses), device)


@lru_cache(maxsize=64)
def _best_usual(nodes: int, guesses: int) -> Paths:
    return best(usual(guesses), nodes)


@lru_cache(maxsize=64)
def build(paths: Paths, device: torch.device | str = "cpu") -> Ranks:
    """The tree of these paths. Raises ValueError for one whose parent or elder sibling is missing, or given twice."""
    order = sorted(set(paths), key=lambda path: (len(path), path))
    if len(order) < len(paths) or not order:
        raise ValueError("a tree of ranks needs one path or more, each once")
    number = {(): 0} | {path: i + 1 for i, path in enumerate(order)}
    for path in order:
        elder = (*path[:-1], path[-1] - 1)
        if path[:-1] not in number or min(path) < 0 or (path[-1] and elder not in number):
            raise ValueError(f"path {path} hangs in the air: its parent or its elder sibling is not in the tree")
    levels = [[path for path in order if len(path) == k] for k in range(1, len(order[-1]) + 1)]
    parents: list[list[tuple[int, ...]]] = [[()], *levels]
    above = (torch.tensor([parents[k].index(p[:-1]) for p in level], device=device) for k, level in enumerate(levels))
    return Ranks(
        tree.of(torch.tensor([[number[path[:-1]] for path in order]], device=device)),
        torch.tensor([path[-1] for path in order], device=device),
        tuple(above),
        tuple(1 + max(path[-1] for path in level) for level in levels),
    )


def choices(logits: Tensor, law: Law, width: int, rule: Rule, dice: Dice, drawn: bool) -> Tensor:
    """[B, n, width] ids under each of n parents: drawn from their laws, else their best; -1 where a law has fewer.

    logits: [B, n, V]; law: of these logits, [B, n]. Greedy laws know one id, so there the best are taken.
    """
    if not drawn or isinstance(law, Point):
        best = logits.topk(min(width, logits.shape[-1]), -1).indices
        return torch.nn.functional.pad(best, (0, width - best.shape[-1]), value=-1)
    return rule.coupling.propose(law, width, replace(dice, position=dice.position[:, None]))


def fill(logits: Tensor, ranks: Ranks, rule: Rule, dice: Dice, drawn: bool) -> Draft:
    """The draft of places that were guessed at once and apart: all nodes of one depth choose from one law.

    logits: [B, K', V] with K' >= K, one row a depth; dice: at the first guess.
    """
    height, wide = ranks.height, max(ranks.width)
    law = rule.law(logits[:, :height])
    picks = [
        choices(logits[:, k : k + 1], law[:, k : k + 1], wide, rule, dice.ahead(k), drawn)[:, 0] for k in range(height)
    ]
    depth = ranks.tree.depth[0, 1:]
    tokens = torch.cat(picks, 1)[:, (depth - 1) * wide + ranks.rank]
    return Draft(tokens, ranks.tree, _told(law, ranks.tree.depth[0].clamp(max=height - 1), drawn))


def _told(law: Law, at: Tensor, drawn: bool) -> Law | None:
    """The law that drew the children of each node; None where they were chosen. at: [N + 1] columns of `law`."""
    return law[:, at] if drawn and not isinstance(law, Point) else None


def grown(given: Sequence[Law], leaves: int, drawn: bool) -> Law | None:
    """The laws of a tree grown depth by depth, [B, N + 1]; None where children were chosen.

    given: the law of the root, then of the nodes of each depth but the last, [B, n] each; leaves repeat the root's.
    """
    if not drawn or isinstance(given[0], Point):
        return None
    return laws.cat([*given, given[0][:, torch.zeros(leaves, dtype=torch.long)]], 1)
