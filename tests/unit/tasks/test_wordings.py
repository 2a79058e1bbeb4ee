"""The law of the suite: picture and question fix the answer, in at least eight wordings a kind."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import pytest

from paceline.tasks import math, mmt, scene, seed
from paceline.tasks.scene import Exchange

DRAWS = 600


def contradictions(exchanges: Iterable[Exchange]) -> dict[str, set[str]]:
    """Questions with more than one answer."""
    answers: dict[str, set[str]] = defaultdict(set)
    for made in exchanges:
        answers[made.question].add(made.answer)
    return {question: told for question, told in answers.items() if len(told) > 1}


def all_draws(kinds: Sequence[Callable[..., Exchange]], shown: object) -> list[Exchange]:
    return [kind(random.Random(f"{kind.__name__}/{i}"), shown) for kind in kinds for i in range(DRAWS)]


@pytest.mark.parametrize("number", range(4))
def test_a_grid_and_a_question_have_one_answer(number: int) -> None:
    grid = mmt._odd_grid(random.Random(number), "seen") if number % 2 else mmt._grid(random.Random(number), "seen")
    kinds = [kind for kind in mmt.KINDS if grid.odd or kind is not mmt._odd]
    made = all_draws(kinds, grid)
    assert len({e.question for e in made}) > 100
    assert contradictions(made) == {}


@pytest.mark.parametrize("number", range(3))
def test_a_clip_and_a_question_have_one_answer(number: int) -> None:
    made = all_draws(seed.CLIP_KINDS, seed._clip(random.Random(number), "seen"))
    assert len({e.question for e in made}) > 60
    assert contradictions(made) == {}


@pytest.mark.parametrize("number", range(3))
def test_an_album_and_a_question_have_one_answer(number: int) -> None:
    made = all_draws(seed.ALBUM_KINDS, seed._album(random.Random(number), "seen"))
    assert len({e.question for e in made}) > 100
    assert contradictions(made) == {}


@pytest.mark.parametrize("puzzle", sorted(set(math.PUZZLES), key=lambda p: p.__name__), ids=lambda p: p.__name__)
def test_a_calculation_and_a_question_have_one_answer(puzzle: Callable[..., math.Drawn]) -> None:
    told: dict[tuple[bytes, str], set[str]] = defaultdict(set)
    wordings: dict[str, set[str]] = defaultdict(set)
    for i in range(250):
        picture, exchanges = puzzle(random.Random(i), "seen")
        for made in exchanges:
            told[picture.tobytes(), made.question].add(made.answer)
            wordings[made.kind].add(made.question)
    assert all(len(answers) == 1 for answers in told.values())
    assert all(len(questions) >= 8 for questions in wordings.values())


def test_the_check_sees_a_contradiction() -> None:
    made = [Exchange("x", "Where?", "Here.", ()), Exchange("x", "Where?", "There.", ())]
    assert contradictions(made) == {"Where?": {"Here.", "There."}}


@pytest.mark.parametrize("task", ["mmt", "seed"])
def test_every_kind_has_eight_wordings(task: str) -> None:
    openings: dict[str, set[str]] = defaultdict(set)
    for index in range(500):
        for made in scene(task, "train", index).exchanges:
            openings[made.kind].add(" ".join(made.question.split()[:3]))
    assert len(openings) >= 8
    assert all(len(starts) >= 6 for starts in openings.values()), openings


def test_the_plain_question_is_asked_and_answered_in_one_form() -> None:
    answers = [
        e.answer
        for i in range(400)
        for e in scene("mmt", "train", i).exchanges
        if e.question == "List everything in the picture."
    ]
    assert len(answers) >= 10
    assert all(" and " in answer and answer.endswith(".") for answer in answers)
