"""Checks over the loop on a target with exact answers: sound ones pass, faults in drafter, coupling or target fail."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from laws.families import FAMILIES, TABLE, Toy
from laws.test_mutants import NotSubtracted, OffByOne, SharedNoise, chain
from paceline import law as laws
from paceline.audit.identity import greedy, race
from paceline.audit.laws import maximal
from paceline.audit.statistics import ranks_of
from paceline.core import Draft, Rule, Verdict
from paceline.couplings import Maximal
from paceline.sampling import Sampling
from unit.test_answer import Spelled

TARGET = Spelled(TABLE)
PROMPTS = [TARGET.encode([{"content": text}]) for text in ("bcb", "ad")]
DRAWN = Sampling(temperature=0.6, max_new_tokens=4)
COUNT = 600


class OffByOneTarget(Spelled):
    """Commits one guess fewer than was accepted."""

    def open(self, prompts: Any, *given: Any, **named: Any) -> Any:
        session, context, seen = super().open(prompts, *given, **named)
        session.__class__ = OffByOne
        return session, context, seen


def raw_q(rule: Rule, verdict: Verdict) -> Draft:
    """The verifier is told the law without the temperature."""
    return chain(rule, verdict, lambda q: laws.Dense((d := q.dense(4) ** 0.6) / d.sum(-1, keepdim=True)))


@pytest.mark.parametrize("name", ["lookup", "lm", "sampled-tree", "ragged-tree"])
def test_sound_drafters_pass(name: str) -> None:
    checks = greedy(TARGET, FAMILIES[name], PROMPTS, 30, "float64")
    checks.append(race(TARGET, FAMILIES[name], PROMPTS, Sampling(temperature=1, max_new_tokens=30)))
    assert [check.outcome for check in checks] == ["pass"] * 3
    assert all(check.figures["identical"] for check in checks)


@pytest.mark.parametrize("drafter", [FAMILIES["lm"], Toy(chain)], ids=["lm", "chain"])
def test_maximal_passes(drafter: Any) -> None:
    assert maximal(TARGET, drafter, PROMPTS, DRAWN, Maximal(), COUNT).outcome == "pass"


@pytest.mark.parametrize(
    ("drafter", "coupling"),
    [(Toy(chain), NotSubtracted()), (Toy(chain), SharedNoise()), (Toy(raw_q), Maximal())],
    ids=["residual-free", "one noise for both", "unprocessed q"],
)
def test_couplings_that_bias_the_law_fail(drafter: Any, coupling: Any) -> None:
    check = maximal(TARGET, drafter, PROMPTS, DRAWN, coupling, COUNT)
    assert check.outcome == "fail", check.says
    assert check.figures["two_sample"][-1]["pvalue"] < 1e-3, "the two-sample test sees it by itself"


def test_a_wrong_commit_is_a_fault_that_is_explained() -> None:
    control, drafted = greedy(OffByOneTarget(TABLE), Toy(chain), PROMPTS, 40, "float64")
    assert (control.outcome, drafted.outcome) == ("pass", "fail")
    first = drafted.divergences[0]
    assert first.kind == "fault"
    assert first.margin is not None
    assert first.margin > 1e-6
    assert "instead of" in str(first)
    drawn = race(OffByOneTarget(TABLE), Toy(chain), PROMPTS, Sampling(temperature=1, max_new_tokens=60))
    assert drawn.outcome == "fail"


def test_laws_that_are_points_tell_nothing() -> None:
    sure = Spelled(TABLE * 1000)
    check = maximal(sure, FAMILIES["lm"], PROMPTS, DRAWN, Maximal(), 40)
    assert check.outcome == "undecided"


def test_ranks_are_uniform_under_their_own_laws_only() -> None:
    noise = torch.Generator().manual_seed(0)
    p = torch.randn(4000, 9, generator=noise, dtype=torch.float64).softmax(-1)
    right = torch.multinomial(p, 1, generator=noise)[:, 0].tolist()
    assert ranks_of(p, right, noise).pvalue > 1e-3
    cold = torch.multinomial(p**1.3, 1, generator=noise)[:, 0].tolist()
    assert ranks_of(p, cold, noise).pvalue < 1e-6
    assert ranks_of(p, cold, noise).z < -3
    p[0, right[0]] = 0
    assert ranks_of(p, right, noise).pvalue == 0
