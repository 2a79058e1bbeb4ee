"""Answers that go through rows: a wording fixes row, separator and frame, the picture fills the fields."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.tasks.scene import Exchange
from paceline.tasks.wording import Fact, Wording, exchange, glued, joined

Fields = Mapping[str, Fact | str | int]


@dataclass(frozen=True, slots=True)
class Listing:
    """A question and how its answer goes through the rows; {rows} in `answer` is where they stand."""

    question: str
    row: str  # template of one row
    between: str  # separator of rows
    answer: str = "{rows}."
    last: str | None = None  # separator before the last row when it differs


def list_rows(
    rng: random.Random, kind: str, listings: Sequence[Listing], rows: Sequence[Fields], fields: Fields
) -> Exchange:
    """An exchange that lists the rows in one of the wordings; `fields` fill question and frame."""
    chosen = rng.choice(listings)
    body = joined((glued(chosen.row, **row) for row in rows), chosen.between, chosen.last)
    return exchange(kind, Wording(chosen.question, chosen.answer), {**fields, "rows": body})
