"""Faults that the identity of text must catch. Each plants itself by monkeypatch and says where it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
import torch
from torch import Tensor

from paceline.hf import masks
from paceline.hf.masks import Masks
from paceline.hf.session import Session
from paceline.hf.slots import Slots
from paceline.tree import Tree
from unit.targets.replay import Shape


@dataclass(frozen=True)
class Mutant:
    """A fault, and a class, a draft shape and rows of `Tiny.prompts` on which it must change the text."""

    plant: Callable[[pytest.MonkeyPatch], None]
    name: str
    shape: Shape
    rows: tuple[int, ...]


def sibling_leak(patch: pytest.MonkeyPatch) -> None:
    """A node sees all nodes before it in the block, not its ancestors only."""
    right = masks.sight

    def leaky(length: Tensor, tree: Tree, start: int, top: int, window: int | None) -> Tensor:
        everything = torch.ones_like(tree.see).tril()
        open_tree = Tree(tree.parent, everything, tree.depth, tree.kids, tree.height, tree.is_chain)
        return right(length, open_tree, start, top, window)

    patch.setattr(masks, "sight", leaky)


def offset_lost(patch: pytest.MonkeyPatch) -> None:
    """Positions after a picture are sequence indices, as if a picture took a position for each of its rows."""
    _at_birth(patch, lambda session: setattr(session, "_offset", None))


def position_shifted(patch: pytest.MonkeyPatch) -> None:
    """Positions after the prompt are one too large."""
    _at_birth(patch, lambda session: setattr(session, "_offset", torch.ones(len(session.length), 1, dtype=torch.long)))


def _at_birth(patch: pytest.MonkeyPatch, change: Callable[[Session], None]) -> None:
    born = Session.__init__

    def init(self: Session, *args: Any) -> None:
        born(self, *args)
        change(self)

    patch.setattr(Session, "__init__", init)


def commit_short(patch: pytest.MonkeyPatch) -> None:
    """The last accepted token is forgotten when there are two or more."""
    right = Session.commit

    def short(self: Session, path: Tensor, length: Tensor) -> None:
        right(self, path, length - (length > 1).long())

    patch.setattr(Session, "commit", short)


def commit_long(patch: pytest.MonkeyPatch) -> None:
    """One rejected guess stays in the cache."""
    right = Session.commit

    def long(self: Session, path: Tensor, length: Tensor) -> None:
        more = torch.cat([path, path.amax(1, keepdim=True) + 1], 1)
        right(self, more, length + (path.shape[1] > 1))

    patch.setattr(Session, "commit", long)


def path_left_behind(patch: pytest.MonkeyPatch) -> None:
    """A tree's path is counted on, but its keys and values stay where they were."""
    patch.setattr(Slots, "move", lambda self, row, source, to: None)


def window_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Sliding layers see everything."""
    right = Masks.__init__

    def init(self: Masks, dtype: torch.dtype, window: int | None = None, kinds: tuple[str, ...] = ()) -> None:
        right(self, dtype, None, kinds)

    patch.setattr(Masks, "__init__", init)


def longest_row_for_all(patch: pytest.MonkeyPatch) -> None:
    """Every row of a ragged batch sees as many slots as the longest."""
    right = masks.sight

    def wide(length: Tensor, tree: Tree, start: int, top: int, window: int | None) -> Tensor:
        return right(length.amax().expand_as(length), tree, start, top, window)

    patch.setattr(masks, "sight", wide)


MUTANTS: Mapping[str, Mutant] = MappingProxyType({
    "sibling leak": Mutant(sibling_leak, "idefics3", "tree", (2,)),
    "picture offset lost": Mutant(offset_lost, "qwen3_vl", "plain", (2,)),
    "position shifted after a picture": Mutant(position_shifted, "idefics3", "plain", (2,)),
    "commit one short": Mutant(commit_short, "llama", "chain", (0,)),
    "commit one long": Mutant(commit_long, "idefics3", "chain", (2,)),
    "path left behind": Mutant(path_left_behind, "llama", "tree", (0,)),
    "window forgotten": Mutant(window_forgotten, "gemma3_window8", "plain", (1,)),
    "longest row for all": Mutant(longest_row_for_all, "llama", "plain", (0, 1, 2, 3)),
})  # fmt: skip
