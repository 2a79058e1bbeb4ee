"""The grid family: answers are checked against the grid by readers that share no code with the writers."""

from __future__ import annotations

import random
import re

import pytest

from paceline.tasks import mmt
from paceline.tasks.material import background

GRIDS = [mmt._grid(random.Random(i), "seen") for i in range(40)]


def cell_of(place: str) -> int:
    """Cell number of a place name of either scheme."""
    if place in ("center", "very center"):
        return 4
    first, second = place.split()
    row = {"top": 0, "upper": 0, "bottom": 2, "lower": 2}.get(first, 1)
    column = {"left": 0, "right": 2}.get(second, 1)
    return 3 * row + column


def test_both_schemes_name_nine_places() -> None:
    assert [cell_of(place) for place in mmt.PLACES] == list(range(9))
    assert [cell_of(place) for place in mmt.UPPER] == list(range(9))


@pytest.mark.parametrize("grid", GRIDS[:15])
def test_a_list_names_every_thing_at_its_place_in_reading_order(grid: mmt.Grid) -> None:
    expected = [part for cell, concept in grid.filled() for part in (concept.name, cell)]
    for i in range(40):
        made = mmt._list(random.Random(i), grid)
        read: list[str | int] = []
        first, second = made.items[::2], made.items[1::2]
        for one, two in zip(first, second, strict=True):
            name, place = (two, one) if one in (*mmt.PLACES, *mmt.UPPER) else (one, two)
            read += [re.sub("^an? ", "", name), cell_of(place)]
        assert read == expected, made


@pytest.mark.parametrize("grid", GRIDS[:15])
def test_counts_agree_with_the_cells_and_with_the_noun(grid: mmt.Grid) -> None:
    number_of = {c.name: len(grid.where(c)) for _, c in grid.filled()}
    singular = {c.plural: c.name for _, c in grid.filled()}
    words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight")
    for i in range(40):
        made = mmt._count(random.Random(i), grid)
        names = [item for item in made.items if item in number_of or item in singular]
        numbers = [words.index(item) for item in made.items if item in words]
        assert numbers == [number_of[singular.get(name, name)] for name in names], made
        for name, number in zip(names, numbers, strict=True):
            assert name in (number_of if number == 1 else singular), made


@pytest.mark.parametrize("grid", GRIDS)
def test_a_path_leads_from_stop_to_stop(grid: mmt.Grid) -> None:
    at = {c.name: divmod(cells[0], 3) for _, c in grid.filled() if len(cells := grid.where(c)) == 1}
    ways = {"down": (1, 0), "up": (-1, 0), "right": (0, 1), "left": (0, -1)}
    for i in range(15):
        made = mmt._path(random.Random(i), grid)
        if made.kind != "path":
            continue
        found = {name: re.search(rf"\bthe {name}\b", made.question) for name in at}
        start, *stops = sorted((m.start(), name) for name, m in found.items() if m)
        row, column = at[start[1]]
        items = made.items if made.items[-1] in at else made.items[::-1]  # the name may come before its moves
        legs: list[list[str]] = [[]]
        for item in items:
            legs[-1].append(item)
            if item in at:
                legs.append([])
        for leg, (_, stop) in zip(legs[:-1] if items is made.items else legs[-2::-1], stops, strict=True):
            for number, way in (move.split() for move in leg[:-1]):
                row += ("zero", "one", "two").index(number) * ways[way][0]
                column += ("zero", "one", "two").index(number) * ways[way][1]
            assert (leg[-1], row, column) == (stop, *at[stop]), made


@pytest.mark.parametrize("number", range(25))
def test_the_odd_one_is_of_another_category_than_all_others(number: int) -> None:
    grid = mmt._odd_grid(random.Random(number), "seen")
    assert grid.odd is not None
    rest = {c.category for _, c in grid.filled() if c != grid.odd.concept}
    assert len(rest) == 1
    assert grid.odd.concept.category not in rest
    assert grid.odd.concept.name in mmt._odd(random.Random(number), grid).items


@pytest.mark.parametrize("grid", GRIDS[:15])
def test_the_picture_shows_things_in_the_filled_cells_alone(grid: mmt.Grid) -> None:
    picture, ground = mmt._paint(random.Random(0), grid), background(grid.color, 96, 96)
    for cell in range(9):
        box = (cell % 3 * 32, cell // 3 * 32, cell % 3 * 32 + 32, cell // 3 * 32 + 32)
        drawn = picture.crop(box).tobytes() != ground.crop(box).tobytes()
        assert drawn == (grid.cells[cell] is not None)


def test_lines_read_the_cells_that_they_name() -> None:
    rows = {"top": (0, 1, 2), "middle": (3, 4, 5), "bottom": (6, 7, 8)}
    columns = {"left": (0, 3, 6), "middle": (1, 4, 7), "right": (2, 5, 8)}
    diagonals = {"first": (0, 4, 8), "second": (2, 4, 6)}
    grid, checked = GRIDS[0], 0
    for i in range(300):
        made = mmt._lines(random.Random(i), grid)
        if not made.question.startswith("Copy"):
            continue
        step = -1 if "backward" in made.question else 1
        expected: list[str] = []
        for which, line in re.findall(r"the (\w+) (row|column|diagonal)", made.question):
            cells = {"row": rows, "column": columns, "diagonal": diagonals}[line][which]
            expected += [grid.name(cell) for cell in cells[::step]]
        assert list(made.items) == expected
        checked += 1
    assert checked > 20
