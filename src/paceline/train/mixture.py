"""Which scenes a step sees: fixed shares of the families, fresh scenes in order, grouped into even micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

from paceline.train.packing import Packed, PackedBatch, collate


@dataclass(frozen=True, slots=True)
class MixtureConfig:
    """Scenes a step, share of each family (any positive numbers), and how many padded tokens a micro-batch may hold."""

    shares: Mapping[str, float]
    scenes: Mapping[str, int]  # rendered scenes of each family; reading starts over after the last
    scenes_per_step: int = 16
    tokens_per_micro_batch: int = 3000

    def __post_init__(self) -> None:
        if not self.shares or min(self.shares.values()) <= 0:
            raise ValueError("shares must be positive and not empty")
        if missing := set(self.shares) - set(self.scenes):
            raise ValueError(f"scenes lacks {', '.join(sorted(missing))}")
        if self.scenes_per_step < 1 or self.tokens_per_micro_batch < 1:
            raise ValueError("scenes_per_step and tokens_per_micro_batch must be at least 1")


class Scenes(Protocol):
    """Where scenes come from by number."""

    def scene(self, task: str, index: int) -> Packed: ...


@dataclass(frozen=True, slots=True)
class Mixture:
    """A `Source` of packed batches: what step s holds depends on s alone; `skip` steps belong to an earlier stage."""

    scenes: Scenes
    config: MixtureConfig
    pad: int
    skip: int = 0

    def micro_batches(self, step: int) -> list[PackedBatch]:
        """Return the micro-batches of a step, each of scenes with equally many tiles and similar lengths."""
        drawn = [self.scenes.scene(task, index) for task, index in self.numbers(step)]
        drawn.sort(key=lambda scene: (len(scene.tiles), scene.length))
        batches = []
        for _, same in groupby(drawn, key=lambda scene: len(scene.tiles)):
            batches += [collate(group, self.pad) for group in split(list(same), self.config.tokens_per_micro_batch)]
        return batches

    def numbers(self, step: int) -> list[tuple[str, int]]:
        """Return (task, scene number) of everything in a step."""
        at, total, chosen = step + self.skip, sum(self.config.shares.values()), []
        for task, share in self.config.shares.items():
            rate = share / total * self.config.scenes_per_step
            for count in range(int(at * rate + 1e-9), int((at + 1) * rate + 1e-9)):
                chosen.append((task, count % self.config.scenes[task]))
        return chosen


def split(scenes: list[Packed], budget: int) -> list[list[Packed]]:
    """Cut scenes, sorted by length, into runs of at most `budget` padded tokens (a single scene may exceed it)."""
    runs: list[list[Packed]] = []
    for scene in scenes:
        if runs and scene.length * (len(runs[-1]) + 1) <= budget:
            runs[-1].append(scene)
        else:
            runs.append([scene])
    return runs
