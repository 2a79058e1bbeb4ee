"""The fields of a request's body, read one by one: each is honoured, or refused by name."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from typing import Any

from paceline.serve.refusal import Refusal, bad, nearest


def parse(body: bytes) -> Mapping[str, Any]:
    """The JSON object in a body. Raises Refusal 400 for anything else, NaN and infinities included."""
    try:
        document = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is not valid JSON: {str(error)[:200]}", code="invalid_json") from None
    if not isinstance(document, dict):
        raise Refusal(400, f"the body must be a JSON object, not {_kind(document)}", code="invalid_json")
    return document


class Fields:
    """A JSON object that remembers which of its fields somebody asked for. null counts as absent."""

    def __init__(self, document: Mapping[str, Any], where: str = "") -> None:
        self.document, self.where = document, where
        self._known = set[str]()

    def path(self, name: str) -> str:
        """The field's name as errors call it."""
        return f"{self.where}.{name}" if self.where else name

    def get(self, name: str) -> Any:
        """The field as it is, None if absent."""
        self._known.add(name)
        return self.document.get(name)

    def refuse(self, name: str, fine: Collection[Any], why: str) -> None:
        """Take the field only where it asks for nothing: absent, or one of these values. Raises Refusal."""
        value = self.get(name)
        if value is not None and not any(type(value) is type(each) and value == each for each in fine):
            raise bad(self.path(name), f"{self.path(name)} is not supported: {why}", "unsupported_parameter")

    def number(self, name: str, default: float, low: float, high: float, *, above: bool = False) -> float:
        """A number in [low, high], or in (low, high]. Raises Refusal."""
        value = self.get(name)
        if value is None:
            return default
        fine = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        if not fine or not (low < value if above else low <= value) or value > high:
            allowed = f"a number in {'(' if above else '['}{low:g}, {high:g}]"
            raise bad(self.path(name), f"{self.path(name)} must be {allowed}, not {_shown(value)}")
        return float(value)

    def integer(self, name: str, default: int | None, low: int, high: int) -> int | None:
        """An integer in [low, high]. Raises Refusal."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            allowed = f"an integer in [{low}, {high}]"
            raise bad(self.path(name), f"{self.path(name)} must be {allowed}, not {_shown(value)}")
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """true or false. Raises Refusal."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise bad(self.path(name), f"{self.path(name)} must be true or false, not {_shown(value)}")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A string. Raises Refusal; without a default also where it is absent."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise bad(self.path(name), f"{self.path(name)} must be a string, not {_shown(value)}")
        return value

    def choice(self, name: str, default: str, allowed: Collection[str]) -> str:
        """One of these strings. Raises Refusal."""
        value = self.text(name, default)
        if value not in allowed:
            known = ", ".join(map(repr, allowed))
            raise bad(self.path(name), f"{self.path(name)} must be one of {known}, not {_shown(value)}")
        return value

    def finish(self) -> None:
        """Raise Refusal for a field that nobody asked for."""
        for name in self.document:
            if name not in self._known:
                hint = nearest(name, self._known)
                where = f" in {self.where}" if self.where else ""
                raise bad(self.path(name), f"unknown field {name[:80]!r}{where}{hint}", "unknown_parameter")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _shown(value: Any) -> str:
    return _kind(value) if isinstance(value, dict | list) else f"{json.dumps(value)[:60]}"
