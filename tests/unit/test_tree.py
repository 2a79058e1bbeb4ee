"""The shape of drafts."""

from __future__ import annotations

import pytest
import torch

from paceline import tree


def brute_force(parent: list[int]) -> tuple[set[tuple[int, int]], list[int]]:
    """(node, seen) pairs and depths, by walking up."""
    see, depth = set(), [0]
    for node in range(len(parent) + 1):
        here, steps = node, 0
        see.add((node, here))
        while here:
            here = parent[here - 1]
            see.add((node, here))
            steps += 1
        if node:
            depth.append(steps)
    return see, depth


@pytest.mark.parametrize("parent", [[0], [0, 0, 1, 1, 2, 2], [0, 1, 1, 0, 4, 2], [0, 0, 0, 0]])
def test_see_depth_and_kids_follow_the_parents(parent: list[int]) -> None:
    shape = tree.of(torch.tensor([parent]))
    see, depth = brute_force(parent)
    assert {tuple(pair) for pair in shape.see[0].nonzero().tolist()} == see
    assert shape.depth[0].tolist() == depth
    assert shape.height == max(depth)
    for node in range(len(parent) + 1):
        assert [k for k in shape.kids[0, node].tolist() if k] == [i + 1 for i, p in enumerate(parent) if p == node]


def test_a_chain_is_recognised_and_equals_the_general_form() -> None:
    shape = tree.of(torch.arange(4).repeat(2, 1))
    assert shape.is_chain
    assert shape is tree.chain(4, torch.device("cpu"))
    see, depth = brute_force([0, 1, 2, 3])
    assert {tuple(pair) for pair in shape.see[0].nonzero().tolist()} == see
    assert shape.depth[0].tolist() == depth
    assert shape.kids[0, :, 0].tolist() == [1, 2, 3, 4, 0]


def test_an_empty_draft_is_a_chain_of_none() -> None:
    shape = tree.chain(0)
    assert (shape.size, shape.height, shape.kids.shape[2]) == (0, 0, 0)


@pytest.mark.parametrize("parent", [[1], [0, 2], [-1, 0]])
def test_children_before_their_parents_are_refused(parent: list[int]) -> None:
    with pytest.raises(ValueError, match="parents come first"):
        tree.of(torch.tensor([parent]))
