"""The loop's further knobs: cosine, parts that are clipped apart, what is measured beside a step, trackers."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from paceline.errors import UsageError
from paceline.train.loop import LoopConfig, Outcome, Trainer
from paceline.train.trackers import open_tracker
from unit.train.test_loop import Pairs, net, objective


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def test_half_a_cosine_after_the_warm_up(tmp_path: Path) -> None:
    config = LoopConfig(steps=10, learning_rate=0.01, warmup_steps=2, schedule="cosine")
    Trainer(net(), objective, Pairs(), config, tmp_path).run()
    wanted = [0.5, 1.0, *(0.5 * (1 + math.cos(math.pi * i / 8)) for i in range(8))]
    assert [line["rate"] / 0.01 for line in lines(tmp_path)] == pytest.approx(wanted)
    with pytest.raises(ValueError, match="decays by itself"):
        LoopConfig(steps=10, learning_rate=0.01, schedule="cosine", decay_steps=3)


def test_parts_are_clipped_apart(tmp_path: Path) -> None:
    """A part with a huge gradient does not shrink the step of another."""
    ends = []
    for name, pull in (("calm", 1.0), ("wild", 1e6)):
        torch.manual_seed(0)
        model = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

        def both(model: nn.ModuleList, batch: Any, pull: float = pull) -> Outcome:  # type: ignore[assignment]
            loss = (model[0](batch.x) - batch.y).square().sum() + pull * model[1](batch.x).sum()
            return Outcome(loss, len(batch.x))

        config = LoopConfig(steps=3, learning_rate=0.01, warmup_steps=0, clip=0.5)
        Trainer(model, both, Pairs(), config, tmp_path / name, parts=list(model)).run()  # type: ignore[arg-type]
        ends.append(model[0].weight.detach().clone())  # type: ignore[operator,union-attr]
    assert torch.equal(*ends)


def test_what_is_measured_stands_in_the_log(tmp_path: Path) -> None:
    config = LoopConfig(steps=4, learning_rate=0.01)
    Trainer(
        net(), objective, Pairs(), config, tmp_path, measure=lambda step: {} if step % 2 else {"a/tau": step / 2}
    ).run()
    assert [line.get("a/tau") for line in lines(tmp_path)] == [None, 1.0, None, 2.0]


def test_a_tracker_hears_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[int, dict[str, float]]] = []
    fake: Any = ModuleType("trackio")
    fake.__spec__ = sys.__spec__
    fake.init = lambda project, name: None
    fake.log = lambda record, step: heard.append((step, record))
    fake.finish = lambda: heard.append((-1, {}))
    monkeypatch.setitem(sys.modules, "trackio", fake)
    config = LoopConfig(steps=2, learning_rate=0.01, tracker="trackio")
    Trainer(net(), objective, Pairs(), config, tmp_path).run()
    assert [step for step, _ in heard] == [1, 2, -1]
    assert {"loss", "norm", "rate"} <= set(heard[0][1])


def test_a_tracker_that_is_not_installed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install tensorboard"), open_tracker("tensorboard", tmp_path):
        pass
