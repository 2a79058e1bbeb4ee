"""A public benchmark: where its rows come from, what they must hold, and the question that a row asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paceline.bench.public.row import Picture, Row
from paceline.bench.public.scoring import Right, letters_of


@dataclass(frozen=True, slots=True)
class Question:
    """What a row asks, of no particular length yet."""

    prompt: str
    brief: str  # the sentence that asks for the short answer of the benchmark; empty: its own length
    pictures: tuple[Picture, ...]
    right: Right | None = None  # None: nobody can tell without a judge


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark's schema, as it is published, and its reading."""

    title: str
    hub: str  # id of the published table
    config: str | None
    splits: tuple[str, ...]  # the ones with answers first
    columns: tuple[str, ...]  # that every row must have
    parts: tuple[str, ...] | None  # of which each is a task; None: as the rows say
    part: Callable[[Row], str]
    question: Callable[[Row], Question]


LETTER = "Answer with the letter of the right choice alone."
PHRASE = "Answer with a single word, number or short phrase."


def choices_listed(choices: Sequence[str]) -> str:
    """The choices, one a line, lettered."""
    return "\n".join(f"{mark}. {choice}" for mark, choice in zip(letters_of(choices), choices, strict=True))
