"""The method that docs/add-a-method.md adds is one: it keeps the laws, learns from a recipe, and loads again."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch

from laws.families import COUPLINGS, FAMILIES, OTHER, PROMPTS, run
from laws.test_decode import FREE, GREEDY, joint_law_pvalue
from paceline import drafters
from paceline.loading import load_drafter
from paceline.targets import load_target
from paceline.train import dispatch
from unit.drafters.test_trained import serial_passes
from unit.train import school

PAGE = Path(__file__).parents[3] / "docs" / "add-a-method.md"


@pytest.fixture
def glance(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The page's code as a module, and its line in the table."""
    module = ModuleType("glance")
    monkeypatch.setitem(sys.modules, "glance", module)
    exec(compile(_block("python"), str(PAGE), "exec"), module.__dict__)
    monkeypatch.setattr(drafters, "METHODS", {**drafters.METHODS, "glance": "glance:Glance"})
    monkeypatch.setattr("paceline.train.drafters.METHODS", drafters.METHODS)
    monkeypatch.setattr("paceline.loading.METHODS", drafters.METHODS)
    return module


def _block(language: str) -> str:
    found = re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(found) == 1
    return found[0]


def test_it_keeps_the_laws(glance: ModuleType) -> None:
    drafter, seed = glance.Glance.tiny(OTHER), torch.arange(3)
    for sampling in (GREEDY, FREE):
        plain = run(FAMILIES["none"], COUPLINGS["gumbel"], sampling, PROMPTS, seed, 40)
        assert run(drafter, COUPLINGS["gumbel"], sampling, PROMPTS, seed, 40) == plain
    for coupling in COUPLINGS.values():
        assert joint_law_pvalue(drafter, coupling, FREE, 5_000) > 0.005
        together = run(drafter, coupling, FREE, PROMPTS, seed, 30)
        assert together == [run(drafter, coupling, FREE, [p], seed[i : i + 1], 30)[0] for i, p in enumerate(PROMPTS)]
    assert serial_passes(drafter) == {1}


def test_it_is_trained_by_its_entry(glance: ModuleType, tmp_path: Path) -> None:
    target = school.target(tmp_path / "target")
    text = school.RECIPE[: school.RECIPE.index("[[drafters]]")] + _block("toml").replace("{", "{{").replace("}", "}}")
    recipe = school.recipe(tmp_path, target, text)
    dispatch.run(recipe, tmp_path / "run", changes=["questions.scenes={science=2}", "questions.exchanges=1"])
    lines = school.log(tmp_path / "run")
    assert lines[-1]["glance/loss"] < lines[0]["glance/loss"]
    again = load_drafter(str(tmp_path / "run" / "drafters" / "glance"), load_target(str(target)))
    assert (again.config.layer, again.conditioner.spec) == (4, "text-only")
