"""Noise is uniform, repeatable, and independent wherever its key differs."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import kstest

from paceline.dice import DRAFTER, LANES, Dice

N = 20_000


def dice(position: int = 3, turn: int = 0, actor: int = 0, first: int = 0) -> Dice:
    return Dice(torch.arange(first, first + N), torch.full((N,), position), torch.full((N,), turn), actor)


ONE = torch.tensor([5])
KEYS = {
    "position": dice(position=4).uniform(2, ONE),
    "turn": dice(turn=1).uniform(2, ONE),
    "actor": dice(actor=DRAFTER).uniform(2, ONE),
    "lane": dice().uniform(3, ONE),
    "token": dice().uniform(2, torch.tensor([6])),
    "seed": dice(first=1).uniform(2, ONE),
    "shared": dice().uniform(2, ONE, shared=True),
}


def test_uniform_in_the_open_interval() -> None:
    u = dice().uniform(0, torch.arange(20))
    assert u.min() > 0
    assert u.max() < 1
    assert kstest(u.flatten().numpy(), "uniform").pvalue > 1e-4


@pytest.mark.parametrize("key", KEYS)
def test_each_part_of_the_key_gives_other_noise(key: str) -> None:
    pair = torch.stack([dice().uniform(2, ONE)[:, 0], KEYS[key][:, 0]])
    assert abs(float(torch.corrcoef(pair)[0, 1])) < 5 / N**0.5


def test_shared_noise_forgets_turn_and_actor() -> None:
    a = dice().uniform(0, ONE, shared=True)
    assert a.equal(dice(turn=9, actor=DRAFTER).uniform(0, ONE, shared=True))


def test_ids_may_come_in_any_shape() -> None:
    at = Dice(torch.tensor([1, 2]), torch.tensor([[5, 6, 7], [8, 9, 10]]), torch.tensor([0, 4]))
    dense = at.uniform(1, torch.arange(9))
    picked = torch.tensor([[[8, 2]] * 3, [[0, 5]] * 3])
    assert at.uniform(1, picked).equal(dense.gather(-1, picked))
    assert at.keep(torch.tensor([1])).uniform(1, torch.arange(9)).equal(dense[1:])


def test_a_lane_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match=f"lane {LANES}"):
        dice().uniform(LANES, ONE)
