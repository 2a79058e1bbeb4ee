"""The long family: every cell is told once (twice in tables), in the order asked for."""

from __future__ import annotations

import random

import pytest

from paceline.tasks import long, scene
from paceline.tasks.ngram import plain_tokens


def told_cells(items: tuple[str, ...]) -> list[frozenset[str]]:
    return [frozenset(three) for three in zip(items[::3], items[1::3], items[2::3], strict=True)]


def test_a_grid_tells_36_cells_of_three_facts() -> None:
    for i in range(20):
        _, made = long._grid(random.Random(i), "seen")
        assert len(told_cells(made.items)) == 36
        assert all(any(item in long.COLORS for item in cell) for cell in told_cells(made.items))


def test_orders_permute_the_same_cells() -> None:
    grid = long._cells(random.Random(0), "seen")
    rows, columns, bottom, right = (
        [cell for line in long._arranged(grid, order) for cell in line] for order in long.ORDERS
    )
    assert len({id(cell) for cell in rows}) == 36
    assert columns == [rows[6 * i + j] for j in range(6) for i in range(6)]
    assert bottom == [rows[6 * i + j] for i in range(5, -1, -1) for j in range(6)]
    assert right == [rows[6 * i + j] for i in range(6) for j in range(5, -1, -1)]


def test_the_order_is_that_of_the_question() -> None:
    for i in range(40):
        made = long._grid(random.Random(i), "seen")[1]
        grid = long._cells(random.Random(i), "seen")
        clause = next(order for order in reversed(long.ORDERS) if made.question.endswith(order))
        expected = [
            frozenset((c.sprite.concept.name, c.color, str(c.digit)))
            for line in long._arranged(grid, clause)
            for c in line
        ]
        assert told_cells(made.items) == expected


@pytest.mark.parametrize("number", range(12))
def test_a_table_tells_every_value_by_row_and_by_column(number: int) -> None:
    _, made = long._table(random.Random(number), "seen")
    numbers = [item for item in made.items if item.isdigit()]
    rows, columns = numbers[:20], numbers[20:]
    assert columns == [rows[4 * i + j] for j in range(4) for i in range(5)]


def test_answers_are_long() -> None:
    lengths = [len(plain_tokens(scene("long", "train", i).exchanges[0].answer)) for i in range(60)]
    assert min(lengths) >= 165
    assert sorted(lengths)[30] >= 200
    assert max(lengths) <= 400
