"""Values of the papers: sizes, weights of losses, which token each guess learns, what conditional drop keeps."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from paceline.conditioning import Full, Rows
from paceline.drafters.ar.dream import DreamConfig, DreamNet
from paceline.drafters.heads.goals import Goals, accuracies
from paceline.drafters.heads.hydra import HydraConfig, HydraNet
from paceline.drafters.heads.medusa import Medusa, MedusaConfig, MedusaNet
from paceline.drafters.heads.mtp import Mtp, MtpConfig, MtpNet, onward
from paceline.drafters.heads.pard import PardConfig, PardNet, conditional_drop, masks_of, sight
from paceline.drafters.lesson import Lesson
from unit.drafters.heads.replay import TARGET

H, V = 4096, 32_000


def matrices(net: nn.Module) -> int:
    """Parameters without norms, gates and biases."""
    return sum(p.numel() for p in net.parameters() if p.ndim > 1)


def meta(make: Any, *given: Any) -> nn.Module:
    with torch.device("meta"):
        return make(*given)


def test_published_sizes() -> None:
    assert matrices(meta(MedusaNet, H, V, MedusaConfig(guesses=3, own_head=True))) == 3 * (H * H + H * V)
    assert matrices(meta(MedusaNet, H, V, MedusaConfig(guesses=3))) == 3 * 2 * H * H
    dream = meta(DreamNet, H, DreamConfig(heads=32, groups=32, feed_forward=11_008))
    assert matrices(dream) == 3 * (4 * H * H + 3 * H * 11_008) == 607_125_504
    hydra = meta(
        HydraNet, H, V, HydraConfig(guesses=4, layers=4, prefix=True, heads=32, groups=32, feed_forward=11_008)
    )
    block = 4 * H * H + 3 * H * 11_008
    assert matrices(hydra) == 2 * (2 + 3 + 4 + 5) * H * H + 4 * 3 * H * H + block
    mtp = meta(MtpNet, H, MtpConfig(layers=1, heads=32, groups=32, feed_forward=11_008))
    assert matrices(mtp) == 2 * H * H + block
    pard = meta(PardNet, H, PardConfig(layers=1, heads=32, groups=32, feed_forward=11_008))
    assert matrices(pard) == block + H


@pytest.mark.parametrize(
    "net",
    [
        lambda: MedusaNet(256, 2560, MedusaConfig()), lambda: HydraNet(256, 2560, HydraConfig()),
        lambda: HydraNet(256, 2560, HydraConfig(guesses=3, prefix=True)), lambda: MtpNet(256, MtpConfig()),
        lambda: PardNet(256, PardConfig()), lambda: DreamNet(256, DreamConfig()),
    ],
    ids=["medusa", "hydra", "hydra++", "mtp", "pard", "dream"],
)  # fmt: skip
def test_beside_a_target_of_width_256_a_drafter_takes_four_megabytes_in_half_precision(net: Any) -> None:
    assert sum(p.numel() for p in meta(net).parameters()) * 2 <= 4e6


def worked() -> Lesson:
    """Paired rows: shared prompt of two, then branches a0 a1 a2 (answers a1 a2 a3) and b0 b1 (answer b1)."""
    owner = torch.tensor([[0, 0, 1, 1, 1, 2, 2]])
    labels = torch.tensor([[-1, -1, 1, 2, 3, 1, -1]])
    ids = torch.tensor([[0, 0, 0, 1, 2, 3, 1]])
    position = torch.tensor([[1, 2, 3, 4, 5, 3, 4]])
    own = (owner[:, None] == owner[..., None]) | (owner == 0)[:, None]
    see = own & torch.ones(7, 7, dtype=torch.bool).tril()
    noise = torch.randn(2, 1, 7, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    rows = Rows(ids, position, torch.ones_like(see[:, 0]), torch.zeros_like(see[:, 0]), noise[0])
    return Lesson("worked", rows, see, owner, labels, {8: noise[1]}, TARGET.shared)


def test_each_guess_learns_the_token_that_far_on_in_its_branch() -> None:
    goals = Goals(worked(), 3)
    assert [goal.labels.tolist() for goal in goals.each] == [
        [[-1, -1, 1, 2, 3, 1, -1]], [[-1, -1, 2, 3, -1, -1, -1]], [[-1, -1, 3, -1, -1, -1, -1]],
    ]  # fmt: skip
    assert [goal.row.tolist() for goal in goals.each[1:]] == [
        [[-1, -1, 3, 4, -1, -1, -1]], [[-1, -1, 4, -1, -1, -1, -1]],
    ]  # fmt: skip


def test_the_law_of_a_guess_is_the_targets_where_it_is_said() -> None:
    lesson, head = worked(), TARGET.shared.head
    goals = Goals(lesson, 3)
    for guess, rows in ((0, [2, 3, 4, 5]), (1, [3, 4]), (2, [4])):
        torch.testing.assert_close(goals.law(guess), head(lesson.at[8][0, rows]).softmax(-1))


def test_a_teachers_share_of_all_is_divergence_and_entropy() -> None:
    goals = Goals(worked(), 1)
    logits = torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    law = goals.law(0)
    divergence = nn.functional.kl_div(logits.log_softmax(-1), law.log(), log_target=True, reduction="sum")
    soft, _ = goals.entropy(0, logits, 1.0)
    torch.testing.assert_close(soft, divergence - (law * law.log()).sum())
    hard, right = goals.entropy(0, logits, 0.0)
    torch.testing.assert_close(hard, nn.functional.cross_entropy(logits, torch.tensor([1, 2, 3, 1]), reduction="sum"))
    assert right == (logits.argmax(-1) == torch.tensor([1, 2, 3, 1])).sum()
    half, _ = goals.entropy(0, logits, 0.5)
    torch.testing.assert_close(half, (soft + hard) / 2)


def test_medusas_heads_weigh_0_8_to_the_k() -> None:
    drafter = Medusa.tiny(TARGET)
    goals = Goals(worked(), 3)
    each = [goals.entropy(k, logits, 0.0)[0] for k, logits in enumerate(drafter.forced(goals))]
    loss = drafter.loss(worked(), torch.Generator())
    torch.testing.assert_close(loss.value, 0.8 * each[0] + 0.64 * each[1] + 0.512 * each[2])
    assert loss.terms == 4
    assert MedusaConfig().decay == 0.8


@pytest.mark.parametrize("own", [True, False])
def test_medusas_new_heads_say_what_the_target_says(own: bool) -> None:
    drafter = Medusa.create(TARGET.shared, MedusaConfig(own_head=own), Full())
    hidden = torch.randn(3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for k in range(4):
        said = drafter.net.logits(drafter.net(hidden)[:, k], k, TARGET.shared)
        torch.testing.assert_close(said, TARGET.shared.head(hidden))


def test_hydras_heads_read_more_and_more() -> None:
    net = HydraNet(4, 4, HydraConfig(guesses=3))
    assert [head.mix.in_features for head in net.heads] == [8, 12, 16]  # type: ignore[union-attr]
    read = torch.randn(2, 1, 12)
    first, second = net.heads[1](read), net.heads[1].skip(read) + nn.functional.silu(net.heads[1].mix(read))  # type: ignore[operator]
    torch.testing.assert_close(first, second)


def test_where_mtp_finds_the_token_further_on() -> None:
    lesson = worked()
    assert onward(lesson, 0).tolist() == [[0, 1, 2, 3, 4, 5, 6]]
    assert onward(lesson, 1).tolist() == [[1, -1, 3, 4, -1, 6, -1]]  # two branches: nobody knows what follows row 1
    one = Lesson(
        "one", lesson.rows, lesson.see, torch.tensor([[0, 0, 1, 1, 1, -1, -1]]), lesson.labels, lesson.at, lesson.shared
    )
    assert onward(one, 2).tolist() == [[2, 3, 4, -1, -1, -1, -1]]


def test_mtp_averages_its_depths() -> None:
    drafter = Mtp.tiny(TARGET)
    goals = Goals(worked(), 3)
    each = [goals.entropy(k, logits, 0.0)[0] for k, logits in enumerate(drafter.forced(goals))]
    torch.testing.assert_close(drafter.loss(worked(), torch.Generator()).value, sum(each) / 3)


def wanted(rows: int, guesses: int) -> list[Tensor]:
    return [torch.arange(rows).expand(2, -1) < rows - i for i in range(guesses)]


def test_conditional_drop_keeps_a_third_and_whole_stairs() -> None:
    rows = 4000
    kept = conditional_drop(wanted(rows, 8), 0.7, 0.2, torch.Generator().manual_seed(2))
    shares = [float(where.sum()) / (2 * rows) for where in kept]
    assert shares == pytest.approx([max(0.7**i, 0.2) for i in range(8)], abs=0.003)
    assert sum(shares) == pytest.approx(3.373, abs=0.01)
    assert all(bool((more | ~fewer).all()) for more, fewer in itertools.pairwise(kept))


def test_conditional_drop_is_a_matter_of_its_generator() -> None:
    one, same, other = (
        conditional_drop(wanted(50, 4), 0.7, 0.2, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert all(a.equal(b) for a, b in zip(one, same, strict=True))
    assert not all(a.equal(b) for a, b in zip(one, other, strict=True))


def test_a_mask_sees_what_its_row_sees_and_the_masks_between() -> None:
    kept = [
        torch.tensor([[True, True, False]]),
        torch.tensor([[True, True, False]]),
        torch.tensor([[True, False, False]]),
    ]
    anchor, copy, valid = masks_of(kept)
    assert (anchor.tolist(), copy.tolist(), valid.tolist()) == ([[0, 1, 0]], [[1, 1, 2]], [[True] * 3])
    see = torch.ones(1, 3, 3, dtype=torch.bool).tril()
    assert sight(see, anchor, copy, valid)[0].int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 0, 0, 1, 0, 0],  # guess 1 of row 0
        [1, 1, 0, 0, 1, 0],  # guess 1 of row 1
        [1, 0, 0, 1, 0, 1],  # guess 2 of row 0
    ]


def test_how_often_each_choice_is_right() -> None:
    """Rows 2, 3, 4 and 5 learn tokens 1, 2, 3 and 1; rows 2 and 3 then 2 and 3."""
    ladder = torch.tensor([[3.0, 2.0, 1.0, 0.0]])  # choices in the order of the ids

    def forced(goals: Goals) -> list[Tensor]:
        return [ladder.expand(int(goal.where.sum()), -1) for goal in goals.each]

    assert accuracies(forced, [worked(), worked()], 2, choices=5) == [[0, 0.5, 0.25, 0.25, 0], [0, 0, 0.5, 0.5, 0]]
    with pytest.raises(ValueError, match="guess 4 is learnt nowhere"):
        accuracies(forced, [worked()], 4)
