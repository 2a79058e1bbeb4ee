"""Lessons ask the chosen kinds of question, from the rendered scenes of the whole mixture."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from paceline.tasks import scene
from paceline.train.lessons import Asked, LessonConfig
from paceline.train.loop import LoopConfig
from paceline.train.mixture import MixtureConfig
from paceline.train.packing import Packed
from paceline.train.recipe import load
from paceline.train.scenes import Encoder
from paceline.train.target import TargetRecipe

LOOP = LoopConfig(steps=1, learning_rate=1e-3)


@dataclass(frozen=True)
class Drawn:
    """Scenes without a rendering on disk."""

    encoder: Encoder

    def scene(self, task: str, index: int) -> Packed:
        return self.encoder.encode(scene(task, "train", index))


def test_only_the_chosen_kinds_are_asked(processor: Any) -> None:
    encoder = Encoder(processor)
    shown = Asked(Drawn(encoder), {"mmt": ("list",)}).scene("mmt", 7)
    (asked,) = (exchange for exchange in scene("mmt", "train", 7).exchanges if exchange.kind == "list")
    assert [branch.ids.tolist() for branch in shown.branches] == [encoder.branch(asked).ids.tolist()]
    assert (shown.tiles == encoder.encode(scene("mmt", "train", 7)).tiles).all()


def test_a_scene_without_the_kind_keeps_all_of_its_questions(processor: Any) -> None:
    lacking = next(i for i in range(99) if all(e.kind != "odd" for e in scene("mmt", "train", i).exchanges))
    found = Asked(Drawn(Encoder(processor)), {"mmt": ("odd",)}).scene("mmt", lacking)
    assert found.index == lacking
    assert len(found.branches) == len(scene("mmt", "train", lacking).exchanges)


def test_the_chosen_families_keep_their_proportions() -> None:
    lesson = LessonConfig("x", {"mmt": ("list",), "seed": ("shots",)}, 8, LOOP)
    mixture = lesson.mixture(MixtureConfig({"mmt": 3, "seed": 1, "ocr": 1}, {"mmt": 30, "seed": 10, "ocr": 10}))
    assert (mixture.shares, mixture.scenes) == ({"mmt": 3, "seed": 1}, {"mmt": 30, "seed": 10})
    assert mixture.scenes_per_step == 8


@pytest.mark.parametrize(("kinds", "scenes", "tiles"), [({"mmt": ()}, 4, 0), ({"mmt": ("list",)}, 0, 0), ({}, 1, 0)])
def test_a_lesson_that_cannot_run_is_refused(kinds: dict[str, tuple[str, ...]], scenes: int, tiles: int) -> None:
    with pytest.raises(ValueError, match="scenes_per_step"):
        LessonConfig("x", kinds, scenes, LOOP, tiles)


def test_the_bundled_recipe_asks_for_kinds_that_exist() -> None:
    recipe = load(Path(__file__).parents[3] / "recipes" / "tiny-native.toml", TargetRecipe)
    for task in {task for lesson in recipe.lessons for task in lesson.kinds}:
        known = {exchange.kind for index in range(60) for exchange in scene(task, "train", index).exchanges}
        for lesson in recipe.lessons:
            assert set(lesson.kinds.get(task, ())) <= known
