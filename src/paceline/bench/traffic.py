"""What is asked: the suites, or a user's own prompts and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.errors import UsageError, unknown
from paceline.tasks import FAMILIES, SIX
from paceline.tasks.scoring import item_accuracy

PICTURES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
SUITES = ("m6", "text")
OWN = "own"  # the task name of a user's prompts


@dataclass(frozen=True, slots=True)
class Ask:
    """One question to a target."""

    task: str
    messages: tuple[dict[str, Any], ...]  # OpenAI-style
    longest_edge: int | None = None  # pixels; None: the checkpoint's own choice
    items: tuple[str, ...] | None = None  # facts that a right answer holds, in order; None: nobody knows
    right: Callable[[str], float] | None = None  # another rule for the score of an answer, in place of items

    @property
    def pictures(self) -> int:
        """How many pictures the messages hold."""
        parts = [part for message in self.messages for part in message["content"]]
        return sum(part["type"] != "text" for part in parts)

    def score(self, text: str) -> float | None:
        """Share of the expected facts that the answer holds, or what `right` says; None without expectations."""
        if self.right is not None:
            return self.right(text)
        return None if self.items is None else item_accuracy(text, self.items)


def message(prompt: str, pictures: Sequence[object]) -> tuple[dict[str, Any], ...]:
    """One user message, pictures first."""
    parts = [{"type": "image", "image": str(p) if isinstance(p, Path) else p} for p in pictures]
    return ({"role": "user", "content": [*parts, {"type": "text", "text": prompt}]},)


def tasks_of(suite: str, wanted: Sequence[str]) -> list[str]:
    """The tasks of a suite; "all" means each. Raises UsageError for an unknown suite or task."""
    if suite not in SUITES:
        raise unknown("suite", suite, (*SUITES, "visual"))
    offered = list(FAMILIES) if suite == "m6" else list(_texts())
    for task in wanted:
        if task != "all" and task not in offered:
            raise unknown(f"task of the suite {suite}", task, [*offered, "all"])
    return offered if "all" in wanted or not wanted else list(dict.fromkeys(wanted))


def in_geomean(suite: str, task: str) -> bool:
    """Whether a task counts in the geometric mean: six of M6, all of any other traffic."""
    return suite != "m6" or task in SIX


def asks_of(suite: str, task: str, limit: int, longest_edge: int | None = None) -> list[Ask]:
    """The first `limit` questions of a task of a suite, always the same ones. longest_edge: None: the task's own."""
    if suite == "text":
        texts = _texts()[task]
        if limit > len(texts):
            raise UsageError(f"the task {task} of the suite text has {len(texts)} prompts; --limit is {limit}")
        return [Ask(task, message(text, ())) for text in texts[:limit]]
    from paceline.tasks import prompts

    return [
        Ask(task, message(s.exchange.question, s.images), longest_edge or s.longest_edge, tuple(s.exchange.items))
        for s in prompts(task, "test", limit)
    ]


def _texts() -> dict[str, list[str]]:
    where = Path(__file__).with_name("text_suite.json")
    return json.loads(where.read_text(encoding="utf-8"))


def own_asks(prompts: Path, images: Path | None, limit: int | None, longest_edge: int | None) -> list[Ask]:
    """A user's questions. Raises UsageError for a file that is missing, empty or of another shape.

    A text file holds one prompt a line; with a directory of pictures, line i goes with picture i in the order of
    names, the shorter list starting over. A .jsonl file holds objects with "prompt", "images" (names in the
    directory, a list or one) and optionally "items" (facts that a right answer names, in order).
    """
    if not prompts.is_file():
        raise UsageError(f"--prompts {prompts}: no such file")
    try:
        lines = [line.strip() for line in prompts.read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise UsageError(f"--prompts {prompts} is not a text file in UTF-8") from None
    if not lines:
        raise UsageError(f"--prompts {prompts} is empty")
    if images is not None and not images.is_dir():
        raise UsageError(f"--images {images}: no such directory")
    told = prompts.suffix == ".jsonl"
    asks = [_told(line, i, images, longest_edge) for i, line in enumerate(lines, 1)] if told else None
    return (asks or _paired(lines, images, longest_edge))[:limit]


def _paired(lines: list[str], images: Path | None, longest_edge: int | None) -> list[Ask]:
    if images is None:
        return [Ask(OWN, message(line, ())) for line in lines]
    found = sorted(path for path in images.iterdir() if path.suffix.lower() in PICTURES)
    if not found:
        raise UsageError(f"--images {images} holds no picture ({', '.join(PICTURES)})")
    count = max(len(lines), len(found))
    pairs = [(lines[i % len(lines)], found[i % len(found)]) for i in range(count)]
    return [Ask(OWN, message(line, [picture]), longest_edge) for line, picture in pairs]


def _told(line: str, number: int, images: Path | None, longest_edge: int | None) -> Ask:
    try:
        record = json.loads(line)
    except ValueError:
        raise UsageError(f"--prompts: line {number} is not JSON") from None
    if not isinstance(record, dict) or not isinstance(record.get("prompt"), str):
        raise UsageError(f'--prompts: line {number} has no "prompt"')
    names = record.get("images", [])
    names = [names] if isinstance(names, str) else names
    if names and images is None:
        raise UsageError(f"--prompts: line {number} names pictures; say with --images where they are")
    pictures = [(images or Path()) / str(name) for name in names]
    missing = [path for path in pictures if not path.is_file()]
    if missing:
        raise UsageError(f"--prompts: line {number}: no picture {missing[0]}")
    items = record.get("items")
    return Ask(
        OWN, message(record["prompt"], pictures), longest_edge, None if items is None else tuple(map(str, items))
    )
