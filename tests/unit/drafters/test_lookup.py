"""Prompt lookup against a slow reading of its rule."""

from __future__ import annotations

import random

import pytest

from paceline.drafters.free.lookup import Lookup, Text


def slow(tokens: list[int], how: Lookup) -> list[int]:
    """What followed the latest earlier occurrence of the longest suffix that occurs earlier."""
    for n in range(min(how.longest, len(tokens)), how.shortest - 1, -1):
        for at in range(len(tokens) - n - 1, -1, -1):
            if tokens[at : at + n] == tokens[len(tokens) - n :]:
                return tokens[at + n : at + n + how.guesses]
    return []


@pytest.mark.parametrize("how", [Lookup(), Lookup(guesses=2, longest=1), Lookup(longest=4, shortest=2)])
def test_the_index_finds_what_a_slow_search_finds(how: Lookup) -> None:
    draw = random.Random(1)
    for _ in range(60):
        text, tokens = Text(how), list[int]()
        for _ in range(12):
            more = [draw.randrange(4) for _ in range(draw.randint(1, 4))]
            text.extend(more)
            tokens += more
            assert text.guess() == slow(tokens, how)


@pytest.mark.parametrize("bad", [{"guesses": 0}, {"shortest": 0}, {"shortest": 3, "longest": 2}])
def test_empty_ranges_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="lookup needs"):
        Lookup(**bad)
