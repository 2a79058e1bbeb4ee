"""Wording: facts keep their items in the order of the text, sentences start with capitals."""

from __future__ import annotations

import random

import pytest

from paceline.tasks.wording import Wording, a, ask, capital, exchange, fact, glued, joined, number


def test_items_follow_the_order_of_the_template() -> None:
    made = exchange("x", Wording("Where is the {name}?", "at {place} the {name} is."), {
        "name": fact("dog"), "place": fact("top left")})  # fmt: skip
    assert (made.question, made.answer) == ("Where is the dog?", "At top left the dog is.")
    assert made.items == ("top left", "dog")


def test_plain_text_is_no_item() -> None:
    assert glued("{n} {name}", n=2, name=fact("dogs")).items == ("dogs",)


def test_joined_keeps_nested_items_and_the_last_separator() -> None:
    pairs = [glued("{n} {name}", n=fact(i), name=fact(name)) for i, name in ((1, "cat"), (2, "dogs"), (3, "cows"))]
    made = joined(pairs, ", ", " and ")
    assert made.text == "1 cat, 2 dogs and 3 cows"
    assert made.items == ("1", "cat", "2", "dogs", "3", "cows")
    assert joined(pairs[:1], ", ", " and ").text == "1 cat"


def test_a_missing_field_is_an_error() -> None:
    with pytest.raises(KeyError, match="place"):
        glued("{name} {place}", name="dog")


def test_capitals_after_every_sentence() -> None:
    assert capital("one dog. two cats? yes: three") == "One dog. Two cats? Yes: three"


def test_articles_and_numbers() -> None:
    assert (a("apple"), a("dog")) == ("an apple", "a dog")
    assert (number(0), number(20), number(21)) == ("zero", "twenty", "21")


def test_ask_takes_question_and_answer_from_one_wording() -> None:
    wordings = [Wording(f"Question {i}?", f"answer {i}.") for i in range(8)]
    seen = {(e.question[-2], e.answer[-2]) for e in (ask(random.Random(s), "x", wordings, {}) for s in range(100))}
    assert seen == {(str(i), str(i)) for i in range(8)}
