"""The models that ship with the package: names to directories, nothing loaded.

`targets/NAME/` holds a target, `targets/NAME/drafters/METHOD/` a drafter trained on it; all in Hugging Face format.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paceline.errors import unknown

ROOT = Path(__file__).parent / "targets"
WEIGHTS = "model.safetensors"


@dataclass(frozen=True, slots=True)
class Record:
    """One bundled model as `paceline models` lists it; `target` is the model that a drafter drafts for."""

    name: str
    kind: Literal["target", "drafter"]
    path: Path
    parameters: int
    license: str
    target: str | None = None


def targets(root: Path = ROOT) -> dict[str, Path]:
    """Bundled targets, name to directory."""
    return _models(root)


def drafters(target: str, root: Path = ROOT) -> dict[str, Path]:
    """Bundled drafters of a bundled target, name to directory; empty for a target that is not bundled."""
    return _models(root / target / "drafters") if target in targets(root) else {}


def target(name: str, root: Path = ROOT) -> Path:
    """The directory of a bundled target; UsageError offers the nearest name."""
    found = targets(root)
    if name not in found:
        raise unknown("target", name, found)
    return found[name]


def records(root: Path = ROOT) -> list[Record]:
    """All bundled models, each target followed by its drafters."""
    return list(_records(root))


def _records(root: Path) -> Iterator[Record]:
    for name, path in targets(root).items():
        yield Record(name, "target", path, parameters(path), _license(path))
        for method, where in drafters(name, root).items():
            yield Record(method, "drafter", where, parameters(where), _license(where), target=name)


def parameters(directory: Path) -> int:
    """How many numbers the weights of a directory hold, read from the file's header alone."""
    with (directory / WEIGHTS).open("rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")


def _models(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        return {}
    return {path.name: path for path in sorted(folder.iterdir()) if (path / WEIGHTS).is_file()}


def _license(directory: Path) -> str:
    record = directory / "paceline.json"
    return json.loads(record.read_text(encoding="utf-8")).get("license", "") if record.is_file() else ""
