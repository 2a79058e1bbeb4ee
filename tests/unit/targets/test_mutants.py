"""The identity tests can fail: each planted fault changes the text that they look at."""

from __future__ import annotations

import pytest

from paceline.targets import load_target
from unit.targets.mutants import MUTANTS
from unit.targets.replay import Replay
from unit.targets.test_identity import answer
from unit.targets.tiny import reference, tiny


@pytest.mark.parametrize("fault", MUTANTS)
def test_planted_fault_changes_the_text(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[fault]
    made = tiny(mutant.name)
    wanted = [list(reference(mutant.name, row)) for row in mutant.rows]
    prompts = [made.prompts()[row] for row in mutant.rows]
    drafter = Replay(wanted, mutant.shape)
    assert answer(load_target(made.model), prompts, drafter)[0] == wanted
    mutant.plant(monkeypatch)
    assert answer(load_target(made.model), prompts, drafter)[0] != wanted
