"""Block drafters: published sizes and layers, lessons equal to drafting, one pass a round, losses that teach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from paceline.clock import Phase, Stopwatch
from paceline.conditioning import Conditioner, Full, Pool, Prune, Recent, TextOnly
from paceline.core import Needs, Prompt, Rule, Shared, decode
from paceline.couplings import Gumbel
from paceline.drafters import method
from paceline.drafters.block import anchors, dflash
from paceline.drafters.block.dflash import BlockNet, DFlash, DFlashConfig, taps
from paceline.drafters.block.dspark import DSpark, DSparkConfig, SparkNet
from paceline.errors import UsageError
from paceline.sampling import Sampling
from unit.drafters.heads.replay import PROMPTS, TARGET, TRUTH, V, lesson, rounds

NAMES = ("dflash", "dspark")
CONDITIONERS: dict[str, Conditioner] = {
    "full": Full(), "text-only": TextOnly(), "prune": Prune(0.5, "attention"), "pool": Pool(2), "recent": Recent(3),
}  # fmt: skip


@pytest.mark.parametrize(
    ("depth", "count", "published"),
    [(36, 5, [1, 9, 17, 25, 33]), (28, 5, [1, 7, 13, 19, 25]), (32, 5, [1, 8, 15, 22, 29]), (24, 5, [1, 6, 11, 16, 21]),
     (36, 1, [18]), (10, 3, [1, 4, 7])],
)  # fmt: skip
def test_taps_are_the_published_layers_as_hidden_states(depth: int, count: int, published: list[int]) -> None:
    assert taps(depth, count) == tuple(layer + 1 for layer in published)


@pytest.mark.parametrize(("depth", "count"), [(6, 5), (3, 2), (8, 0)])
def test_taps_that_fall_together_are_refused(depth: int, count: int) -> None:
    with pytest.raises(UsageError, match="do not fit a target"):
        taps(depth, count)


def parameters(net: nn.Module, *, norms: bool = True) -> int:
    return sum(p.numel() for p in net.parameters() if norms or p.ndim > 1)


@pytest.mark.parametrize(
    ("width", "config", "millions"),
    [(4096, DFlashConfig(taps(36, 5), 5, 32, 8, 12288, 16), 1048.6),  # Qwen3-8B
     (3584, DFlashConfig(taps(28, 5), 5, 28, 4, 18944, 16), 1229.5),  # Qwen2.5-VL-7B
     (2048, DFlashConfig(taps(36, 5), 5, 16, 2, 11008, 16), 406.3)],  # Qwen2.5-VL-3B
)  # fmt: skip
def test_published_drafters_have_their_published_sizes(width: int, config: DFlashConfig, millions: float) -> None:
    with torch.device("meta"):
        found = parameters(BlockNet(width, config), norms=False)
    assert found / 1e6 == pytest.approx(millions, abs=0.06)


def test_the_bundled_sizes_are_small_beside_the_target() -> None:
    """For a target of 8.6 M parameters, width 256, 10 layers, 2,560 ids: 15-20 % and below 4 MB in half precision."""
    flash, spark = BlockNet(256, DFlashConfig(taps(10, 3))), SparkNet(256, DSparkConfig(taps(10, 3)), 2560)
    assert 0.15 < parameters(flash) / 8.6e6 < 0.2
    assert parameters(flash) == 3 * 256 * 256 + 2 * (256 * 256 * 3 + 3 * 256 * 512 + 2 * 256 + 2 * 64) + 3 * 256
    assert parameters(spark) - parameters(flash) == 2 * 2560 * 64 + 256 + 64 + 1
    assert 2 * parameters(spark) < 4e6


def tiny(name: str, **changes: Any) -> Any:
    return replace(method(name).tiny(TARGET), **changes)


def taught(drafter: Any, row: int) -> dict[int, Tensor]:
    """Position of a root -> logits [K, V] of the block behind it, as the loss sees them, right guesses before each."""
    told, rows = lesson(drafter, row)
    behind = anchors.draw_anchors(told, 99, torch.Generator())
    hidden = drafter.taught(told, behind)
    logits = drafter.shared.head(hidden)
    if isinstance(drafter, DSpark):
        root = rows.position.gather(1, behind)
        ahead = (root[..., None] + torch.arange(drafter.places)).clamp(max=TRUTH.shape[1] - 1)
        logits = logits + drafter.spark.bias(TRUTH[row][ahead])
    return dict(zip(rows.position.gather(1, behind)[0].tolist(), logits[0], strict=True))


def drafted(drafter: Any) -> Iterator[tuple[int, int, int, Tensor]]:
    """(row, guess, position of the root, logits [V]) of every guess whose forerunners were right."""
    for each in rounds(drafter):
        logits = torch.cat([z if z.dim() == 3 else z[:, None] for z in each.logits], 1)
        for row, root in enumerate(each.root):
            for guess in range(logits.shape[1]):
                if drafter.first == 0 and guess and each.draft.tokens[row, guess - 1] != TRUTH[row, root + guess]:
                    break
                yield row, guess, root, logits[row, guess]


@pytest.mark.parametrize("conditioner", CONDITIONERS)
@pytest.mark.parametrize("name", NAMES)
def test_drafting_says_what_training_taught(name: str, conditioner: str) -> None:
    drafter = tiny(name, conditioner=CONDITIONERS[conditioner])
    known = [taught(drafter, row) for row in range(len(PROMPTS))]
    met = [0] * drafter.places
    for row, guess, root, logits in drafted(drafter):
        torch.testing.assert_close(logits, known[row][root][guess], rtol=0, atol=1e-12)
        met[guess] += 1
    assert min(met) >= 5, f"too few guesses were compared: {met}"
    assert len({tuple(each.verdict.length.tolist()) for each in rounds(drafter)} - {(1, 1, 1)}) > 2, "never ragged"


@pytest.mark.parametrize("name", NAMES)
def test_parity_notices_a_block_that_sees_its_anchors_features(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def leaking(see: Tensor, at: Tensor, n: int) -> Tensor:
        mask = anchors.behind(see, at, n)
        own = F.one_hot(at.repeat_interleave(n, 1), mask.shape[3]).bool()
        return mask | own[:, None]

    monkeypatch.setattr(dflash, "behind", leaking)
    with pytest.raises(AssertionError):
        test_drafting_says_what_training_taught(name, "full")


@pytest.mark.parametrize("name", NAMES)
def test_a_block_does_not_see_other_blocks_of_its_lesson(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drafter = tiny(name)
    told, _ = lesson(drafter, 1)
    together = torch.tensor([[6, 9, 11, 20]])

    def alone_and_together() -> tuple[Tensor, Tensor]:
        alone = [drafter.taught(told, together[:, i : i + 1]) for i in range(4)]
        return torch.cat(alone, 1), drafter.taught(told, together)

    torch.testing.assert_close(*alone_and_together(), rtol=0, atol=1e-12)

    def leaking(see: Tensor, at: Tensor, n: int) -> Tensor:
        mask = anchors.behind(see, at, n).clone()
        mask[..., see.shape[2] :] = True
        return mask

    monkeypatch.setattr(dflash, "behind", leaking)
    alone, joint = alone_and_together()
    assert (alone - joint).abs().max() > 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_a_block_see_one_another_in_both_directions(name: str) -> None:
    """A place's law changes when a place behind it is taken away: that is how a smaller block differs."""
    full, less = ([each.logits for each in rounds(tiny(name, guesses=g))] for g in (0, 2))
    assert full[0][0].shape != less[0][0].shape or name == "dspark"
    first = [z[0] if z[0].dim() == 2 else z[0][:, 0] for z in (full[0], less[0])]
    assert (first[0] - first[1]).abs().max() > 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_a_token_is_read_once_and_a_round_is_one_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drafter, read, passes = tiny(name), list[int](), list[int]()
    inject, forward = BlockNet.inject, BlockNet.forward

    def counting(self: BlockNet, features: Tensor, at: Any, into: Any) -> None:
        read.append(features.shape[1])
        inject(self, features, at, into)

    def passing(self: BlockNet, x: Tensor, *given: Any) -> Tensor:
        passes.append(x.shape[1])
        return forward(self, x, *given)

    monkeypatch.setattr(BlockNet, "inject", counting)
    monkeypatch.setattr(BlockNet, "forward", passing)
    clock = Stopwatch()
    told = decode(TARGET, drafter, Rule(Sampling().law, Gumbel()), [Prompt(torch.tensor([2, 3, 3, 0]))],
                  torch.arange(1), clock=clock)  # fmt: skip
    length = [int(next(told).length[0]) for _ in range(6)]
    assert sum(read) == 3 + sum(length[:-1]), "all rows but the root, which the target has not read, each once"
    assert passes == [drafter.config.block_size] * 5
    phases: set[Phase] = {"condition", "draft"}
    assert phases <= set(clock.seconds)


