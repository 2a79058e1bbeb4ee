"""Lessons before joint training: first one kind of question, then the plain reading of every family, then everything.

With every kind of question from the start, answers stay a guess for hundreds of steps even behind perfect sight (the
loss of mmt rests at what its wording alone allows). Transcribing a picture asks for one look-up a word, always the
same, and is learned in about two hundred steps; what looks then serves the other kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from paceline.tasks import scene as draw_scene
from paceline.train.loop import LoopConfig
from paceline.train.mixture import MixtureConfig, Scenes
from paceline.train.packing import Packed


@dataclass(frozen=True, slots=True)
class LessonConfig:
    """Kinds of question by family, scenes a step, alignment tiles a step (0: the tower stands still), the loop."""

    name: str  # directory of the stage
    kinds: Mapping[str, tuple[str, ...]]
    scenes_per_step: int
    loop: LoopConfig
    tiles: int = 0

    def __post_init__(self) -> None:
        if self.scenes_per_step < 1 or self.tiles < 0 or not self.kinds or any(not k for k in self.kinds.values()):
            raise ValueError("scenes_per_step must be at least 1, tiles at least 0, and each family needs a kind")

    def mixture(self, whole: MixtureConfig) -> MixtureConfig:
        """The families of this lesson, in the proportions of the whole mixture and from its rendered scenes."""
        shares = {task: whole.shares[task] for task in self.kinds}
        scenes = {task: whole.scenes[task] for task in self.kinds}
        return MixtureConfig(shares, scenes, self.scenes_per_step, whole.tokens_per_micro_batch)


@dataclass(frozen=True, slots=True)
class Asked:
    """Rendered training scenes cut down to some kinds of question; a scene without any keeps all that it has."""

    scenes: Scenes
    kinds: Mapping[str, tuple[str, ...]]

    def scene(self, task: str, index: int) -> Packed:
        """The scene of this number with the branches of the chosen kinds."""
        packed, asked = self.scenes.scene(task, index), draw_scene(task, "train", index).exchanges
        pairs = zip(packed.branches, asked, strict=True)
        chosen = tuple(branch for branch, exchange in pairs if exchange.kind in self.kinds[task])
        return replace(packed, branches=chosen or packed.branches)
