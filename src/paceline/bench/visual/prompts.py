"""Captions to draw: our own by number, or lists in the formats of MS-COCO and PartiPrompts."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import UsageError
from paceline.pictures import captions, clips
from paceline.pictures.captions import Part

PARTS: tuple[Part, ...] = ("seen", "unseen")


@dataclass(frozen=True, slots=True)
class Caption:
    """What is to be drawn. `part`: seen or unseen in training, the list's own category, or empty."""

    text: str
    part: str = ""
    picture: str = ""  # file of the picture that people described, where the list names one


def own(frames: int, part: Part, count: int) -> list[Caption]:
    """Captions of held-out pictures (frames 1) or clips, always the same ones for a number."""
    words = clips.caption if frames > 1 else captions.caption
    return [Caption(words(part, index), part) for index in range(count)]


def read(path: Path, limit: int | None = None) -> list[Caption]:
    """The captions of a file, each once: .json as MS-COCO, .tsv as PartiPrompts, else one a line.

    Raises UsageError for a file that is missing, empty or of another shape.
    """
    if not path.is_file():
        raise UsageError(f"--prompts {path}: no such file")
    reader = {".json": _coco, ".tsv": _parti}.get(path.suffix.lower(), _lines)
    try:
        found = [caption for caption in reader(path) if caption.text]
    except UnicodeDecodeError:
        raise UsageError(f"--prompts {path} is not a text file in UTF-8") from None
    if not found:
        raise UsageError(f"--prompts {path} holds no captions")
    return found[:limit]


def _lines(path: Path) -> Iterable[Caption]:
    return (Caption(line.strip()) for line in path.read_text(encoding="utf-8").splitlines())


def _coco(path: Path) -> list[Caption]:
    """One caption a picture, the one with the lowest id, in the order of picture ids (`captions_val2017.json`)."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        files = {int(image["id"]): str(image["file_name"]) for image in document["images"]}
        notes: list[Any] = sorted(document["annotations"], key=lambda note: int(note["id"]))
        chosen = {int(note["image_id"]): str(note["caption"]) for note in reversed(notes)}
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--prompts {path}: not captions in the format of MS-COCO ({error!r})") from None
    return [Caption(" ".join(chosen[i].split()), "", files.get(i, "")) for i in sorted(chosen)]


def _parti(path: Path) -> list[Caption]:
    """Column "Prompt", with "Category" as the part (`PartiPrompts.tsv`)."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        if "Prompt" not in (rows.fieldnames or ()):
            raise UsageError(f"--prompts {path}: not in the format of PartiPrompts: no column 'Prompt'")
        return [Caption(row["Prompt"].strip(), (row.get("Category") or "").strip()) for row in rows]
