"""Scores: what counts as found, and that order and words matter."""

from __future__ import annotations

import pytest

from paceline.tasks.scoring import exact, item_accuracy, items_found, score


@pytest.mark.parametrize(
    ("answer", "items", "found"),
    [
        ("Two dogs and one cat.", ("two", "dogs", "one", "cat"), 4),
        ("One cat and two dogs.", ("two", "dogs", "one", "cat"), 2),  # order matters: only one pair fits
        ("Two dogs.", ("two", "dog"), 1),  # whole words
        ("A pine tree top left", ("pine tree", "top left"), 2),
        ("A pine, a tree", ("pine tree",), 0),
        ("It is 10:20.", ("10:20",), 1),
        ("3 and 4", ("3", "4", "5"), 2),
        ("5 3 4", ("3", "4", "5"), 2),
        ("dog", ("dog", "dog"), 1),  # no item is found twice in one place
        ("", ("dog",), 0),
        ("-3 degrees", ("3",), 1),
    ],
)
def test_items_are_found_in_order(answer: str, items: tuple[str, ...], found: int) -> None:
    assert items_found(answer, items) == found


def test_a_missing_first_item_does_not_hide_the_rest() -> None:
    assert items_found("cat then bird then cow", ("dog", "cat", "bird", "cow")) == 3


def test_a_wrong_early_match_does_not_swallow_the_rest() -> None:
    # greedy matching of "left" at the end would lose everything after it
    assert items_found("top dog, cat, left", ("left", "dog", "cat")) == 2


def test_exact_ignores_case_and_white_space_alone() -> None:
    assert exact("A  dog.", "a dog.")
    assert not exact("A dog", "a dog.")


def test_score_averages_over_answers() -> None:
    result = score([("a dog.", "A dog.", ("dog",)), ("a cat.", "A dog and a cat.", ("dog", "cat"))])
    assert (result.answers, result.exact, result.items) == (2, 0.5, 0.75)


def test_nothing_to_score_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing to score"):
        score([])


def test_an_answer_without_items_counts_as_found() -> None:
    assert item_accuracy("anything", ()) == 1.0
