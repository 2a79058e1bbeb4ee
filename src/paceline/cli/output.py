"""What a command writes: one JSON document or text to stdout, all else to stderr, files whole or not at all."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.errors import UsageError


def plain(value: Any) -> Any:
    """The value with what JSON lacks replaced: numbers that are not finite become null, tuples lists, paths text."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def to_json(document: Any) -> str:
    """The document as indented JSON without NaN, ending in a newline."""
    return json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def emit(document: Any) -> None:
    """Write one JSON document to stdout."""
    sys.stdout.write(to_json(document))
    sys.stdout.flush()


def writable(path: Path | None) -> None:
    """Raise UsageError now rather than after the work when this file cannot be written later."""
    if path is None:
        return
    if path.is_dir():
        raise UsageError(f"--output {path} is a directory; give a file")
    if not path.parent.is_dir():
        raise UsageError(f"--output {path}: there is no directory {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"--output {path}: {path.parent} cannot be written to")


def write_whole(path: Path, text: str) -> None:
    """Put the text in place in one step: a reader, or an interruption, sees the old file or the new one."""
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".writing")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
