"""The taxonomy: published methods as records with orthogonal fields, read from `methods.toml` and checked."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from paceline.errors import UsageError, unknown
from paceline.taxonomy.record import AXES, Axes, Claim, Conditioning, Method, build
from paceline.taxonomy.rules import faults, faults_between

__all__ = ["AXES", "Claim", "Conditioning", "Method", "axes", "find", "methods", "read", "select"]

SOURCE = Path(__file__).with_name("methods.toml")
UNKNOWN = "unknown"  # selects what is not known on an axis


def read(tables: Mapping[str, Any]) -> tuple[Method, ...]:
    """The records of a parsed file, checked one by one and beside each other. Raises UsageError that names the first
    record at fault and all that is wrong with it.
    """
    found = tuple(build(table) for table in tables["method"])
    for method in found:
        wrong = list(faults(method, tables["axes"]))
        if wrong:
            raise UsageError(f"the method {method.name!r}: {'; '.join(wrong)}")
    for fault in faults_between(found):
        raise UsageError(fault)
    return found


@cache
def _tables() -> Mapping[str, Any]:
    return tomllib.loads(SOURCE.read_text(encoding="utf-8"))


def axes() -> Axes:
    """Axis -> word -> what it means, as the file tells."""
    return _tables()["axes"]


@cache
def methods() -> tuple[Method, ...]:
    """All records, in the order of the file."""
    return read(_tables())


def find(name: str) -> Method:
    """The record of this name. Raises UsageError for an unknown one, with the nearest."""
    known = {method.name: method for method in methods()}
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise UsageError(f"unknown method {name!r}{hint} (paceline methods lists all {len(known)})")
    return known[name]


def select(chosen: Iterable[Method], where: Mapping[str, Sequence[str]], *, runnable: bool = False) -> list[Method]:
    """The records that have, on each axis of `where`, one of its words; "unknown" stands for what is not known.

    Raises UsageError for an axis or a word that there is not, with the nearest.
    """
    for axis, words in where.items():
        if axis not in AXES:
            raise unknown("axis", axis, AXES)
        for word in words:
            if word not in axes()[axis] and word != UNKNOWN:
                raise unknown(axis.replace("_", " "), word, [*axes()[axis], UNKNOWN])
    return [
        method
        for method in chosen
        if all(set(method.words(axis) or (UNKNOWN,)) & set(words) for axis, words in where.items())
        and (method.runnable or not runnable)
    ]
