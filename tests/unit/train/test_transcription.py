"""The stage that asks one kind of question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from paceline.tasks import scene
from paceline.train.loop import LoopConfig
from paceline.train.mixture import MixtureConfig
from paceline.train.packing import Packed
from paceline.train.scenes import Encoder
from paceline.train.transcription import TranscriptionConfig, Transcripts

LOOP = LoopConfig(steps=1, learning_rate=1e-3)


@dataclass(frozen=True)
class Drawn:
    """Scenes without a rendering on disk."""

    encoder: Encoder

    def scene(self, task: str, index: int) -> Packed:
        return self.encoder.encode(scene(task, "train", index))


def test_only_the_chosen_kinds_are_asked(processor: Any) -> None:
    encoder = Encoder(processor)
    shown = Transcripts(Drawn(encoder), {"mmt": ("list",)}).scene("mmt", 7)
    (asked,) = (exchange for exchange in scene("mmt", "train", 7).exchanges if exchange.kind == "list")
    assert [branch.ids.tolist() for branch in shown.branches] == [encoder.branch(asked).ids.tolist()]
    assert (shown.tiles == encoder.encode(scene("mmt", "train", 7)).tiles).all()


def test_a_scene_without_the_kind_gives_way_to_the_next(processor: Any) -> None:
    kinds = {"mmt": ("odd",)}
    lacking = next(i for i in range(99) if all(e.kind != "odd" for e in scene("mmt", "train", i).exchanges))
    found = Transcripts(Drawn(Encoder(processor)), kinds).scene("mmt", lacking)
    assert found.index > lacking
    assert len(found.branches) == 1


def test_each_family_has_the_same_share() -> None:
    stage = TranscriptionConfig({"mmt": ("list",), "seed": ("place",)}, 8, LOOP)
    mixture = stage.mixture(MixtureConfig({"mmt": 3, "seed": 1, "ocr": 1}, {"mmt": 30, "seed": 10, "ocr": 10}))
    assert (mixture.shares, mixture.scenes) == ({"mmt": 1, "seed": 1}, {"mmt": 30, "seed": 10})


@pytest.mark.parametrize(("kinds", "scenes"), [({"mmt": ()}, 4), ({"mmt": ("list",)}, 0)])
def test_a_stage_that_cannot_run_is_refused(kinds: dict[str, tuple[str, ...]], scenes: int) -> None:
    with pytest.raises(ValueError, match="scenes_per_step"):
        TranscriptionConfig(kinds, scenes, LOOP)
