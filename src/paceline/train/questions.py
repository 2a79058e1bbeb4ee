"""What a target is asked, so that drafters learn from its own answers: the suite by number, or prompts from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from paceline.core import Prompt
from paceline.errors import UsageError, unknown
from paceline.tasks import FAMILIES
from paceline.tasks import scene as draw_scene
from paceline.tasks.scene import Split

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """Questions about the same pictures, by number: equal for equal names, nothing drawn yet."""

    name: str  # "mmt/train/12", "prompts.jsonl/7"
    count: int  # questions


@dataclass(frozen=True, slots=True)
class QuestionConfig:
    """Scenes of each family of the suite, and a file of prompts: JSON lines with `messages` or `prompt`."""

    scenes: Mapping[str, int]
    exchanges: int = 3  # at most, of one scene
    file: Path | None = None
    limit: int = 0  # lines read of the file; 0: all

    def __post_init__(self) -> None:
        for task in self.scenes:
            if task not in FAMILIES:
                raise unknown("task", task, FAMILIES)
        if self.exchanges < 1 or self.limit < 0 or (not self.scenes and self.file is None):
            raise ValueError("exchanges must be 1 or more, limit 0 or more, and scenes or file must ask something")


class Questions:
    """Groups of questions of one split, and the prompts that a target makes of them."""

    def __init__(
        self, config: QuestionConfig, target: Any, split: Split, scenes: Mapping[str, int] | None = None
    ) -> None:
        self.config, self.target, self.split = config, target, split
        self.lines = _lines(config)
        self.groups = tuple(self._groups(config.scenes if scenes is None else scenes))
        self._messages = lru_cache(maxsize=64)(self._drawn)

    def _groups(self, scenes: Mapping[str, int]) -> Iterator[Group]:
        """The families take turns, so that every stretch holds all of them in their shares."""
        numbered = [
            ((index + 0.5) / count, task, index) for task, count in scenes.items() for index in range(count)
        ]  # fmt: skip
        for _, task, index in sorted(numbered):
            yield Group(f"{task}/{self.split}/{index}", min(self.config.exchanges, _exchanges(task)))
        held = {"train": lambda i: i % 20 < 18, "val": lambda i: i % 20 == 18, "test": lambda i: i % 20 == 19}
        for index in range(len(self.lines)):
            if held[self.split](index):
                yield Group(f"file/{self.split}/{index}", 1)

    def prompts(self, group: Group) -> list[Prompt]:
        """The questions of a group as the target reads them."""
        talks, edge = self._messages(group)
        return [self.target.encode(talk, longest_edge=edge) for talk in talks]

    def _drawn(self, group: Group) -> tuple[Sequence[Sequence[Message]], int | None]:
        task, split, index = group.name.split("/")
        if task == "file":
            return [self.lines[int(index)]], None
        drawn = draw_scene(task, split, int(index))  # type: ignore[arg-type]
        asked = [drawn.exchanges[(int(index) + i) % len(drawn.exchanges)] for i in range(group.count)]
        pictures = [{"type": "image", "image": image} for image in drawn.images]
        talks = [
            [{"role": "user", "content": [*pictures, {"type": "text", "text": exchange.question}]}]
            for exchange in asked
        ]  # fmt: skip
        return talks, drawn.longest_edge if drawn.images else None


def _exchanges(task: str) -> int:
    """How many questions a scene of this family has at least."""
    return min(len(draw_scene(task, "train", index).exchanges) for index in range(3))


def _lines(config: QuestionConfig) -> list[Sequence[Message]]:
    """The conversations of the file. Raises UsageError with the number of a line that is none."""
    if config.file is None:
        return []
    if not config.file.is_file():
        raise UsageError(f"no prompts at {config.file}")
    found: list[Sequence[Message]] = []
    for number, line in enumerate(config.file.read_text(encoding="utf-8").splitlines(), start=1):
        if config.limit and len(found) == config.limit:
            break
        try:
            record = json.loads(line)
            found.append(
                record["messages"] if "messages" in record else [{"role": "user", "content": record["prompt"]}]
            )
        except (ValueError, KeyError, TypeError):
            raise UsageError(
                f"{config.file}, line {number}: neither `messages` nor `prompt` in a JSON object"
            ) from None
    return found
