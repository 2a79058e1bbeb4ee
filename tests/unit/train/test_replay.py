"""Replay without the target counts the rounds of live decoding, integer for integer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from paceline.core import Prompt, Rule, decode
from paceline.couplings import Gumbel
from paceline.drafters.ar.eagle import Eagle
from paceline.drafters.free.lookup import Lookup
from paceline.drafters.free.none import NoDraft
from paceline.sampling import Sampling
from paceline.trace import Round
from paceline.train.replay import Recording, ReplayTarget, rounds
from paceline.train.taps import Talk, needs_of, tap
from unit.train.test_taps import deep

LENGTHS = (25, 40, 12)
PROMPTS = [Prompt(torch.tensor(ids)) for ids in ([5, 6, 7, 8], [9, 9, 10], [11, 5, 6, 7, 8, 9])]
SETTINGS = {"greedy": Sampling(), "sampled": Sampling(temperature=0.5, top_k=20)}


def live(target: Any, drafter: Any, sampling: Sampling) -> tuple[list[list[int]], list[list[Round]]]:
    """Texts of fixed lengths and the rounds that made them, clipped where each ends."""
    texts, found = [list[int]() for _ in PROMPTS], [list[Round]() for _ in PROMPTS]
    seeds = torch.arange(len(PROMPTS))
    for number, verdict in enumerate(decode(target, drafter, Rule(sampling.law, Gumbel()), PROMPTS, seeds)):
        for row, text in enumerate(texts):
            left, length = LENGTHS[row] - len(text), int(verdict.length[row])
            if left and number:
                found[row].append(Round(int(verdict.proposed[row]), min(length - 1, left), min(length, left)))
            text += verdict.tokens[row, : min(length, left)].tolist()
        if all(len(text) == wanted for text, wanted in zip(texts, LENGTHS, strict=True)):
            return texts, found
    raise AssertionError("decode ended")


@dataclass(frozen=True)
class Case:
    target: Any
    drafters: dict[str, Any]


@pytest.fixture(scope="module")
def case() -> Case:
    target = deep()
    eagle = replace(Eagle.tiny(target), depth=4, width=3, nodes=9)
    drafters = {"eagle": eagle, "drawn": replace(eagle, drawn=True), "lookup": Lookup(guesses=4, longest=2)}
    return Case(target, drafters)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ["eagle", "drawn", "lookup"])
def test_replayed_rounds_are_the_live_ones(case: Case, name: str, setting: str) -> None:
    sampling, drafter = SETTINGS[setting], case.drafters[name]
    texts, told = live(case.target, drafter, sampling)
    assert texts == live(case.target, NoDraft(), sampling)[0]
    needs = needs_of([case.drafters["eagle"]], case.target.shared)
    recordings = [
        Recording(prompt, answer, tap(case.target, [Talk("t", (prompt,), (answer,))], needs), seed)
        for seed, (prompt, answer) in enumerate(zip(PROMPTS, map(torch.tensor, texts), strict=True))
    ]
    assert rounds(recordings, drafter, sampling) == told
    if setting == "greedy":
        assert sum(r.accepted for row in told for r in row) > 0 or name != "lookup"


def test_a_replay_refuses_other_prompts(case: Case) -> None:
    answer = torch.tensor([3, 4, 5])
    taps = tap(case.target, [Talk("t", (PROMPTS[0],), (answer,))], needs_of([], case.target.shared))
    with pytest.raises(ValueError, match="prompts that were recorded"):
        ReplayTarget([Recording(PROMPTS[0], answer, taps)]).open(PROMPTS[1:2])
