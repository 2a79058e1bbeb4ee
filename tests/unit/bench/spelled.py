"""A target of exact answers that the benchmark can ask: tokens are letters, texts are read off a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from laws.families import TABLE
from paceline.bench.arms import Ours
from paceline.bench.traffic import Ask, message
from paceline.core import Drafter, Prompt
from paceline.targets.table import TableTarget

LETTERS = "abcd"


@dataclass(frozen=True)
class Spelled(TableTarget):
    """Reads the letters of a message; what else an arm asks of a target is constant."""

    end_ids: tuple[int, ...] = ()
    max_length: int = 1000

    @property
    def device(self) -> torch.device:
        return self.table.device

    @property
    def dtype(self) -> torch.dtype:
        return self.table.dtype

    @property
    def model(self) -> torch.nn.Module:
        return torch.nn.Embedding.from_pretrained(self.table.flatten(0, 1))

    def encode(self, messages: Sequence[Any], *, longest_edge: int | None = None) -> Prompt:
        text = messages[0]["content"][-1]["text"]
        return Prompt(torch.tensor([LETTERS.index(c) for c in text]))

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(LETTERS[i] for i in ids)

    def astype(self, dtype: torch.dtype) -> Spelled:
        return Spelled(self.table.to(dtype), self.end_ids, self.max_length)


TARGET = Spelled(TABLE)


def asks(*texts: str, task: str = "mmt") -> list[Ask]:
    """One question a text; a right answer holds the letter a."""
    return [Ask(task, message(text, ()), items=("a",)) for text in texts]


def ours(name: str, drafter: Drafter, coupling: str = "gumbel") -> Ours:
    """An arm over the table target."""
    return Ours(name, TARGET, drafter, coupling)
