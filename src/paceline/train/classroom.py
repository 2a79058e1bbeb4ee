"""Several drafters, one pass of the frozen target: the batches they learn from and the sum of their losses."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from paceline.drafters.directory import Trained
from paceline.train import parallel
from paceline.train.loop import Outcome
from paceline.train.taps import Talk, Taps, lesson

Read = Callable[[Sequence[int]], Taps]  # numbers of talks -> their taps


@dataclass(frozen=True, slots=True)
class PackConfig:
    """How talks make a step. Raises ValueError below 1."""

    talks_per_step: int = 16
    rows_per_micro_batch: int = 2000  # padded tokens; a talk of more stands alone

    def __post_init__(self) -> None:
        if min(self.talks_per_step, self.rows_per_micro_batch) < 1:
            raise ValueError("talks_per_step and rows_per_micro_batch must be 1 or more")


@dataclass(frozen=True, slots=True)
class Batch:
    """Talks by number; read only when they are learnt."""

    name: str
    numbers: tuple[int, ...]
    seed: int  # of whatever the losses draw


class TalkSource:
    """A `Source` over all talks, shuffled anew each time around: a function of (seed, step), shared among processes."""

    def __init__(self, talk: Callable[[int], Talk], count: int, config: PackConfig, seed: int) -> None:
        self.count, self.config, self.seed = count, config, seed
        self._talk = talk
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, epoch: int) -> list[int]:
        order = list(range(self.count))
        random.Random(f"{self.seed}/{epoch}").shuffle(order)
        return order

    def micro_batches(self, step: int) -> list[Batch]:
        """Talks of like length together; this process's share of them."""
        first = step * self.config.talks_per_step
        chosen = [
            self._order(i // self.count)[i % self.count] for i in range(first, first + self.config.talks_per_step)
        ]
        mine = chosen[parallel.rank() :: parallel.world()]
        rows = {number: self._talk(number).rows for number in mine}
        runs: list[list[int]] = []
        for number in sorted(mine, key=lambda i: (rows[i], i)):
            if runs and rows[number] * (len(runs[-1]) + 1) <= self.config.rows_per_micro_batch:
                runs[-1].append(number)
            else:
                runs.append([number])
        return [
            Batch("; ".join(self._talk(n).name for n in run), tuple(run), hash_of(self.seed, step, run[0]))
            for run in runs
        ]


def hash_of(*numbers: int) -> int:
    """A seed that follows from these numbers alone."""
    return random.Random("/".join(map(str, numbers))).getrandbits(62)


class Classroom:
    """The objective of all drafters together: each learns its own lesson from the same taps.

    Losses are brought to the common count of answer tokens, so that a drafter learns the same alone and in company.
    """

    def __init__(self, drafters: Mapping[str, Trained], read: Read) -> None:
        self.drafters, self.read = dict(drafters), read
        self.nets = nn.ModuleDict({name: drafter.net for name, drafter in self.drafters.items()})

    def __call__(self, model: nn.Module, batch: Batch) -> Outcome:
        """Loss summed over the answer tokens of the batch, of all drafters; sums are named NAME/what."""
        taps = self.read(batch.numbers)
        terms = int((taps.labels >= 0).sum())
        total, sums, fault = torch.zeros(()), dict[str, float](), ""
        for name, drafter in self.drafters.items():
            generator = torch.Generator().manual_seed(batch.seed)
            loss = drafter.loss(lesson(taps, drafter), generator)
            scale = terms / max(loss.terms, 1)
            value = loss.value.float().cpu() * scale
            total = total + value
            if not fault and not torch.isfinite(value):
                fault = f"drafter {name!r}"
            sums[f"{name}/loss"] = value.item()
            sums |= {f"{name}/{key}": amount * scale for key, amount in loss.sums.items()}
        return Outcome(total, terms, sums, fault)


def freeze(target: Any) -> None:
    """No gradients for a target that the trainer has opened for itself."""
    target.model.requires_grad_(False)
