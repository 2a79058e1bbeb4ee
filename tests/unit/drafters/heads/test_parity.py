"""Train/serve parity: what a loss sees under teacher forcing is what drafting says along the same text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from paceline.conditioning import Conditioner, Full, Pool, Prune, Recent, TextOnly
from paceline.drafters import method
from paceline.drafters.heads import ranks
from paceline.drafters.heads.ahead import Goals
from unit.drafters.heads.replay import PROMPTS, TARGET, TRUTH, V, lesson, rounds

CHAIN = {
    "dream": {"drawn": True},
    "mtp": {},
    "pard": {"tree": ranks.product((1, 1, 1))},
    "medusa": {"tree": ranks.product((1, 1, 1))},
    "hydra": {"tree": ranks.product((1, 1, 1))},
}
GUESSES = 3
CONDITIONERS: dict[str, Conditioner] = {
    "full": Full(), "text-only": TextOnly(), "prune": Prune(0.5, "attention"), "pool": Pool(2), "recent": Recent(3),
}  # fmt: skip


def chain(name: str, conditioner: Conditioner = CONDITIONERS["full"]) -> Any:
    """The method's tiny drafter, told to draft one chain of drawn guesses."""
    return replace(method(name).tiny(TARGET), conditioner=conditioner, **CHAIN[name])


def taught(drafter: Any, row: int) -> Iterator[tuple[int, int, Tensor]]:
    """(guess, position of the root, logits [V]) of all that a lesson on this conversation learns."""
    told, rows = lesson(drafter, row)
    goals = Goals(told, GUESSES)
    for guess, (goal, logits) in enumerate(zip(goals.each, drafter.forced(goals), strict=True)):
        for position, line in zip(rows.position[goal.where].tolist(), logits, strict=True):
            yield guess, position, line


def drafted(drafter: Any) -> Iterator[tuple[int, int, int, Tensor]]:
    """(row, guess, position of the root, logits [V]) of every guess whose forerunners were right."""
    for each in rounds(drafter):
        logits = torch.cat(each.logits, 1)
        for row, root in enumerate(each.root):
            for guess in range(logits.shape[1]):
                if guess and each.draft.tokens[row, guess - 1] != TRUTH[row, root + guess]:
                    break
                yield row, guess, root, logits[row, guess]


@pytest.mark.parametrize("conditioner", CONDITIONERS)
@pytest.mark.parametrize("name", CHAIN)
def test_drafting_says_what_training_taught(name: str, conditioner: str) -> None:
    drafter = chain(name, CONDITIONERS[conditioner])
    known = [{(g, p): line for g, p, line in taught(drafter, row)} for row in range(len(PROMPTS))]
    met = [0] * GUESSES
    for row, guess, root, logits in drafted(drafter):
        torch.testing.assert_close(logits, known[row][guess, root], rtol=0, atol=1e-12)
        met[guess] += 1
    assert min(met) >= 5, f"too few guesses were compared: {met}"


@pytest.mark.parametrize("name", CHAIN)
def test_the_replay_is_ragged_and_its_logits_tell_guesses_apart(name: str) -> None:
    drafter = chain(name)
    assert len({tuple(each.verdict.length.tolist()) for each in rounds(drafter)} - {(1, 1, 1)}) > 2
    lines = [logits for _, _, _, logits in drafted(drafter)]
    assert len({tuple(line.tolist()) for line in lines}) > 12
    assert lines[0].shape == (V,)
