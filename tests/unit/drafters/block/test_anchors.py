"""What blocks are taught, by worked indices and by the published numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from paceline.conditioning import Rows
from paceline.drafters.block import anchors as block
from paceline.drafters.lesson import Lesson
from unit.drafters.heads.replay import TARGET


def lesson(owner: list[int], labels: list[int], ids: list[int]) -> Lesson:
    """One conversation with these rows; prompt and own branch in view."""
    own, place = torch.tensor([owner]), torch.arange(len(ids))[None]
    rows = Rows(torch.tensor([ids]), place, own >= 0, own < 0, torch.zeros(1, len(ids), 4))
    see = ((own[:, :, None] == own[:, None, :]) | (own == 0)[:, None, :]) & torch.ones(len(ids), len(ids)).tril().bool()
    return Lesson("toy", rows, see, own, torch.tensor([labels]), {}, TARGET.shared)


#      row     0  1  2  3  4  5  6  7  8  9
OWNER = [0, 0, 1, 1, 1, 1, 2, 2, 2, -1]
IDS = [7, 7, 8, 1, 2, 3, 8, 4, 5, 0]  # question tokens are 8, answers 1 2 3 and 4 5, the latter cut before its end
LABELS = [-1, -1, 1, 2, 3, -1, 4, 5, -1, -1]
TOY = lesson(OWNER, LABELS, IDS)


def test_rows_behind_an_anchor_are_those_whose_labels_it_guesses() -> None:
    anchors = torch.tensor([[3, 4, 7, -1]])
    rows = block.rows_behind(TOY, anchors, 3)
    assert rows.tolist() == [[[3, 4, -1], [4, -1, -1], [7, -1, -1], [-1, -1, -1]]]
    assert block.at_rows(TOY.labels, rows).tolist() == [[[2, 3, -1], [3, -1, -1], [5, -1, -1], [-1, -1, -1]]]


def test_anchors_are_answer_tokens_with_a_successor() -> None:
    """Rows 3, 4 and 7: the question's last tokens 2 and 6 precede the answer, rows 5 and 8 end what is taught."""
    for count, most in ((8, 3), (2, 2)):
        seen = set[tuple[int, ...]]()
        for seed in range(40):
            found = block.draw_anchors(TOY, count, torch.Generator().manual_seed(seed))[0].tolist()
            assert found == sorted(set(found))
            assert len(found) == most
            seen.add(tuple(found))
        assert seen == ({(3, 4, 7)} if most == 3 else {(3, 4), (3, 7), (4, 7)})


def test_anchors_follow_the_generator_and_pad() -> None:
    none = replace(TOY, labels=torch.full_like(TOY.labels, -1))
    assert block.draw_anchors(none, 4, torch.Generator()).tolist() == [[-1]]
    both = replace(
        TOY, labels=torch.cat([TOY.labels, none.labels]), owner=TOY.owner.repeat(2, 1), see=TOY.see.repeat(2, 1, 1)
    )
    assert block.draw_anchors(both, 4, torch.Generator().manual_seed(1)).tolist() == [[3, 4, 7], [-1, -1, -1]]
    draws = [block.draw_anchors(TOY, 2, torch.Generator().manual_seed(5)) for _ in range(2)]
    assert draws[0].equal(draws[1])


def test_a_block_sees_the_rows_before_its_anchor_and_itself() -> None:
    """Not the anchor, which the target has not read; no other branch; no other block."""
    mask = block.behind(TOY.see, torch.tensor([[3, 7]]), 2)[0, 0]
    first, second = [0, 1, 2], [0, 1, 6]
    wanted = torch.zeros(4, 10 + 4, dtype=torch.bool)
    wanted[:2, [*first, 10, 11]] = True
    wanted[2:, [*second, 12, 13]] = True
    assert mask.equal(wanted)


@pytest.mark.parametrize(("places", "decay", "total"), [(15, 7, 6.63), (9, 5, 4.605), (7, 4, 3.735)])
def test_places_weigh_what_is_published(places: int, decay: float, total: float) -> None:
    found = block.weights(places, decay)
    assert found.tolist() == pytest.approx([math.exp(-k / decay) for k in range(places)])
    assert float(found.sum()) == pytest.approx(total, abs=0.005)


def test_shares_of_a_block_add_up_over_what_is_asked() -> None:
    asked = torch.tensor([[[True, True, False], [True, True, True], [False, False, False]]])
    found = block.shares(asked, 4.0)
    assert found.sum(-1)[0].tolist() == pytest.approx([1, 1, 0])
    assert float(found[0, 0, 1] / found[0, 0, 0]) == pytest.approx(math.exp(-1 / 4))


def test_runs_count_what_is_right_in_a_row() -> None:
    labels = torch.tensor([[[1, 2, 3], [1, 2, -1], [0, -1, -1]]])
    said = torch.tensor([1, 0, 3, 1, 2, 2])
    logits: Any = torch.nn.functional.one_hot(said, 4).double()
    assert block.runs(logits, labels) == {"first": 2.0, "run": 3.0}
