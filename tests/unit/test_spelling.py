"""Text as it comes: never a torn character, never a part of a stop string."""

from __future__ import annotations

import random

import pytest

from paceline.spelling import Text


def decode(ids: list[int]) -> str:
    """Bytes as tokens, as byte-level tokenizers spell."""
    return bytes(ids).decode("utf-8", errors="replace")


def spell(text: str, stops: tuple[str, ...] = (), seed: int = 0) -> tuple[list[str], str]:
    """The pieces shown when the bytes of a text come in random portions."""
    draw, data, out, pieces = random.Random(seed), list(text.encode()), Text(decode, stops), list[str]()
    stopped = False
    while data and not stopped:
        n = draw.randint(1, 3)
        for byte in data[:n]:
            stopped = out.push([byte])
            if stopped:
                break
        data = data[n:]
        pieces.append(out.show(final=stopped or not data))
    return pieces, out.shown


@pytest.mark.parametrize("seed", range(5))
def test_characters_come_whole(seed: int) -> None:
    text = "Zwölf Äpfel 🍎🍏 und 7 € — fertig ✓"
    pieces, shown = spell(text, seed=seed)
    assert "".join(pieces) == shown == text
    assert not any("\ufffd" in piece for piece in pieces)


def test_a_torn_end_is_shown_as_the_tokenizer_spells_it() -> None:
    out = Text(decode)
    out.push(list("né".encode())[:-1])
    assert (out.show(final=False), out.show(final=True)) == ("n", "\ufffd")


@pytest.mark.parametrize("seed", range(5))
def test_nothing_of_a_stop_string_is_shown(seed: int) -> None:
    pieces, shown = spell("one STOP two", ("STOP", "two"), seed)
    assert "".join(pieces) == shown == "one "


@pytest.mark.parametrize("seed", range(5))
def test_a_beginning_that_goes_on_otherwise_is_shown_after_all(seed: int) -> None:
    text = "STO STOP STOPPER"
    assert spell(text, ("STOPPED", "STOPPING"), seed)[1] == text


def test_a_stop_string_over_a_torn_character() -> None:
    assert spell("abc🍎def", ("c🍎d",))[1] == "ab"
