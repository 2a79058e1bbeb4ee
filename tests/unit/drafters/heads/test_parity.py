"""Train/serve parity: what a loss sees under teacher forcing is what drafting says along the same text."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from paceline.conditioning import Conditioner, Full, Pool, Prune, Recent, TextOnly
from paceline.drafters import method
from paceline.drafters.heads import ranks
from paceline.drafters.heads.goals import Goals
from paceline.drafters.heads.medusa import Medusa, MedusaConfig
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


def taught(drafter: Any, row: int) -> Iterator[tuple[int, int, Tensor, int]]:
    """(guess, position of the root, logits [V], label) of all that a lesson on this conversation learns."""
    told, rows = lesson(drafter, row)
    goals = Goals(told, GUESSES)
    for guess, (goal, logits) in enumerate(zip(goals.each, drafter.forced(goals), strict=True)):
        learnt = rows.position[goal.where].tolist(), logits, goal.labels[goal.where].tolist()
        for position, line, label in zip(*learnt, strict=True):
            yield guess, position, line, label


def drafted(drafter: Any) -> Iterator[tuple[int, int, int, Tensor]]:
    """(row, guess, position of the root, logits [V]) of every guess whose forerunners were right."""
    for each in rounds(drafter):
        logits = torch.cat(each.logits, 1)
        for row, root in enumerate(each.root):
            for guess in range(logits.shape[1]):
                if guess and each.draft.tokens[row, guess - 1] != TRUTH[row, root + guess]:
                    break
                yield row, guess, root, logits[row, guess]


def compare(drafter: Any) -> None:
    """Raise AssertionError unless every guess has the logits and the label of a lesson, and enough of each were met."""
    known = [{(g, p): told for g, p, *told in taught(drafter, row)} for row in range(len(PROMPTS))]
    met = [0] * GUESSES
    for row, guess, root, logits in drafted(drafter):
        line, label = known[row][guess, root]
        torch.testing.assert_close(logits, line, rtol=0, atol=1e-12)
        assert label == TRUTH[row, root + 1 + guess], "close, but taught another token"
        met[guess] += 1
    assert min(met) >= 5, f"too few guesses were compared: {met}"


@pytest.mark.parametrize("conditioner", CONDITIONERS)
@pytest.mark.parametrize("name", CHAIN)
def test_drafting_says_what_training_taught(name: str, conditioner: str) -> None:
    compare(chain(name, CONDITIONERS[conditioner]))


def _blind_to_itself(real: Any) -> Any:
    """Steps ahead forget the steps before them."""
    return lambda self, q, past, own, see: real(self, q, past, [], see)


def _leaking(real: Any) -> Any:
    """Masks see all true rows, those of the tokens that they guess too."""

    def sight(see: Tensor, anchor: Tensor, copy: Tensor, valid: Tensor) -> Tensor:
        return real(torch.ones_like(see), anchor, copy, valid)

    return sight


def _late(real: Any) -> Any:
    """Deeper rows read the token that the row before them should read."""
    return lambda lesson, depth: real(lesson, depth + 1 if depth else 0)


def _shifted(real: Any) -> Any:
    """The goals of guess 1 stand in the place of guess 0."""

    def build(self: Any, lesson: Any, guesses: int) -> None:
        real(self, lesson, guesses + 1)
        self.each = self.each[1:]

    return build


MUTANTS: dict[str, tuple[str, str, Any]] = {
    "steps ahead forget their own": ("dream", "paceline.drafters.layers.Attention.unroll", _blind_to_itself),
    "masks see what they guess": ("pard", "paceline.drafters.heads.pard.sight", _leaking),
    "the token after next": ("mtp", "paceline.drafters.heads.mtp.onward", _late),
    "labels shifted by one": ("medusa", "paceline.drafters.heads.goals.Goals.__init__", _shifted),
    "labels shifted by one, in series": ("hydra", "paceline.drafters.heads.goals.Goals.__init__", _shifted),
}


@pytest.mark.parametrize("fault", MUTANTS)
def test_parity_catches(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, where, mutate = MUTANTS[fault]
    monkeypatch.setattr(where, mutate(pkgutil.resolve_name(where)))
    with pytest.raises(AssertionError, match="close"):
        compare(chain(name))


def test_medusa_through_the_targets_own_head_is_taught_what_it_drafts() -> None:
    made = Medusa.create(TARGET.shared, MedusaConfig(guesses=GUESSES), Full())
    with torch.no_grad():
        for parameter in made.net.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(2))
    compare(replace(made, **CHAIN["medusa"]))


@pytest.mark.parametrize("name", CHAIN)
def test_the_replay_is_ragged_and_its_logits_tell_guesses_apart(name: str) -> None:
    drafter = chain(name)
    assert len({tuple(each.verdict.length.tolist()) for each in rounds(drafter)} - {(1, 1, 1)}) > 2
    lines = [logits for _, _, _, logits in drafted(drafter)]
    assert len({tuple(line.tolist()) for line in lines}) > 12
    assert lines[0].shape == (V,)
