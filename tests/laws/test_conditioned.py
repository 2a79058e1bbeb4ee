"""Laws of trained drafters in their other shapes: drawn chains, reduced vocabularies, conditioned prompts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from laws.families import COUPLINGS, FAMILIES, OTHER, TABLE, run
from laws.test_decode import FREE, GREEDY, joint_law_pvalue
from paceline.conditioning import Full, Pool, Prune, Recent, TextOnly
from paceline.core import Prompt
from paceline.couplings import Gumbel
from paceline.drafters import METHODS, method
from paceline.drafters.ar.eagle import Eagle, EagleConfig, EagleSession
from paceline.targets.table import TableTarget

SEEING = TableTarget(TABLE, image_id=3)
PROMPTS = [Prompt(torch.tensor(ids)) for ids in ([0, 3, 3, 3, 3, 3, 1], [3, 3, 2, 3, 1, 0], [1, 2, 0], [3, 0])]
HOWS = [TextOnly(), Prune(0.5), Prune(0.5, "norm"), Pool(2), Recent(2)]
TRAINED = [name for name in METHODS if hasattr(method(name), "loss")]
CASES = [(name, HOWS[(i + j) % 5]) for i, name in enumerate(TRAINED) for j in (0, 3)]  # two each, all of them in turn


def reduced(drawn: bool) -> Eagle:
    """Three of the four ids can be guessed."""
    config = EagleConfig(heads=2, groups=1, feed_forward=8, draft_vocab=3)
    drafter = replace(Eagle.create(OTHER.shared, config, Full(), seed=2), depth=3, width=2, nodes=5, drawn=drawn)
    drafter.speak(torch.tensor([5, 1, 9, 7]))
    return drafter


SHAPES = {"drawn": replace(FAMILIES["eagle"], drawn=True), "few": reduced(False), "few-drawn": reduced(True)}


@pytest.mark.parametrize(("name", "how"), CASES, ids=lambda each: getattr(each, "spec", each))
def test_what_a_drafter_is_shown_changes_no_text(name: str, how: Any) -> None:
    drafter = replace(method(name).tiny(OTHER), conditioner=how)
    seed = torch.arange(4)
    for sampling in (GREEDY, FREE):
        plain = run(FAMILIES["none"], Gumbel(), sampling, PROMPTS, seed, 24, SEEING)
        assert run(drafter, Gumbel(), sampling, PROMPTS, seed, 24, SEEING) == plain
    alone = [
        run(drafter, COUPLINGS["maximal"], FREE, [p], seed[i : i + 1], 24, SEEING)[0] for i, p in enumerate(PROMPTS)
    ]
    assert run(drafter, COUPLINGS["maximal"], FREE, PROMPTS, seed, 24, SEEING) == alone


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_equal_plain_sampling_token_for_token(name: str) -> None:
    seed = torch.arange(4)
    for sampling in (GREEDY, FREE):
        plain = run(FAMILIES["none"], Gumbel(), sampling, PROMPTS, seed, 40)
        assert run(SHAPES[name], Gumbel(), sampling, PROMPTS, seed, 40) == plain


@pytest.mark.law
@pytest.mark.parametrize("name", SHAPES)
def test_shapes_have_the_targets_law(name: str) -> None:
    assert joint_law_pvalue(SHAPES[name], COUPLINGS["maximal"], FREE, 10_000) > 0.01 / len(SHAPES)


class Overstated(EagleSession):
    """Guesses come from the draft vocabulary, while the law that is told for them spreads over other ids."""

    def propose(self, verdict: Any) -> Any:
        draft = super().propose(verdict)
        told = draft.q.dense(4)
        return replace(draft, q=type(draft.q)(0.7 * told + 0.3 * told.roll(1, -1)))


@dataclass(frozen=True)
class Mutant:
    how: Eagle

    @property
    def needs(self) -> Any:
        return self.how.needs

    def open(self, session: Any, context: Any, rule: Any, *, clock: Any = None) -> Overstated:
        return Overstated(self.how, context, rule, clock)


@pytest.mark.law
def test_a_law_that_did_not_draw_the_guesses_is_caught() -> None:
    assert joint_law_pvalue(Mutant(SHAPES["few-drawn"]), COUPLINGS["maximal"], FREE, 10_000) < 1e-6
