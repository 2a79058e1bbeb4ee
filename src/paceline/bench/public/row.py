"""One row of somebody's data: values by column, checked when read; what is wrong is named with its place."""

from __future__ import annotations

import base64
import binascii
import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import UsageError

Picture = Any  # a PIL image, or the path of one as text
LEAST_BASE64 = 64  # characters; what is shorter is taken for a file's name


@dataclass(frozen=True, slots=True)
class Row:
    """Values of a row. Every reading raises UsageError that names place, column, what is there and what is expected."""

    values: Mapping[str, Any]
    where: str  # file and line or row, for errors
    home: Path | None = None  # directory that pictures are named from; None: they are in the row

    def require(self, columns: Sequence[str], whose: str) -> None:
        """Raise UsageError unless all these columns are there."""
        missing = [name for name in columns if name not in self.values]
        if missing:
            near = difflib.get_close_matches(missing[0], self.values, n=1, cutoff=0.5)
            hint = f"; is it {near[0]!r}?" if near else ""
            raise UsageError(
                f"{self.where}: no column {missing[0]!r}{hint} ({whose} has {', '.join(columns)}; "
                f"this row has {', '.join(self.values) or 'none'})"
            )

    def text(self, column: str) -> str:
        """A text that is not empty."""
        found = self.values.get(column)
        if not isinstance(found, str) or not found.strip():
            raise self._wrong(column, "text")
        return found.strip()

    def maybe(self, column: str) -> str:
        """A text, empty where the row has none."""
        return "" if self.values.get(column) in (None, "") else self.text(column)

    def texts(self, column: str, least: int = 1) -> list[str]:
        """A list of texts, at least so many."""
        found = self.values.get(column)
        if not isinstance(found, list) or len(found) < least or not all(isinstance(part, str) for part in found):
            raise self._wrong(column, f"a list of {least} texts or more")
        return found

    def among(self, column: str, allowed: Sequence[str]) -> str:
        """One of these texts."""
        found = self.text(column)
        if found not in allowed:
            raise self._wrong(column, f"one of {', '.join(allowed)}")
        return found

    def index(self, column: str, count: int) -> int:
        """A whole number from 0 on, below `count`."""
        found = self.values.get(column)
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < count:
            raise self._wrong(column, f"a whole number from 0 to {count - 1}")
        return found

    def number(self, column: str) -> float | None:
        """A number, None where the row has none."""
        found = self.values.get(column)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise self._wrong(column, "a number")
        return float(found)

    def pictures(self, column: str) -> tuple[Picture, ...]:
        """The pictures of a column, one or a list: PIL images, encoded bytes, base64 text, or files below `home`."""
        found = self.values.get(column)
        several = found if isinstance(found, list) else [found]
        if not several or any(part is None for part in several):
            raise self._wrong(column, "a picture, or a list of pictures")
        return tuple(self._picture(column, part) for part in several)

    def _picture(self, column: str, found: Any) -> Picture:
        from PIL import Image

        from paceline.hf.pictures import decode_picture, inline

        if isinstance(found, Image.Image):
            return found
        if isinstance(found, dict) and found.get("bytes") is None and isinstance(found.get("path"), str):
            found = found["path"]
        data = found.get("bytes") if isinstance(found, dict) else found
        name = f"{self.where}: column {column!r}"
        if isinstance(data, bytes):
            return decode_picture(data, name)
        if isinstance(data, str) and data.startswith("data:"):
            return decode_picture(inline(data), name)
        if isinstance(data, str) and (file := self._file(data)):
            return str(file)
        if isinstance(data, str) and len(data) >= LEAST_BASE64 and re.fullmatch(r"[A-Za-z0-9+/\s]+=*\s*", data):
            return decode_picture(_unpacked(data, name), name)
        raise self._wrong(column, f"a picture{f' below {self.home}' if self.home else ''}")

    def _file(self, name: str) -> Path | None:
        """The file of this name in the row's home or its `images`; only inside of it."""
        if self.home is None or len(name) > 500:
            return None
        root = self.home.resolve()
        found = [(root / folder / name).resolve() for folder in (".", "images")]
        return next((path for path in found if path.is_relative_to(root) and path.is_file()), None)

    def _wrong(self, column: str, expected: str) -> UsageError:
        if column not in self.values:
            return UsageError(f"{self.where}: no column {column!r}; expected {expected}")
        return UsageError(f"{self.where}: column {column!r} is {self.values[column]!r:.80}; expected {expected}")


def _unpacked(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=False)
    except (binascii.Error, ValueError):
        raise UsageError(f"{name} holds no valid base64") from None
