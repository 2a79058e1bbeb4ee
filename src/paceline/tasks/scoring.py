"""Scores of an answer: exact match, and the share of its checkable items found in order."""

from __future__ import annotations

import re
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
    targets = [words(item) for item in items]
    # best[k] = earliest end position in the stream after k items were found
    best = [0]
    for target in targets:
        grown = list(best)
        for found, start in enumerate(best):
            end = _find(stream, target, start)
            if end is not None:
                if found + 1 == len(grown):
                    grown.append(end)
                else:
                    grown[found + 1] = min(grown[found + 1], end)
        best = grown
    return len(best) - 1


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


def _find(stream: Sequence[str], target: Sequence[str], start: int) -> int | None:
    for at in range(start, len(stream) - len(target) + 1):
        if list(stream[at : at + len(target)]) == list(target):
            return at + len(target)
    return None
