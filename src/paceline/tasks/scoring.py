"""Scores of an answer: exact match, and the share of its checkable items found in order."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_WORD = re.compile(r"[a-z0-9]+(?:[.'-][a-z0-9]+)*|[^\sa-z0-9]")


def words(text: str) -> list[str]:
    """Lower-case words, numbers and punctuation marks of a text."""
    return _WORD.findall(text.lower())


def exact(answer: str, expected: str) -> bool:
    """Whether the answer equals the expected one up to letter case and white space."""
    return answer.lower().split() == expected.lower().split()


def items_found(answer: str, items: Sequence[str]) -> int:
    """How many items occur in the answer as whole words, in order and without overlap (at most)."""
    stream = words(answer)
    ends = [0]  # ends[k]: the earliest place in the stream where k items can have been found
    for item in items:
        target = words(item)
        places = [at for at in range(len(stream) - len(target) + 1) if stream[at : at + len(target)] == target]
        for found in range(len(ends) - 1, -1, -1):
            next_place = bisect_left(places, ends[found])
            if next_place == len(places):
                continue
            end = places[next_place] + len(target)
            if found + 1 == len(ends):
                ends.append(end)
            else:
                ends[found + 1] = min(ends[found + 1], end)
    return len(ends) - 1


def item_accuracy(answer: str, items: Sequence[str]) -> float:
    """Share of the items found in order; 1.0 when there are none to find."""
    return items_found(answer, items) / len(items) if items else 1.0


@dataclass(frozen=True, slots=True)
class Score:
    """Means over the answers of one family."""

    answers: int
    exact: float  # share of answers equal to the expected one
    items: float  # mean per-item accuracy


def score(results: Iterable[tuple[str, str, Sequence[str]]]) -> Score:
    """Scores (answer, expected answer, items) triples; an empty input raises ValueError."""
    rows = [(exact(answer, expected), item_accuracy(answer, items)) for answer, expected, items in results]
    if not rows:
        raise ValueError("nothing to score: give at least one (answer, expected, items) triple")
    return Score(len(rows), sum(hit for hit, _ in rows) / len(rows), sum(share for _, share in rows) / len(rows))