def naive(drafter: Any, row: int) -> float:
    """The loss over all anchors of a lesson, place by place in plain words."""
    total, known = 0.0, taught(drafter, row)
    config, shared, told = drafter.config, drafter.shared, lesson(drafter, row)[0]
    text = TRUTH[row]
    for root, logits in known.items():
        places = [k for k in range(drafter.places) if root + 1 + k < len(text)]
        worth = [2.718281828459045 ** (-k / config.decay) for k in places]
        for k, w in zip(places, worth, strict=True):
            truth = int(text[root + 1 + k])
            cost = -float(logits[k].log_softmax(-1)[truth])
            if isinstance(drafter, DSpark):
                at = (told.rows.position[0] == root + k).nonzero().item()
                p = shared.head(told.at[shared.depth][0, int(at)]).softmax(-1)
                far = float((logits[k].softmax(-1) - p).abs().sum())
                behind = torch.tensor([[(told.rows.position[0] == root).nonzero().item()]])
                hidden = drafter.taught(told, behind)[0, 0, k]
                sure = drafter.spark.sure(hidden, text[root + k]).sigmoid().item()
                rate = 1 - far / 2
                doubt = -(rate * torch.tensor(sure).log() + (1 - rate) * torch.tensor(1 - sure).log()).item()
                cost = 0.1 * cost + 0.9 * far + 1.0 * doubt
            total += cost * w / sum(worth)
    return total


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_the_loss_is_its_formula(name: str) -> None:
    drafter = tiny(name)
    drafter = replace(drafter, config=replace(drafter.config, anchors=99))
    found = drafter.loss(lesson(drafter, 0)[0], torch.Generator())
    assert found.terms == len(taught(drafter, 0)) > 30
    assert float(found.value) == pytest.approx(naive(drafter, 0), rel=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_reach_every_weight(name: str) -> None:
    drafter = tiny(name)
    for weight in drafter.net.parameters():
        weight.requires_grad_(True)
    drafter.loss(lesson(drafter, 1)[0], torch.Generator()).value.backward()
    assert [n for n, p in drafter.net.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_drafter_learns_a_text_by_heart(name: str) -> None:
    """In 60 steps: which tokens follow, or, where the loss asks for laws, what the target's laws are."""
    config = method(name).Config(layers=(2, 5), depth=2, heads=2, groups=1, feed_forward=32, block_size=4, anchors=16)
    drafter = method(name).create(wide(TARGET.shared), config, Full(), seed=3)
    told = widened(lesson(replace(drafter, shared=TARGET.shared), 1)[0], drafter.shared)
    optimiser = torch.optim.Adam(drafter.net.parameters(), lr=0.02)
    losses: list[float] = []
    for step in range(60):
        loss = drafter.loss(told, torch.Generator().manual_seed(step))
        optimiser.zero_grad()
        (loss.value / loss.terms).backward()
        optimiser.step()
        losses.append(loss.value.item() / loss.terms)
    assert sum(losses[-5:]) < 0.6 * sum(losses[:5])
    assert loss.sums["run"] / loss.terms > 1.5 if name == "dflash" else loss.sums["rate"] / loss.terms > 0.85


def wide(shared: Shared, factor: int = 4) -> Shared:
    """A table's embedding and head, repeated side by side: four numbers are too few to learn with."""
    return replace(
        shared, embed=lambda ids: shared.embed(ids).repeat_interleave(factor, -1),
        head=lambda hidden: shared.head(hidden.unflatten(-1, (-1, factor)).mean(-1)) * 4, width=factor * shared.width,
    )  # fmt: skip


def widened(told: Any, shared: Shared) -> Any:
    """The lesson with features of the wider target."""
    layers = told.rows.features.unflatten(-1, (-1, V)).repeat_interleave(shared.width // V, -1)
    at = {k: states.repeat_interleave(shared.width // V, -1) for k, states in told.at.items()}
    return replace(told, rows=replace(told.rows, features=layers.flatten(-2)), shared=shared, at=at)


@pytest.mark.parametrize(
    ("config", "words"),
    [({"heads": 4, "groups": 3}, "must be a multiple"), ({"heads": 3}, "does not divide"),
     ({"layers": (9,)}, "do not exist"), ({"mask_id": 4}, "ids 0 … 3"),
     ({"block_size": 1}, "block_size 2 or more"), ({"decay": 0.0}, "decay positive")],
)  # fmt: skip
def test_configs_that_do_not_fit_are_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        DFlash.create(TARGET.shared, DFlashConfig(**{"heads": 2, "groups": 1, **config}), Full())


def test_options_out_of_reach_are_refused() -> None:
    with pytest.raises(UsageError, match="guesses must be 0 … 3"):
        tiny("dflash", guesses=4)
    assert tiny("dspark", guesses=4).places == 4
    with pytest.raises(UsageError, match="a chance"):
        tiny("dspark", least=1.5)
    with pytest.raises(UsageError, match="rank must be"):
        DSparkConfig(rank=0)


def test_the_mask_is_a_vector_of_its_own_or_a_row_of_the_table() -> None:
    own = tiny("dflash")
    row = DFlash.create(TARGET.shared, replace(own.config, mask_id=2), Full())
    assert row.net.mask is None
    block = row.block(torch.tensor([1, 3]), 3)
    assert block.equal(TARGET.shared.embed(torch.tensor([[1, 2, 2], [3, 2, 2]])))
    assert own.block(torch.tensor([1]), 3)[0, 2].equal(own.net.mask)
    assert own.needs == Needs(layers=(2, 5))
