"""Greedy text equals the class's own `generate`, token for token, drafted or not, alone or in a ragged batch."""

from __future__ import annotations

import pytest
import torch

from paceline.core import Prompt, Rule, decode
from paceline.couplings import Gumbel
from paceline.errors import UsageError
from paceline.hf.target import HFTarget
from paceline.sampling import Sampling
from paceline.targets import FAMILIES, load_target
from unit.targets.replay import Replay, Shape
from unit.targets.tiny import BUILDERS, PLANS, Tiny, generate, reference, tiny

COUNT = 48
GREEDY = Rule(Sampling().law, Gumbel())
RECURRENT = ("qwen3_5",)


def answer(target: HFTarget, prompts: list[Prompt], drafter: Replay, count: int = COUNT) -> tuple[list[list[int]], set]:
    """Each row's first `count` tokens, and the numbers of guesses accepted side by side in one round."""
    rows, ragged = [list[int]() for _ in prompts], set()
    for verdict in decode(target, drafter, GREEDY, prompts, torch.zeros(len(prompts), dtype=torch.long)):
        for row, tokens, length in zip(rows, verdict.tokens.tolist(), verdict.length.tolist(), strict=True):
            row += tokens[:length]
        ragged.add(tuple(verdict.length.tolist()))
        if min(map(len, rows)) >= count:
            return [row[:count] for row in rows], ragged
    raise AssertionError("decode ended by itself")


CASES: list[tuple[str, Shape]] = [
    (name, shape)
    for name in BUILDERS
    for shape in ("plain", "chain", "tree")
    if (name, shape) not in [(name, "tree") for name in RECURRENT]
]


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize(("name", "shape"), CASES)
def test_text_equals_generate(name: str, shape: Shape, batch: int) -> None:
    made = tiny(name)
    wanted = [list(reference(name, row)) for row in range(len(PLANS))]
    rows = [2] if batch == 1 else [0, 1, 2, 3]
    target = load_target(made.model)
    drafter = Replay([wanted[row] for row in rows], shape)
    got, lengths = answer(target, [made.prompts()[row] for row in rows], drafter)
    assert got == [wanted[row] for row in rows]
    if shape != "plain":
        assert len(lengths) > 3, "acceptance is not ragged enough to test anything"


@pytest.mark.parametrize("name", BUILDERS)
def test_references_vary(name: str) -> None:
    """Models that repeat one word would agree with anything, and models blind to pictures with any picture."""
    made = tiny(name)
    for row in range(len(PLANS)):
        assert len(set(reference(name, row))) >= 8
    if made.pictures:
        assert generate(made, made.prompt(PLANS[2], seed=2), 12) == reference(name, 2)[:12]
        other = made.prompt(PLANS[2], seed=2)
        other.inputs["pixel_values"] = other.inputs["pixel_values"].flip(-1)
        assert generate(made, other, 12) != reference(name, 2)[:12]


def test_every_family_is_tested() -> None:
    tested = {tiny(name).model.config.model_type for name in BUILDERS}
    assert set(FAMILIES) <= tested


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_class_refuses_trees(name: str) -> None:
    made: Tiny = tiny(name)
    wanted = list(reference(name, 0))
    with pytest.raises(UsageError, match="recurrent layers"):
        answer(load_target(made.model), [made.prompts()[0]], Replay([wanted], "tree"))
