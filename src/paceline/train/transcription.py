"""One kind of question first: a language model learns where to look from a single dense task, then all others follow.

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
class TranscriptionConfig:
    """Kinds of question by family (none: the stage is left out), scenes a step, and the loop."""

    kinds: Mapping[str, tuple[str, ...]]
    scenes_per_step: int
    loop: LoopConfig

    def __post_init__(self) -> None:
        if self.scenes_per_step < 1 or any(not kinds for kinds in self.kinds.values()):
            raise ValueError("scenes_per_step must be at least 1, and each family needs at least one kind")

    def mixture(self, whole: MixtureConfig) -> MixtureConfig:
        """Even shares of the families, over the scenes that are rendered for the mixture of all."""
        scenes = {task: whole.scenes[task] for task in self.kinds}
        return MixtureConfig(dict.fromkeys(scenes, 1.0), scenes, self.scenes_per_step, whole.tokens_per_micro_batch)


@dataclass(frozen=True, slots=True)
class Transcripts:
    """Rendered training scenes cut down to the kinds of question of the stage."""

    scenes: Scenes
    kinds: Mapping[str, tuple[str, ...]]

    def scene(self, task: str, index: int) -> Packed:
        """The scene of this number, or the next one that offers such a question."""
        while True:
            packed, asked = self.scenes.scene(task, index), draw_scene(task, "train", index).exchanges
            pairs = zip(packed.branches, asked, strict=True)
            chosen = tuple(branch for branch, exchange in pairs if exchange.kind in self.kinds[task])
            if chosen:
                return replace(packed, branches=chosen)
            index += 1
