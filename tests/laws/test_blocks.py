"""The laws for block drafters in the forms that `tiny()` does not take: trees, small blocks, chains that end early."""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from laws.families import COUPLINGS, FAMILIES, OTHER, PROMPTS, TARGET, V, run
from laws.test_decode import FREE, GREEDY, SETTINGS, joint_law_pvalue
from laws.test_mutants import CAUGHT, N
from paceline import law as laws
from paceline.core import Draft, Rule, Verdict, decode
from paceline.couplings import Gumbel, Maximal
from paceline.drafters import method
from paceline.drafters.block.dflash import DFlash
from paceline.drafters.block.dspark import DSpark

NONE = FAMILIES["none"]


def doubtful() -> Any:
    """A tiny DSpark whose confidence hangs on the token before: surest behind 0, never behind 3."""
    drafter = method("dspark").tiny(OTHER)
    net = copy.deepcopy(drafter.net)
    with torch.no_grad():
        net.before.weight[:, 0] = torch.tensor([4.0, 2.0, 1.0, -4.0])
        net.confidence.weight.zero_()
        net.confidence.weight[0, net.norm.weight.numel()] = 1
        net.confidence.bias.zero_()
    return replace(drafter, net=net, least=0.5)


FORMS: dict[str, Any] = {
    "dflash-tree": replace(method("dflash").tiny(OTHER), nodes=6, width=3),
    "dflash-small": replace(method("dflash").tiny(OTHER), guesses=2),
    "dspark-tree": replace(method("dspark").tiny(OTHER), nodes=6, width=3),
    "dspark-cut": doubtful(),
}


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("name", FORMS)
def test_greedy_equals_plain_greedy(name: str, coupling: str) -> None:
    plain = run(NONE, Gumbel(), GREEDY, PROMPTS, torch.arange(3), 40)
    assert run(FORMS[name], COUPLINGS[coupling], GREEDY, PROMPTS, torch.arange(3), 40) == plain


@pytest.mark.parametrize("setting", ["t1", "top-k", "min-p"])
@pytest.mark.parametrize("name", FORMS)
def test_gumbel_equals_plain_sampling_token_for_token(name: str, setting: str) -> None:
    seed = torch.arange(3) + 7
    plain = run(NONE, Gumbel(), SETTINGS[setting], PROMPTS, seed, 40)
    assert run(FORMS[name], Gumbel(), SETTINGS[setting], PROMPTS, seed, 40) == plain


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("name", FORMS)
def test_a_row_does_not_see_its_batch_mates(name: str, coupling: str) -> None:
    seed = torch.tensor([5, 6, 7])
    together = run(FORMS[name], COUPLINGS[coupling], FREE, PROMPTS, seed, 30)
    alone = [run(FORMS[name], COUPLINGS[coupling], FREE, [p], seed[i : i + 1], 30)[0] for i, p in enumerate(PROMPTS)]
    assert together == alone


@pytest.mark.law
@pytest.mark.parametrize("name", FORMS)
def test_joint_law_of_four_tokens_is_the_targets(name: str) -> None:
    """Under Maximal; the Gumbel race is covered token for token."""
    assert joint_law_pvalue(FORMS[name], Maximal(), FREE, 4_000 if "tree" in name else N) > 0.01 / len(FORMS)


def proposals(drafter: Any, count: int = 12) -> list[Draft]:
    rounds = decode(TARGET, drafter, Rule(FREE.law, Maximal()), PROMPTS * 20, torch.arange(60))
    return [next(rounds).draft for _ in range(count)][1:]


def test_the_forms_are_what_they_are_called() -> None:
    """Trees of several shapes at once; chains of every length; else these laws would say nothing new."""
    for name in ("dflash-tree", "dspark-tree"):
        drafts = proposals(FORMS[name])
        assert all(not draft.tree.is_chain and draft.tree.size == 6 and draft.q is None for draft in drafts)
        assert len({tuple(row) for row in drafts[3].parent.tolist()}) > 2
    lengths = {n for draft in proposals(FORMS["dspark-cut"]) for n in (draft.tokens >= 0).sum(1).tolist()}
    assert lengths == {1, 2, 3, 4}
    assert all(draft.q is not None for draft in proposals(FORMS["dspark-cut"]))


class ReadsItself(DSpark):
    """Whether a guess stays is decided by a confidence that has read the guess itself: it looks one token too far."""

    def guess(self, hidden: Tensor, verdict: Verdict, rule: Rule) -> Draft:
        draft = DSpark.guess(self, hidden, verdict, rule)
        on = (self.spark.sure(hidden, draft.tokens) > 0).long().cumprod(1).bool()
        return Draft.chain(draft.tokens.where(on, -1), draft.q)


class DropsTheUnlikely(DSpark):
    """A chain ends before the first guess that its own law holds for unlikely."""

    def guess(self, hidden: Tensor, verdict: Verdict, rule: Rule) -> Draft:
        draft = DSpark.guess(self, hidden, verdict, rule)
        assert draft.q is not None
        chance = draft.q.dense(V)[:, :-1].gather(-1, draft.tokens[..., None])[..., 0]
        return Draft.chain(draft.tokens.where((chance > 0.3).long().cumprod(1).bool(), -1), draft.q)


class TellsALaw(DFlash):
    """Children of the likeliest tree are said to be drawn from the laws that they were chosen by."""

    def guess(self, hidden: Tensor, verdict: Verdict, rule: Rule) -> Draft:
        law = rule.law(self.shared.head(hidden))
        draft = DFlash.guess(self, hidden, verdict, rule)
        depth = draft.tree.depth.clamp(max=hidden.shape[1] - 1)
        return replace(draft, q=laws.Dense(law.dense(V).gather(1, depth[..., None].expand(-1, -1, V))))


def remade(kind: type[Any], form: str) -> Any:
    """The drafter of this form as one of a mutant class."""
    sound = FORMS[form]
    return kind(**{f.name: getattr(sound, f.name) for f in fields(sound) if f.name != "least"})


@pytest.mark.law
@pytest.mark.parametrize(
    ("mutant", "form"), [(ReadsItself, "dspark-cut"), (DropsTheUnlikely, "dspark-cut"), (TellsALaw, "dflash-tree")],
    ids=["reads itself", "drops the unlikely", "tells a law"],
)  # fmt: skip
def test_blocks_cut_by_what_they_hold_and_trees_that_pose_as_drawn(mutant: type[Any], form: str) -> None:
    assert joint_law_pvalue(remade(mutant, form), Maximal(), FREE, N) < CAUGHT
