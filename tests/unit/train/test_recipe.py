"""Recipes: the ones in the repository load; mistakes are named with the nearest key."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.errors import UsageError
from paceline.train import recipe
from paceline.train.dispatch import trainer
from paceline.train.language import LanguageRecipe
from paceline.train.target import TargetRecipe

RECIPES = Path(__file__).parents[3] / "recipes"
GOOD = (RECIPES / "tiny-native.toml").read_text(encoding="utf-8")


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_bundled_recipes_load() -> None:
    target = recipe.load(RECIPES / "tiny-native.toml", TargetRecipe)
    assert target.text.layers >= 10
    assert target.loop.learning_rate > 0
    assert recipe.load(RECIPES / "tiny-native-lm.toml", LanguageRecipe).text.layers <= 2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("learning_rate", "learning_rat", "unknown key naming.loop.learning_rat .*'learning_rate'"),
        ("layers = 10", 'layers = "ten"', "text.layers = 'ten': must be int"),
        ("layers = 10", "layers = true", "text.layers = True: must be int"),
        ('optimiser = "muon"', 'optimiser = "muom"', "optimiser = 'muom': allowed are adamw, muon .*'muon'"),
        ("seed = 1\n", "", "missing key seed"),
        ("[vision]", "[vison]", "unknown key vison .*'vision'"),
        ("steps = 360", "steps = 0", "naming.loop: steps must be at least 1"),
        ("mmt = 6144\n", "", "mixture: scenes lacks mmt"),
        ("[text]", "[text", "not valid TOML"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GOOD
    with pytest.raises(UsageError, match=message) as caught:
        recipe.load(write(tmp_path, GOOD.replace(old, new, 1)), TargetRecipe)
    assert "\n" not in str(caught.value).strip() or "TOML" in message


def test_kinds_find_their_trainer_and_others_are_refused(tmp_path: Path) -> None:
    assert trainer(RECIPES / "tiny-native.toml").__module__ == "paceline.train.target"
    assert trainer(RECIPES / "tiny-native-lm.toml").__module__ == "paceline.train.language"
    with pytest.raises(UsageError, match="unknown kind 'targt'; did you mean 'target'"):
        trainer(write(tmp_path, 'kind = "targt"'))
    with pytest.raises(UsageError, match="no recipe at"):
        trainer(tmp_path / "absent.toml")
