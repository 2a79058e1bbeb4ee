"""Drafters by name: a method that needs no weights, a bundled drafter, a path, a hub id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paceline.core import Drafter
from paceline.drafters import METHODS, method
from paceline.errors import unknown


def load_drafter(name: str | Path | Drafter, target: Any, **options: Any) -> Drafter:
    """A drafter for this target; `options` are the fields of its class, such as `guesses`.

    A directory is read by the method that its `paceline.json` names, else as a small language model. One that is built
    already comes back as it is. Raises UsageError for an unknown name or a drafter of another vocabulary.
    """
    if not isinstance(name, str | Path):
        return name
    free = {known: kind for known in METHODS if not (kind := method(known)).trained}
    if str(name) in free:
        return free[str(name)](**options)
    path = _directory(str(name), target, free)
    return method(_method_of(path)).load(path, target, lambda where: _like(target, where), **options)


def _directory(name: str, target: Any, free: dict[str, Any]) -> Path:
    from paceline import zoo

    bundled = zoo.drafters(target.name) if target.name else {}
    if name in bundled:
        return bundled[name]
    if Path(name).is_dir() or name.count("/") == 1:
        return Path(name)
    raise unknown("drafter", name, [*free, *bundled])


def _method_of(path: Path) -> str:
    record = path / "paceline.json"
    return json.loads(record.read_text(encoding="utf-8"))["method"] if record.is_file() else "lm"


def _like(target: Any, where: Path) -> Any:
    """A model opened with the target's device and precision."""
    from paceline.targets import load_target

    return load_target(str(where), device=str(target.device), dtype=target.dtype)
