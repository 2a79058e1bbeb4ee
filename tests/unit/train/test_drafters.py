"""The trainer of drafters: learns, resumes to the same bits, and says what is wrong before it writes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from paceline.core import Shared
from paceline.drafters import METHODS, method
from paceline.errors import UsageError
from paceline.loading import load_drafter
from paceline.targets import load_target
from paceline.train import dispatch, drafters, recipe
from paceline.train.recipe import RecipeError
from unit.train import school


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return school.target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def first(target: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run to the end."""
    where = tmp_path_factory.mktemp("first")
    dispatch.run(school.recipe(where, target), where / "run")
    return where / "run"


def weights(run: Path, name: str) -> dict[str, torch.Tensor]:
    return load_file(run / "drafters" / name / "model.safetensors")


def same(a: Path, b: Path, name: str) -> bool:
    left, right = weights(a, name), weights(b, name)
    return left.keys() == right.keys() and all(torch.equal(left[key], right[key]) for key in left)


def test_a_run_logs_learns_and_leaves_drafters(first: Path, target: Path) -> None:
    lines = school.log(first)
    assert [line["step"] for line in lines] == [*range(1, 7)]
    for name in ("eagle", "small"):
        assert lines[-1][f"{name}/loss"] < lines[0][f"{name}/loss"]
        assert [f"{name}/tau" in line for line in lines] == [False, False, True, False, False, True]
        assert lines[-1][f"{name}/tau"] >= 1
        record = json.loads((first / "drafters" / name / "paceline.json").read_text())
        assert record["contract"]["layers"] == [2, 4, 5]
        assert record["provenance"]["steps"] == 6
    opened = load_target(str(target))
    drafter = load_drafter(str(first / "drafters" / "eagle"), opened, depth=2)
    assert (drafter.depth, drafter.conditioner.spec) == (2, "text-only")
    small = load_drafter(str(first / "drafters" / "small"), opened)
    assert small.net.ids().tolist() == sorted(small.net.ids().tolist())
    assert len(small.net.ids()) == 40 == int(small.net.t2d.sum())


def test_alone_as_in_company(first: Path, target: Path, tmp_path: Path) -> None:
    """One drafter of a joint run ends with the weights that it ends with alone."""
    dispatch.run(school.recipe(tmp_path, target), tmp_path / "run", first, changes=["only=eagle"])
    assert same(first, tmp_path / "run", "eagle")
    assert not (tmp_path / "run" / "drafters" / "small").exists()


def test_stopped_anywhere_it_ends_the_same(first: Path, target: Path, tmp_path: Path) -> None:
    recipe, run = school.recipe(tmp_path, target), tmp_path / "run"
    dispatch.run(recipe, run, first, changes=["loop.checkpoint_seconds=1e-9"])  # a checkpoint after every step
    shutil.rmtree(run / "joint" / "step-00000006")
    shutil.rmtree(run / "drafters")
    dispatch.run(recipe, run, first)
    assert school.log(run) == school.log(first)
    for name in ("eagle", "small"):
        assert same(first, run, name)


def test_answers_are_kept_and_mended(first: Path, target: Path, tmp_path: Path) -> None:
    kept = tmp_path / "answers" / "answers.jsonl"
    kept.parent.mkdir()
    whole = (first / "answers" / "answers.jsonl").read_text()
    kept.write_text(whole[:-20])  # cut in the last line, as a kill leaves it
    recipe = school.recipe(tmp_path, target)
    dispatch.run(recipe, tmp_path / "run", tmp_path, changes=["loop.steps=1"])
    assert kept.read_text() == whole
    with pytest.raises(UsageError, match="another target or setting"):
        dispatch.run(recipe, tmp_path / "run", tmp_path, changes=["answers.max_new_tokens=9"])


def test_a_store_gives_the_same_weights(first: Path, target: Path, tmp_path: Path) -> None:
    recipe = school.recipe(tmp_path, target)
    dispatch.run(recipe, tmp_path / "run", first, changes=[f"store={tmp_path / 'store'}"])
    stored = load_file(tmp_path / "store" / "hidden_states" / "hs_0.safetensors")
    assert stored["hidden_states"].shape == (len(stored["token_ids"]), 5, 32)  # embeddings, three taps, the last
    for name in ("eagle", "small"):
        ours, theirs = weights(first, name), weights(tmp_path / "run", name)
        for key in ours:
            torch.testing.assert_close(ours[key], theirs[key], rtol=5e-2, atol=2e-3)  # talks are read alone


