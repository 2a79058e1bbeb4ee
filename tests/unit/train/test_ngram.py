"""The n-gram drafter from its recipe: shares its answers with the other drafters, and loads by its directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.answer import generate
from paceline.drafters.free.ngram import NGram
from paceline.loading import load_drafter
from paceline.sampling import Sampling
from paceline.targets import load_target
from paceline.train.dispatch import run
from paceline.train.drafters import DraftersRecipe
from paceline.train.ngram import NGramRecipe
from paceline.train.recipe import RecipeError, load
from unit.train import school

RECIPE = """
kind = "ngram"
target = "{target}"

[questions]
scenes = {{ science = 3, mmt = 2 }}
exchanges = 2

[answers]
max_new_tokens = 12
together = 4
"""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return school.target(tmp_path_factory.mktemp("school") / "target")


def test_a_table_is_made_from_the_targets_own_answers_and_drafts_for_it(target: Path, tmp_path: Path) -> None:
    recipe = school.recipe(tmp_path, target, RECIPE)
    result = run(recipe, tmp_path / "out", changes=["least=1"])
    assert result.steps == 10
    assert 0 <= result.loss < 0.5, "what it has read it knows"
    again = run(recipe, tmp_path / "other", tmp_path / "out")
    assert again.loss >= result.loss, "rare contexts are left out"
    assert not (tmp_path / "other" / "answers").exists(), "answers that are there are not asked for again"
    model = load_target(str(target))
    drafter = load_drafter(result.checkpoint, model, guesses=3)
    assert isinstance(drafter, NGram)
    asked = [{"role": "user", "content": "What is it?"}]
    plain, drafted = (
        generate(model, d, asked, Sampling(max_new_tokens=20)) for d in (load_drafter("none", model), drafter)
    )
    assert drafted.token_ids == plain.token_ids


def test_a_misspelt_key_is_told(target: Path, tmp_path: Path) -> None:
    recipe = school.recipe(tmp_path, target, RECIPE + "temprature = 1.0\n")
    with pytest.raises(RecipeError, match="did you mean 'temperature'"):
        run(recipe, tmp_path / "out")


def test_the_bundled_recipe_asks_what_the_drafters_are_asked() -> None:
    """So that both learn from one file of answers."""
    recipes = Path(__file__).parents[3] / "recipes"
    mine = load(recipes / "tiny-native-ngram.toml", NGramRecipe)
    theirs = load(recipes / "tiny-native-drafters.toml", DraftersRecipe)
    assert (mine.target, mine.questions, mine.answers) == (theirs.target, theirs.questions, theirs.answers)
