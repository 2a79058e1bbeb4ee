"""The bundled tables: chemical elements, and countries with life expectancy, people and income by year."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from paceline.tasks.scene import Slice, Split

ASSETS = Path(__file__).parent / "assets"
TEST_YEARS = (1962, 1987, 2007)  # rows of these years are drawn in test (and 1972 in val) alone
VAL_YEARS = (1972,)
UNSEEN_COUNTRIES = ("Togo", "Oman", "Haiti", "Chile", "Kenya", "Gambia", "Serbia", "Taiwan")
UNSEEN_ELEMENTS = ("boron", "argon", "nickel", "xenon", "platinum", "chromium")


@dataclass(frozen=True, slots=True)
class Element:
    """A chemical element; `mass` is its rounded atomic mass, `state` its state at room temperature."""

    number: int
    symbol: str
    name: str
    mass: int
    state: str


@dataclass(frozen=True, slots=True)
class Row:
    """A country in a year: life expectancy in years, people in millions, income in thousand dollars a head."""

    country: str
    year: int
    life: int
    people: int
    income: int


@cache
def elements(part: Slice) -> tuple[Element, ...]:
    """Elements that a scene of this slice may show; held-out ones for "new" alone."""
    with open(ASSETS / "elements.csv", encoding="utf8") as file:
        rows = list(csv.DictReader(file))
    every = [Element(int(r["number"]), r["symbol"], r["name"], int(r["mass"]), r["state"]) for r in rows]
    return tuple(e for e in every if part == "new" or e.name not in UNSEEN_ELEMENTS)


@cache
def countries(split: Split, part: Slice) -> dict[int, tuple[Row, ...]]:
    """Rows by year that a scene may chart; val and test have their own years, "new" its own countries too."""
    years = {"train": None, "val": VAL_YEARS, "test": TEST_YEARS}[split]
    table: dict[int, list[Row]] = {}
    with open(ASSETS / "countries.csv", encoding="utf8") as file:
        for r in csv.DictReader(file):
            row = Row(r["country"], int(r["year"]), int(r["life"]), int(r["people"]), int(r["income"]))
            drawn = row.year in years if years else row.year not in VAL_YEARS + TEST_YEARS
            if drawn and (part == "new" or row.country not in UNSEEN_COUNTRIES):
                table.setdefault(row.year, []).append(row)
    return {year: tuple(rows) for year, rows in table.items()}


@cache
def glosses(split: Split) -> tuple[str, ...]:
    """Everyday noun glosses of WordNet, 6 to 11 words each; every split has its own."""
    every = _gloss_file()["everyday"]
    return tuple(g for i, g in enumerate(every) if {0: "test", 4: "val"}.get(i % 8, "train") == split)


@cache
def definitions() -> dict[str, str]:
    """WordNet gloss by concept name, for the concepts that have a short one."""
    return dict(_gloss_file()["concepts"])


@cache
def _gloss_file() -> dict[str, Any]:
    return json.loads((ASSETS / "glosses.json").read_text(encoding="utf8"))
