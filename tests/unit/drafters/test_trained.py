"""Every trained method of the table: level and serial passes, what a directory promises, that it learns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from laws.families import OTHER, PROMPTS, TARGET
from paceline.core import Rule, decode
from paceline.couplings import Gumbel
from paceline.drafters import METHODS, directory, method
from paceline.errors import UsageError
from paceline.sampling import Sampling
from paceline.train.taps import lesson, needs_of, tap
from unit.train.test_taps import ONE, TWO, deep

NAMES = [name for name in METHODS if hasattr(method(name), "loss")]
TALKS = [TWO, ONE]


def serial_passes(drafter: Any) -> set[int]:
    """How often a round calls the net, over some rounds."""
    calls, found = 0, set[int]()

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    handle = drafter.net.register_forward_hook(count)
    rounds = decode(TARGET, drafter, Rule(Sampling().law, Gumbel()), PROMPTS, torch.arange(3))
    next(rounds)
    for _ in range(4):
        calls = 0
        next(rounds)
        found.add(calls)
    handle.remove()
    return found


@pytest.mark.parametrize("name", NAMES)
def test_level_is_serial_passes(name: str) -> None:
    drafter = method(name).tiny(OTHER)
    passes = serial_passes(drafter)
    assert min(passes) >= 1
    assert (max(passes) > 1) == (drafter.level == 1), f"{name}: {passes} passes a round at level {drafter.level}"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_the_target_is_stored(name: str) -> None:
    drafter = method(name).tiny(deep())
    taken = {p.data_ptr() for p in deep().model.parameters()} | {drafter.shared.embed.weight.data_ptr()}  # type: ignore[attr-defined]
    assert not taken & {p.data_ptr() for p in drafter.net.parameters()}
    assert drafter.paired in (True, False)


@pytest.mark.parametrize("name", NAMES)
def test_a_directory_is_read_back_or_refused(name: str, tmp_path: Path) -> None:
    target = deep()
    drafter = method(name).tiny(target)
    directory.write(tmp_path, name, drafter, target, {"steps": 1})
    again = method(name).load(tmp_path, target, open_model=None)
    assert again.config == drafter.config
    for key, value in drafter.net.state_dict().items():
        stored = again.net.state_dict()[key]
        torch.testing.assert_close(stored, (value.half() if value.is_floating_point() else value).to(stored.dtype))
    _refused(name, tmp_path, target)


def _refused(name: str, path: Path, target: Any) -> None:
    """Another target, another convention, missing and extra tensors, unknown options."""

    def load(**options: Any) -> None:
        method(name).load(path, target, open_model=None, **options)

    with pytest.raises(UsageError, match="unknown option"):
        load(nonsense=1)
    record = json.loads((path / "paceline.json").read_text())
    for change, said in (
        ({"target": {**record["contract"]["target"], "embedding_sha256": "0"}}, "another target: its embedding_sha256"),
        ({"layer_ids": "from one"}, "holds layer_ids"),
        ({"template_sha256": "0"}, "holds template_sha256"),
    ):
        changed = {**record, "contract": {**record["contract"], **change}}
        (path / "paceline.json").write_text(json.dumps(changed))
        with pytest.raises(UsageError, match=said):
            load()
    (path / "paceline.json").write_text(json.dumps(record))
    whole = load_file(path / "model.safetensors")
    first = sorted(whole)[0]
    for tensors, said in (
        ({k: v for k, v in whole.items() if k != first}, "lack 1 tensors"),
        ({**whole, "other": torch.zeros(1)}, "too many, such as other"),
        ({**whole, first: torch.zeros(7, 3)}, "has shape"),
    ):
        save_file(tensors, path / "model.safetensors")
        with pytest.raises(UsageError, match=said):
            load()


@pytest.mark.parametrize("name", NAMES)
def test_it_learns_and_is_blind_to_padding(name: str) -> None:
    """The loss falls on one lesson, and talks side by side weigh what they weigh alone."""
    target = deep()
    target.model.requires_grad_(False)
    drafter = method(name).tiny(target)
    needs = needs_of([drafter], target.shared)
    both = lesson(tap(target, TALKS, needs), drafter)
    each = [lesson(tap(target, [talk], needs), drafter) for talk in TALKS]
    if _loss(drafter, both) == _loss(drafter, both, seed=6):  # what a loss draws may depend on the batch
        torch.testing.assert_close(_loss(drafter, both), _loss(drafter, each[0]) + _loss(drafter, each[1]))
    start = _loss(drafter, both)
    parameters = list(drafter.net.parameters())
    optimiser = torch.optim.Adam(parameters, lr=3e-3)
    for _ in range(12):
        optimiser.zero_grad()
        drafter.loss(both, torch.Generator().manual_seed(5)).value.backward()
        optimiser.step()
    assert _loss(drafter, both) < start
    assert all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in parameters)


def _loss(drafter: Any, made: Any, seed: int = 5) -> torch.Tensor:
    with torch.no_grad():
        return drafter.loss(made, torch.Generator().manual_seed(seed)).value
