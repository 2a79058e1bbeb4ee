"""Errors that the user can mend: one line that says what was given, what is allowed and the nearest match."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(ValueError):
    """Bad input. The command line prints it as one line and exits with 2."""


def unknown(what: str, given: str, allowed: Iterable[str]) -> UsageError:
    """The error for a name outside a table, with the nearest name where one is near."""
    names = sorted(allowed)
    near = difflib.get_close_matches(given, names, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return UsageError(f"unknown {what} {given!r}{hint} (known: {', '.join(names) or 'none'})")
