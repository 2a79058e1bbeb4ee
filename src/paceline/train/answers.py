"""The target's own answers, generated once and kept: JSON lines that a killed run goes on from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paceline.answer import Row, follow, rule_of
from paceline.clock import Stopwatch
from paceline.core import Drafter
from paceline.errors import UsageError
from paceline.sampling import Sampling
from paceline.train import parallel
from paceline.train.questions import Group, Questions


@dataclass(frozen=True, slots=True)
class AnswerConfig:
    """How the target answers. Raises ValueError out of range."""

    max_new_tokens: int = 256
    temperature: float = 0.0
    together: int = 16  # prompts decoded side by side

    def __post_init__(self) -> None:
        if self.max_new_tokens < 2 or self.temperature < 0 or self.together < 1:
            raise ValueError("max_new_tokens must be 2 or more, temperature 0 or more, together 1 or more")


class Answers:
    """A file of answers of one target under one setting. Raises UsageError for a file that holds another's."""

    def __init__(self, path: Path, target: Any, config: AnswerConfig) -> None:
        self.path, self.target, self.config = path, target, config
        self.head = {"target": target.fingerprint(), "temperature": config.temperature, "max": config.max_new_tokens}
        self.known = dict(self._read())

    def _read(self) -> Iterator[tuple[str, list[list[int]]]]:
        if not self.path.is_file():
            return
        lines = self.path.read_text(encoding="utf-8").splitlines()
        if lines and json.loads(lines[0]) != json.loads(json.dumps(self.head)):
            raise UsageError(
                f"{self.path} holds answers of another target or setting: give another place, or remove it"
            )
        for line in lines[1:]:
            if line.endswith("}"):  # a kill may have cut the last one
                record = json.loads(line)
                yield record["name"], record["ids"]

    def ensure(self, questions: Questions, drafter: Drafter, show: Any = None) -> None:
        """Ask what has no answer yet. `drafter` changes the speed alone. show(done, all) is told after each stretch."""
        missing = [group for group in questions.groups if len(self.known.get(group.name, ())) < group.count]
        if missing and parallel.rank() == 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            _mend(self.path, self.head)
            with self.path.open("a", encoding="utf-8") as file:
                for done, part in _stretches(missing, self.config.together):
                    for group, ids in zip(part, self._asked(questions, part, drafter), strict=True):
                        self.known[group.name] = ids
                        file.write(json.dumps({"name": group.name, "ids": ids}) + "\n")
                    file.flush()
                    if show is not None:
                        show(done, len(missing))
        parallel.wait()
        if missing and parallel.rank():
            self.known = dict(self._read())

    def _asked(self, questions: Questions, groups: Sequence[Group], drafter: Drafter) -> list[list[list[int]]]:
        """The answers to each group's questions, decoded side by side."""
        config, target = self.config, self.target
        sampling = Sampling(temperature=config.temperature, max_new_tokens=config.max_new_tokens)
        asked = [(group, prompt) for group in groups for prompt in questions.prompts(group)]
        rows = [
            Row(target, prompt, sampling, _seed(f"{group.name}#{i}"), spelled=False)
            for i, (group, prompt) in enumerate(asked)
        ]
        for _ in follow(target, drafter, rows, rule_of(sampling), Stopwatch(target.device.type)):
            pass
        told = iter(rows)
        return [[next(told).tokens for _ in range(group.count)] for group in groups]

    def ids(self, group: Group) -> list[Tensor]:
        """The answers of a group, in the order of its questions."""
        return [torch.tensor(ids) for ids in self.known[group.name][: group.count]]

    def frequency(self, groups: Sequence[Group], vocab_size: int) -> Tensor:
        """[V]; how often each id stands in the answers of these groups."""
        every = [torch.tensor(ids) for group in groups for ids in self.known[group.name][: group.count]]
        return torch.bincount(torch.cat(every), minlength=vocab_size)


def _stretches(groups: Sequence[Group], together: int) -> Iterator[tuple[int, list[Group]]]:
    """Runs of groups with at most `together` questions (a single group may have more), and how many are then done."""
    part, size = list[Group](), 0
    for number, group in enumerate(groups):
        if part and size + group.count > together:
            yield number, part
            part, size = [], 0
        part.append(group)
        size += group.count
    yield len(groups), part


def _mend(path: Path, head: Mapping[str, Any]) -> None:
    """Begin the file, or end it on a whole line."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if not text:
        path.write_text(json.dumps(head) + "\n", encoding="utf-8")
    elif not text.endswith("\n"):
        path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")


def _seed(name: str) -> int:
    """A number that follows from the name alone, so that order and batch do not matter."""
    import hashlib

    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "big")
