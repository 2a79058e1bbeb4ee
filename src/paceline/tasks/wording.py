"""Wordings: paired question and answer templates, so that the wording of an answer follows from its question alone.

Fields are written {name}; a field's value is plain text or a `Fact` that carries the checkable items inside the text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from paceline.tasks.scene import Exchange

NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_FIELD = re.compile(r"\{(\w+)\}")
_SENTENCE = re.compile(r"(^|[.?!] +)([a-z])")


@dataclass(frozen=True, slots=True)
class Fact:
    """Text to insert and the items in it that the scorer looks for, in order of appearance."""

    text: str
    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wording:
    """A question template and the one answer template that belongs to it."""

    question: str
    answer: str


def fact(text: str | int) -> Fact:
    """A fact that is one item as a whole."""
    return Fact(str(text), (str(text),))


def joined(facts: Iterable[Fact | str], separator: str = ", ", last: str | None = None) -> Fact:
    """Facts in a row; `last` stands before the final one when it differs from the others."""
    parts = [part if isinstance(part, Fact) else Fact(part, ()) for part in facts]
    texts = [part.text for part in parts]
    text = separator.join(texts) if last is None or len(texts) < 2 else separator.join(texts[:-1]) + last + texts[-1]
    return Fact(text, tuple(item for part in parts for item in part.items))


def glued(template: str, **fields: Fact | str | int) -> Fact:
    """One fact out of a template and smaller facts."""
    items: list[str] = []

    def insert(match: re.Match[str]) -> str:
        value = fields[match[1]]
        if isinstance(value, Fact):
            items.extend(value.items)
            return value.text
        return str(value)

    return Fact(_FIELD.sub(insert, template), tuple(items))


def capital(text: str) -> str:
    """The text with a capital letter at the start of every sentence."""
    return _SENTENCE.sub(lambda match: match[1] + match[2].upper(), text)


def ask(rng: random.Random, kind: str, wordings: Sequence[Wording], fields: Mapping[str, Fact | str | int]) -> Exchange:
    """An exchange in one of the wordings; the answer's items are those of the facts that it inserts."""
    return exchange(kind, rng.choice(wordings), fields)


def exchange(kind: str, wording: Wording, fields: Mapping[str, Fact | str | int]) -> Exchange:
    """An exchange in this wording."""
    question, answer = glued(wording.question, **fields), glued(wording.answer, **fields)
    return Exchange(kind, capital(question.text), capital(answer.text), answer.items)


def a(name: str) -> str:
    """The name with its indefinite article."""
    return ("an " if name[0].lower() in "aeiou" else "a ") + name


def number(value: int) -> str:
    """The number in words up to twenty, in digits beyond."""
    return NUMBERS[value] if 0 <= value < len(NUMBERS) else str(value)
