"""Two processes under torchrun learn what one does: the loop alone, and in the slow version the trainer of drafters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from unit.train import school

LOOP = """
import sys
from dataclasses import dataclass
from pathlib import Path
import torch
from torch import nn
from paceline.train import parallel
from paceline.train.loop import LoopConfig, Outcome, Trainer

@dataclass(frozen=True)
class Source:
    def micro_batches(self, step):
        draw = torch.Generator().manual_seed(step)
        rows = torch.randn(5, 3, generator=draw)
        return [rows[i : i + 1] for i in range(5)][parallel.rank() :: parallel.world()]

class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 1), nn.Linear(3, 1)
        for p in self.parameters():
            nn.init.constant_(p, 0.1)

def objective(model, batch):  # b learns from some batches only: a process may have no gradient for it
    loss = (model.a(batch) - batch.sum()).square().sum()
    if batch[0, 0] > 0.5:
        loss = loss + model.b(batch).square().sum()
    return Outcome(loss, 1, {"seen": 1.0})

model = Two()
with parallel.group():
    config = LoopConfig(steps=6, learning_rate=0.1, schedule="cosine", warmup_steps=2)
    Trainer(model, objective, Source(), config, Path(sys.argv[1]), parts=[model.a, model.b]).run()
"""


def torchrun(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]


def obey(command: list[str]) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_loop_sums_gradients_of_both(tmp_path: Path) -> None:
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    obey([sys.executable, str(script), str(tmp_path / "one")])
    obey(torchrun(str(script), str(tmp_path / "two")))
    lines = [[json.loads(x) for x in (tmp_path / run / "log.jsonl").read_text().splitlines()] for run in ("one", "two")]
    assert len(lines[0]) == len(lines[1]) == 6
    for alone, together in zip(*lines, strict=True):
        assert alone["terms"] == together["terms"] == 5
        assert (alone["seen"], alone["rate"]) == (together["seen"], together["rate"])
        assert together["loss"] == pytest.approx(alone["loss"], rel=1e-4)
        assert together["norm"] == pytest.approx(alone["norm"], rel=1e-3, abs=1e-4)
    ours, theirs = (load_file(tmp_path / run / "step-00000006" / "model.safetensors") for run in ("one", "two"))
    for key in ours:
        torch.testing.assert_close(ours[key], theirs[key])


@pytest.mark.slow
def test_two_processes_learn_what_one_does(tmp_path: Path) -> None:
    target = school.target(tmp_path / "target")
    recipe = school.recipe(tmp_path, target)
    common = ["-m", "paceline.cli", "train", "-c", str(recipe), "loop.steps=3", "pack.rows_per_micro_batch=1"]
    one, two = tmp_path / "one", tmp_path / "two"
    obey([sys.executable, *common, "-o", str(one)])
    obey(torchrun(*common, "-o", str(two)))
    alone, together = school.log(one), school.log(two)
    assert [line["terms"] for line in alone] == [line["terms"] for line in together]
    for a, b in zip(alone, together, strict=True):
        for key in ("loss", "norm", "eagle/loss", "small/loss"):
            assert abs(a[key] - b[key]) < 2e-3 * abs(a[key]), (a, b)
    for name in ("eagle", "small"):
        ours, theirs = (load_file(run / "drafters" / name / "model.safetensors") for run in (one, two))
        for key in ours:
            torch.testing.assert_close(ours[key], theirs[key], rtol=2e-2, atol=2e-3)
