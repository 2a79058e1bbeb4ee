"""How an answer looks on a terminal: accepted drafts in colour, then one line of measures."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from paceline.answer import Piece

GUESSED = "bold green underline"  # also told apart without colour
OWN = ""


class Screen:
    """Text goes to stdout as it comes, all about it to stderr. `silent`: stdout belongs to a JSON document."""

    def __init__(self, *, quiet: bool = False, silent: bool = False) -> None:
        self.quiet, self.silent = quiet, silent
        self.text = Console(highlight=False, soft_wrap=True)
        self.notes = Console(stderr=True, highlight=False, soft_wrap=True)

    def piece(self, piece: Piece, guessed: str, own: str) -> None:
        """Print what one round added."""
        end = "\n" if piece.finished else ""
        if self.text.is_terminal and not self.silent:
            self.text.print(Text.assemble((harmless(guessed), GUESSED), (harmless(own), OWN)), end=end)
        elif not self.silent:
            sys.stdout.write(piece.text + end)
            sys.stdout.flush()

    def summary(self, record: Mapping[str, Any]) -> None:
        """Print the legend and the measures of a document of `answering.document`."""
        if self.quiet or self.silent:
            return
        self.notes.print()
        if self.text.is_terminal:
            self.notes.print(Text.assemble(("guessed by the drafter", GUESSED), "  written by the target itself"))
        self.notes.print(measures(record))


def harmless(text: str) -> str:
    """The text without what would steer a terminal: a model may say anything."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")


def measures(record: Mapping[str, Any]) -> Text:
    """One line: tokens a round, speed, and whether the text is plain decoding's."""
    line = Text.assemble(
        ("τ ", "dim"), (f"{record['tau']:.2f}", "bold"),
        f" ({_count(record['rounds'], 'round')}, {_count(record['n_tokens'], 'token')})",
    )  # fmt: skip
    if record["tokens_per_s"] is not None:
        line.append(f" · {record['tokens_per_s']:.0f} tokens/s")
    if "identical" in record:
        line.append(f" · {record['speedup_decode']:.2f}× over plain decoding")
        line.append(f" ({record['speedup_e2e']:.2f}× end to end)", "dim")
        line.append(" · identical: ")
        line.append(*verdict(record))
    return line


def verdict(record: Mapping[str, Any]) -> tuple[str, str]:
    """(word, style) for "is this the text of plain decoding"."""
    if record["identical"]:
        return "yes", "bold green"
    if record["faults"]:
        return "no (fault: please report it)", "bold red"
    return "no (a tie: two tokens within rounding error of each other)", "bold yellow"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
