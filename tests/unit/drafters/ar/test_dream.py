"""DREAM: what its blocks see, what its losses weigh, and that a node of a tree knows its ancestors alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from paceline import tree
from paceline.conditioning import Full
from paceline.core import Draft, Prompt, Rule, settle
from paceline.couplings import Gumbel
from paceline.dice import Dice
from paceline.drafters.ar.dream import Dream, DreamConfig, regression, unroll
from paceline.drafters.ar.growth import Growing
from paceline.drafters.heads.goals import Goals
from paceline.drafters.lesson import Lesson
from paceline.errors import UsageError
from paceline.sampling import Sampling
from unit.drafters.heads.replay import TARGET
from unit.drafters.heads.test_references import worked


def lesson(pad: int = 0) -> Lesson:
    """The worked example, with a layer to distil and so many rows of padding."""
    made = worked()
    noise = torch.randn(1, 7, 4, generator=torch.Generator().manual_seed(8), dtype=torch.float64)
    made = replace(made, at={**made.at, 6: noise})
    if not pad:
        return made
    rows = made.rows
    wide = replace(
        rows, ids=F.pad(rows.ids, (0, pad)), position=F.pad(rows.position, (0, pad)), valid=F.pad(rows.valid, (0, pad)),
        image=F.pad(rows.image, (0, pad)), features=F.pad(rows.features, (0, 0, 0, pad)),
    )  # fmt: skip
    see = F.pad(made.see, (0, pad, 0, pad)) | torch.eye(7 + pad, dtype=torch.bool)
    return Lesson(
        made.name, wide, see, F.pad(made.owner, (0, pad), value=-1), F.pad(made.labels, (0, pad), value=-1),
        {k: F.pad(v, (0, 0, 0, pad)) for k, v in made.at.items()}, made.shared,
    )  # fmt: skip


def test_the_loss_is_one_divergence_and_a_fifth_of_two_regressions() -> None:
    tiny = Dream.tiny(TARGET)
    drafter, told = replace(tiny, config=replace(tiny.config, unroll=1)), lesson()
    goals = Goals(told, 1)
    ((state, first),) = unroll(drafter, goals)
    assert first is not None
    where = goals.each[0].where
    q, p = TARGET.shared.head(state).log_softmax(-1), goals.law(0)
    divergence = F.kl_div(q, p.log(), log_target=True, reduction="batchmean") * 4  # over the vocabulary: summed
    feature = F.smooth_l1_loss(state, told.at[8][where]) * 4
    distill = F.smooth_l1_loss(first, told.at[6][where]) * 4
    loss = drafter.loss(told, torch.Generator())
    torch.testing.assert_close(loss.value, divergence + 0.2 * feature + 0.2 * distill)
    assert loss.terms == 4
    assert drafter.lesson_layers == (6,)  # three quarters of eight


def test_later_steps_weigh_less_and_have_no_first_block_to_teach() -> None:
    drafter, told = Dream.tiny(TARGET), lesson()
    goals = Goals(told, 3)
    total = torch.zeros((), dtype=torch.float64)
    for j, (state, first) in enumerate(unroll(drafter, goals)):
        assert (first is None) == (j > 0)
        q, goal = TARGET.shared.head(state).log_softmax(-1), goals.each[j]
        total = total + 0.8**j * F.kl_div(q, goals.law(j).log(), log_target=True, reduction="sum")
        total = total + 0.8**j * 0.2 * regression(state, told.at[8][0, goal.row[goal.where]])
        total = total + (0.2 * regression(first, told.at[6][goal.where]) if first is not None else 0)
    torch.testing.assert_close(drafter.loss(told, torch.Generator()).value, total)


def test_the_loss_is_blind_to_padding() -> None:
    drafter = Dream.tiny(TARGET)
    torch.testing.assert_close(
        drafter.loss(lesson(), torch.Generator()).value, drafter.loss(lesson(3), torch.Generator()).value
    )


def states(drafter: Dream, told: Lesson) -> list[Tensor]:
    return [state for state, _ in unroll(drafter, Goals(told, 3))]


def test_no_row_sees_the_states_of_later_tokens() -> None:
    """Rows that learn are 2, 3, 4 and 5; the features of row r are those of the token before its own."""
    drafter, told = Dream.tiny(TARGET), lesson()
    before = states(drafter, told)
    for row in (3, 4):
        features = told.rows.features.clone()
        features[0, row] += 1
        after = states(drafter, replace(told, rows=replace(told.rows, features=features)))
        changed = ((after[0] - before[0]).abs().amax(-1) > 1e-9).tolist()
        assert changed == [r >= row for r in (2, 3, 4)] + [False]
        for j in (1, 2):  # steps ahead stand on the states up to where they began
            moved = ((after[j] - before[j]).abs().amax(-1) > 1e-9).tolist()
            assert moved == [r >= row for r in (2, 3)[: 3 - j]]


def test_closed_gates_leave_the_middle_out() -> None:
    drafter, told = Dream.create(TARGET.shared, DreamConfig(heads=2, groups=1, feed_forward=8), Full()), lesson()
    noise = replace(told, rows=replace(told.rows, features=told.rows.features + 5))
    assert all(a.equal(b) for a, b in zip(states(drafter, told), states(drafter, noise), strict=True))
    drafter.loss(told, torch.Generator()).value.backward()
    gate = drafter.net.zero_gate_cross
    assert gate.item() == 0
    assert gate.grad is not None
    assert gate.grad.abs() > 0


def opened(drafter: Dream) -> Growing:
    """A round's passes behind the prompts of two conversations."""
    rule = Rule(Sampling().law, Gumbel())
    prompts = [Prompt(torch.tensor(ids)) for ids in ([0, 1, 2, 3, 1], [2, 3, 1])]
    session, context, seen = TARGET.open(prompts, drafter.needs)
    guesser = drafter.open(session, context, rule)
    dice = Dice(torch.arange(2), session.length + 1, torch.zeros(2, dtype=torch.long))
    verdict = settle(Draft.none(session.length), seen, rule, dice)
    rows = guesser.seen.rows(verdict)
    state = guesser._read(rows)[:, :1]
    return Growing(guesser._guess, guesser.memory, state, verdict)


def test_a_node_of_a_tree_sees_its_ancestors_and_their_states_alone() -> None:
    """Two levels of two: what follows each node equals what follows it on a chain of its own."""
    drafter = Dream.tiny(TARGET)
    level = [torch.tensor([[0, 3], [2, 1]]), torch.tensor([[1, 2], [3, 0]])]
    with torch.inference_mode():
        growing = opened(drafter)
        first = growing.step(level[0], torch.zeros(2, 2, dtype=torch.long), tree.of(torch.tensor([[0, 0]])), 1)
        came = torch.tensor([[0, 0]]).expand(2, -1)  # both under the first
        second = growing.step(level[1], came, tree.of(torch.tensor([[0, 0, 1, 1]])), 3)
        for node in range(2):
            alone = opened(drafter)
            torch.testing.assert_close(alone.after(level[0][:, node : node + 1], 1), first[:, node])
            alone = opened(drafter)
            alone.after(level[0][:, :1], 1)
            torch.testing.assert_close(alone.after(level[1][:, node : node + 1], 2), second[:, node])


@pytest.mark.parametrize(
    ("config", "said"), [(DreamConfig(distill_layer=9), "layers 1 to 8"), (DreamConfig(heads=3, groups=3), "multiple")]
)
def test_what_does_not_fit_the_target_is_refused(config: DreamConfig, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Dream.create(TARGET.shared, config, Full())
