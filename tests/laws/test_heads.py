"""Trees of ranks that are drawn keep the target's law only as long as each child is told the law that drew it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from laws.families import OTHER
from laws.test_decode import FREE, joint_law_pvalue
from paceline.couplings import Maximal
from paceline.drafters import method
from paceline.drafters.heads import ranks
from paceline.law import Law

N, CAUGHT = 10_000, 1e-6
pytestmark = pytest.mark.law


def pvalue(name: str) -> float:
    return joint_law_pvalue(method(name).tiny(OTHER), Maximal(), FREE, N)


def test_children_told_the_law_of_another_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    told = ranks._told

    def deeper(law: Law, at: Tensor, drawn: bool) -> Law | None:
        return told(law, (at + 1).clamp(max=law.shape[1] - 1), drawn)

    assert pvalue("medusa") > 1e-4
    monkeypatch.setattr(ranks, "_told", deeper)
    assert pvalue("medusa") < CAUGHT


def test_nodes_told_the_law_of_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = ranks.grown

    def same(given: Any, leaves: int, drawn: bool) -> Law | None:
        root = [given[0][:, torch.zeros(law.shape[1], dtype=torch.long)] for law in given]
        return grown(root, leaves, drawn)

    assert pvalue("hydra") > 1e-4
    monkeypatch.setattr(ranks, "grown", same)
    assert pvalue("hydra") < CAUGHT


def test_drawn_children_put_in_the_order_of_their_chances(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = ranks.choices

    def ordered(logits: Tensor, law: Law, width: int, rule: Any, dice: Any, drawn: bool) -> Tensor:
        picks = draw(logits, law, width, rule, dice, drawn)
        return picks.gather(-1, law.prob(picks).argsort(dim=-1, descending=True, stable=True))

    monkeypatch.setattr(ranks, "choices", ordered)
    assert pvalue("medusa") < CAUGHT