def test_a_store_that_does_not_fit_is_refused_first(
    first: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10_000})())
    recipe = school.recipe(tmp_path, target)
    with pytest.raises(UsageError, match=r"does not fit its disk: 5 talks, about .* tokens"):
        dispatch.run(recipe, tmp_path / "run", first, changes=[f"store={tmp_path / 'store'}"])
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("lop.steps=3", "unknown key lop (did you mean 'loop'?)"),
        ("loop.step=3", "unknown key loop.step (did you mean 'steps'?)"),
        ("drafters.0.method=eagel", "did you mean 'eagle'?"),
        ("drafters.0.method=lookup", "unknown method with a loss 'lookup'"),
        ("drafters.0.config.haeds=2", "unknown key drafters.eagle.config.haeds (did you mean 'heads'?)"),
        ("drafters.0.options.dept=2", "did you mean 'depth'?"),
        ("drafters.0.conditioner=tex-only", "did you mean 'text-only'?"),
        ("drafters.0.config.layers=[2, 99]", "the target has 0 (embeddings) to 8"),
        ("drafters.7.rate=2.0", "7 is none of the 2 places"),
        ("drafters.1.name=eagle", "must be named apart"),
        ("questions.scenes={scienc=2}", "did you mean 'science'?"),
        ("loop.steps", "write key=value"),
        ("only=smal", "unknown drafter of this recipe 'smal'; did you mean 'small'?"),
        ("loop.decay_steps=3", "a cosine schedule decays by itself"),
        ("loop.tracker=wandb", "allowed are none, tensorboard, trackio"),
    ],
)
def test_a_wrong_recipe_is_refused_with_the_nearest(change: str, said: str, target: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        dispatch.plan(school.recipe(tmp_path, target), [change])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_plan_writes_nothing(target: Path, tmp_path: Path) -> None:
    recipe = school.recipe(tmp_path, target)
    plan = dispatch.plan(recipe, ["loop.steps=10"])
    assert plan["loop"]["steps"] == 10
    assert (plan["talks"], plan["answers_wanted"], plan["epochs"]) == (5, 10, 8.0)
    assert plan["taps"] == {"layers": [2, 4, 5, 8], "embeddings": True, "scores": False}
    assert [each["parameters"] > 0 for each in plan["drafters"]] == [True, True]
    assert [path.name for path in tmp_path.iterdir()] == ["recipe.toml"]


def test_an_unwritable_place_is_refused(target: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        dispatch.run(school.recipe(tmp_path, target), tmp_path / "file" / "run")


def test_a_loss_that_is_lost_names_batch_and_drafter(
    first: Path, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from paceline.drafters.ar.eagle import Eagle
    from paceline.train.loop import Diverged

    recipe, run = school.recipe(tmp_path, target), tmp_path / "run"
    dispatch.run(recipe, run, first, changes=["loop.steps=2"])
    sound = Eagle.loss

    def lost(self: Eagle, lesson: Any, generator: torch.Generator) -> Any:
        loss = sound(self, lesson, generator)
        return type(loss)(loss.value * float("nan"), loss.terms)

    monkeypatch.setattr(Eagle, "loss", lost)
    with pytest.raises(Diverged, match=r"step 2: loss is nan in batch \w+/train/.*drafter 'eagle'.*step-00000002"):
        dispatch.run(recipe, run, first, changes=["loop.steps=4"])
    assert (run / "joint" / "step-00000002").is_dir()


def test_the_bundled_recipe_trains_every_method() -> None:
    """Each entry's config is one that its method takes for a target of tiny-native's sizes."""
    path = Path(__file__).parents[3] / "recipes" / "tiny-native-drafters.toml"
    config = recipe.load(path, drafters.DraftersRecipe)
    assert {each.method for each in config.chosen} == {name for name in METHODS if hasattr(method(name), "loss")}
    weight = torch.zeros(2560, 256)
    shared = Shared(weight.__getitem__, lambda hidden: hidden @ weight.T, 256, 10, 2560, torch.empty(0))
    for each in config.chosen:
        made = drafters.make(each, SimpleNamespace(shared=shared), 1)
        size = sum(2 * p.numel() for p in made.net.parameters())
        assert 0 < size < 4 * 2**20, f"{each.method} weighs {size / 2**20:.1f} MiB in half precision"


def test_kinds_without_changes_say_so(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="take no key=value"):
        dispatch.run(Path(__file__).parents[3] / "recipes" / "tiny-native.toml", tmp_path, changes=["seed=2"])
