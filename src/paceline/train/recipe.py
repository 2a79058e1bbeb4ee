"""Reads a TOML recipe into frozen dataclasses; refuses what it does not know and offers the nearest name."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from paceline.errors import UsageError

T = TypeVar("T")


class RecipeError(UsageError):
    """A recipe that cannot be used; the message is one line for the user."""


def nearest(name: str, allowed: typing.Iterable[str]) -> str:
    """Return " (did you mean 'x'?)" for the closest allowed name, or an empty string."""
    matches = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.5)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


def load(path: Path, kind: type[T], changes: Sequence[str] = ()) -> T:
    """Read `path` as a recipe of dataclass `kind`; RecipeError names the file, the key and the nearest match.

    changes: "key=value" with a dotted key and a TOML value, such as "loop.steps=100" or "drafters.0.rate=0.5".
    """
    if not path.is_file():
        raise RecipeError(f"no recipe at {path}")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: not valid TOML: {error}") from error
    try:
        for change in changes:
            _change(table, change)
        return build(kind, table, where="")
    except RecipeError as error:
        raise RecipeError(f"{path}: {error}") from error


def _change(table: dict[str, Any], change: str) -> None:
    """Set one key of the table; tables on the way are made, places of lists are numbers."""
    key, equals, text = change.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"{change!r} is no change: write key=value")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string
    *way, last = key.strip().split(".")
    here: Any = table
    for step in way:
        here = _item(here, step, key) if isinstance(here, list) else here.setdefault(step, {})
        if not isinstance(here, dict | list):
            raise RecipeError(f"{key}: {step} is no table")
    if isinstance(here, list):
        here[_number(here, last, key)] = value
    else:
        here[last] = value


def _item(items: list[Any], step: str, key: str) -> Any:
    return items[_number(items, step, key)]


def _number(items: list[Any], step: str, key: str) -> int:
    if not step.isdecimal() or int(step) >= len(items):
        raise RecipeError(f"{key}: {step} is none of the {len(items)} places 0 to {len(items) - 1}")
    return int(step)


def build(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """Return dataclass `kind` filled from `table`; `where` is the dotted path used in messages."""
    fields = {field.name: field for field in dataclasses.fields(typing.cast(Any, kind)) if field.init}
    hints = typing.get_type_hints(kind)
    for key in table:
        if key not in fields:
            raise RecipeError(f"unknown key {where}{key}{nearest(key, fields)}")
    values = {key: _convert(hints[key], value, f"{where}{key}") for key, value in table.items()}
    missing = [name for name, field in fields.items() if name not in values and _required(field)]
    if missing:
        raise RecipeError(f"missing key {where}{missing[0]}")
    try:
        return kind(**values)
    except RecipeError:
        raise
    except ValueError as error:
        raise RecipeError(f"{where.rstrip('.') or kind.__name__}: {error}") from error


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _convert(hint: Any, value: Any, where: str) -> Any:
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise RecipeError(f"{where} must be a table")
        return build(typing.cast(type[Any], hint), value, where + ".")
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        if value not in args:
            raise RecipeError(
                f"{where} = {value!r}: allowed are {', '.join(map(str, args))}{nearest(str(value), args)}"
            )
        return value
    if origin is tuple:
        if not isinstance(value, list):
            raise RecipeError(f"{where} must be a list")
        inner = args[0] if len(args) == 2 and args[1] is Ellipsis else None
        return tuple(_convert(inner or args[i], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin in (dict, Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        if not isinstance(value, Mapping):
            raise RecipeError(f"{where} must be a table")
        return {key: _convert(args[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin in (typing.Union, types.UnionType):
        return _convert(next(arg for arg in args if arg is not type(None)), value, where)
    return _scalar(hint, value, where)


def _scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Path and isinstance(value, str):
        return Path(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise RecipeError(f"{where} = {value!r}: must be {hint.__name__}")
    return value
