"""The visual benchmark as one call: targets by task, captions, arms, the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.bench.meta import meta_of
from paceline.bench.visual.arms import WINDOWS, Arm, arms
from paceline.bench.visual.document import document
from paceline.bench.visual.measure import Cell, Step, measure
from paceline.bench.visual.prompts import PARTS, Caption, own, read
from paceline.errors import UsageError, unknown
from paceline.sampling import Sampling

TASKS = {"image": "tiny-image", "video": "tiny-video"}  # task -> the bundled target that it is measured on


@dataclass(frozen=True, slots=True)
class VisualPlan:
    """What is measured. `targets`: by task; a task with several frames is a clip's."""

    targets: Mapping[str, Any]
    methods: tuple[str, ...] = ("all",)
    windows: tuple[int, ...] = WINDOWS
    starts: tuple[str, ...] = ()  # empty: each layout's default
    guidance: float | None = None  # None: the checkpoint's own

    def arms(self, task: str) -> list[Arm]:
        """Who draws for a task."""
        target = self.targets[task]
        codebook = getattr(getattr(target, "plan", None), "codebook", None)
        return arms(self.methods, self.windows, self.starts, target.layout, codebook)

    def scale(self, task: str) -> float:
        """Guidance of a task."""
        return self.targets[task].defaults["guidance"] if self.guidance is None else self.guidance

    def drawings(self, captions: int, temperatures: int, task: str) -> int:
        """How often `step` will be called for a task."""
        return temperatures * captions * len(self.arms(task))


def task_names(wanted: Sequence[str]) -> list[str]:
    """The tasks of these names; "all" means each. Raises UsageError for an unknown one."""
    for name in wanted:
        if name != "all" and name not in TASKS:
            raise unknown("task of the suite visual", name, [*TASKS, "all"])
    return list(TASKS) if "all" in wanted or not wanted else list(dict.fromkeys(wanted))


def task_of(target: Any) -> str:
    """Which task a target serves, by its layout."""
    return "video" if target.layout.frames > 1 else "image"


def captions_of(target: Any, limit: int, prompts: Path | None) -> list[Caption]:
    """Captions of a file, or ours: half of them seen in training, half not, in turn."""
    if prompts is not None:
        return read(prompts, limit)
    both = [own(target.layout.frames, part, -(-limit // 2)) for part in PARTS]
    return [caption for pair in zip(*both, strict=True) for caption in pair][:limit]


def benchmark(
    plan: VisualPlan,
    captions: Mapping[str, Sequence[Caption]],
    samplings: Sequence[Sampling],
    *,
    step: Step = lambda arm, task, temperature: None,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Measure all tasks at all temperatures. captions: by task."""
    if not plan.targets:
        raise UsageError("nothing to measure: no target that draws")
    first = next(iter(plan.targets.values()))
    told = {
        "suite": "visual", "targets": {task: target.name or str(target.path) for task, target in plan.targets.items()},
        "windows": list(plan.windows), "temperatures": [s.temperature for s in samplings], **(settings or {}),
    }  # fmt: skip
    cells: list[Cell] = [
        measure(target, task, plan.arms(task), captions[task], sampling, plan.scale(task), step)
        for task, target in plan.targets.items()
        for sampling in samplings
    ]
    return document(cells, plan.targets, meta_of(first, told))
