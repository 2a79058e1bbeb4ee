"""The calculation family: every equation written in an answer is true."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from paceline.tasks import math, scene


def equations(answer: str) -> list[str]:
    """All written equations of the answer with the names of things left out."""
    bare = re.sub(r"(?<![a-z])(?!x )[a-z][a-z-]*(?: trees?| bears?)? ?(?=\d)", "", answer.lower())
    bare = re.sub(r"(?<=\d) (?!x )[a-z-]+(?: trees?| bears?)?(?= [-+x/=])", "", bare)
    return re.findall(r"\d+(?: [-+x/] \d+)+ = \d+(?: [-+x/] \d+)*(?: = \d+)?", bare)


def true(equation: str) -> bool:
    """Whether all sides are equal."""
    values = {eval(side.replace("x", "*")) for side in equation.split("=")}  # digits and signs alone, by the pattern
    return len(values) == 1


def test_the_reader_sees_false_equations() -> None:
    assert equations("3 dogs + 2 pine trees = 6.") == ["3 + 2 = 6"]
    assert not true("3 + 2 = 6")
    assert true("2 x 3 + 4 = 6 + 4 = 10")


def test_written_equations_are_true() -> None:
    found = 0
    for index in range(250):
        for made in scene("math", "train", index).exchanges:
            if made.kind == "clock":
                continue
            lines = made.answer.replace(" / ", "; ") if "solved lines" in made.question else made.answer
            for equation in equations(lines):
                found += 1
                assert true(equation), made
    assert found > 500


@pytest.mark.parametrize("number", range(40))
def test_clock_times_are_as_far_apart_as_asked(number: int) -> None:
    _, exchanges = math._clock(random.Random(number), "seen")
    for made in exchanges:
        add, more = (int(text) for text in re.findall(r"\d+", made.question))
        minutes = {60 * int(h) + int(m) for h, m in re.findall(r"(\d+):(\d\d)", made.answer)}
        assert len(minutes) == 3
        assert any(
            {(now + later) % 720 for later in (0, add, more)} == {m % 720 for m in minutes} for now in minutes
        ), made


def test_one_thing_is_named_in_the_singular() -> None:
    for index in range(250):
        for made in scene("math", "train", index).exchanges:
            if made.kind == "sum":
                assert not re.search(r"(?<![\d+] )\b1 [a-z]+s\b(?<!ss)(?<!bus)(?<!octopus)(?<!cactus)", made.answer), (
                    made
                )


@pytest.mark.parametrize("puzzle", sorted(set(math.PUZZLES), key=lambda p: p.__name__), ids=lambda p: p.__name__)
def test_pictures_are_single_tiles_and_vary(puzzle: Callable[..., math.Drawn]) -> None:
    pictures = [puzzle(random.Random(i), "seen")[0] for i in range(10)]
    assert {picture.size for picture in pictures} == {(96, 96)}
    assert len({picture.tobytes() for picture in pictures}) == 10


def test_drawn_puzzles_do_not_count_as_held_out_material() -> None:
    for index in range(300):
        drawn = scene("math", "test", index)
        if drawn.exchanges[0].kind in ("clock", "rectangle", "row"):
            assert drawn.slice == "seen"
