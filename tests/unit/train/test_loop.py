"""The loop: a killed run resumes to the same bits, a decay can be ordered at any moment, a bad loss stops it."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.train import checkpoint
from paceline.train.loop import Diverged, LoopConfig, Outcome, Trainer


@dataclass(frozen=True)
class Pair:
    name: str
    x: Tensor
    y: Tensor


@dataclass(frozen=True)
class Pairs:
    """Two micro-batches of unequal size a step, a function of the step."""

    poison: int = -1

    def micro_batches(self, step: int) -> list[Pair]:
        made = []
        for part, size in enumerate((3, 5)):
            generator = torch.Generator().manual_seed(1000 * step + part)
            x = torch.randn(size, 4, generator=generator)
            made.append(
                Pair(
                    f"step {step} part {part}",
                    x,
                    torch.full_like(x, float("nan")) if step == self.poison else x.flip(1),
                )
            )
        return made


def objective(model: nn.Module, batch: Pair) -> Outcome:
    guess = functional.dropout(model(batch.x), 0.2, training=True)  # uses the global random state on purpose
    return Outcome(functional.mse_loss(guess, batch.y, reduction="sum"), len(batch.x))


def net() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4))
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3, generator=generator)
    return model


CONFIG = LoopConfig(steps=12, learning_rate=1e-2, warmup_steps=2, decay_steps=4)


def train(where: Path, config: LoopConfig = CONFIG, source: Pairs | None = None) -> nn.Module:
    model = net()
    Trainer(model, objective, source or Pairs(), config, where).run()
    return model


def same(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_a_run_stopped_by_a_signal_resumes_to_the_same_bits(tmp_path: Path, optimiser) -> None:
    config = replace(CONFIG, optimiser=optimiser)
    with torch.random.fork_rng():
        torch.random.manual_seed(3)
        straight = train(tmp_path / "straight", config)
        torch.random.manual_seed(3)

        @dataclass(frozen=True)
        class Interrupted(Pairs):
            def micro_batches(self, step: int) -> list[Pair]:
                if step == 5:
                    os.kill(os.getpid(), signal.SIGTERM)
                return super().micro_batches(step)

        with pytest.raises(KeyboardInterrupt, match="stopped at step 6"):
            train(tmp_path / "broken", config, Interrupted())
        torch.random.manual_seed(99)  # the checkpoint, not the process, must bring the random state back
        resumed = train(tmp_path / "broken", config)
    assert same(straight, resumed)
    lines = [json.loads(line) for line in (tmp_path / "broken" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 13))


def test_a_kill_while_writing_leaves_the_older_checkpoint(tmp_path: Path) -> None:
    with torch.random.fork_rng():
        torch.random.manual_seed(3)
        train(tmp_path, replace(CONFIG, steps=3))
    (tmp_path / ".writing-00000009").mkdir()
    (tmp_path / "step-00000009").mkdir()  # renamed but without its last file
    found = checkpoint.latest(tmp_path)
    assert found is not None
    assert found.name == "step-00000003"


def test_lines_logged_after_the_checkpoint_are_dropped_on_resume(tmp_path: Path) -> None:
    with torch.random.fork_rng():
        train(tmp_path, replace(CONFIG, steps=3))
        log = tmp_path / "log.jsonl"
        log.write_text(log.read_text() + '{"step": 4, "loss": 1}\n{"step": 5, "lo')
        train(tmp_path, replace(CONFIG, steps=4))
    assert [json.loads(line)["step"] for line in log.read_text().splitlines()] == [1, 2, 3, 4]


def test_a_loss_that_is_not_finite_stops_and_names_batch_and_checkpoint(tmp_path: Path) -> None:
    with torch.random.fork_rng():
        train(tmp_path, replace(CONFIG, steps=3))
        with pytest.raises(Diverged, match=r"step 3: .*step 3 part 0.*step-00000003"):
            train(tmp_path, CONFIG, Pairs(poison=3))
    found = checkpoint.latest(tmp_path)
    assert found is not None
    assert found.name == "step-00000003"


def test_the_control_file_starts_the_decay_and_the_run_ends_at_rate_near_zero(tmp_path: Path) -> None:
    tmp_path.joinpath("control.json").write_text('{"decay_from": 5, "decay_steps": 3}')
    with torch.random.fork_rng():
        train(tmp_path, replace(CONFIG, steps=1000, decay_steps=0))
    rates = [json.loads(line)["rate"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert len(rates) == 8
    assert rates[4] == pytest.approx(1e-2)
    assert rates[5:] == pytest.approx([7.5e-3, 5e-3, 2.5e-3])


def test_gradients_weigh_terms_alike_whatever_the_micro_batch(tmp_path: Path) -> None:
    """One step over micro-batches of 3 and 5 rows equals one step over their union."""

    class Union(Pairs):
        def micro_batches(self, step: int) -> list[Pair]:
            a, b = super().micro_batches(step)
            return [Pair("union", torch.cat([a.x, b.x]), torch.cat([a.y, b.y]))]

    def plain(model: nn.Module, batch: Pair) -> Outcome:
        return Outcome(functional.mse_loss(model(batch.x), batch.y, reduction="sum"), len(batch.x))

    models = [net().double(), net().double()]

    class Wide(Pairs):
        def __init__(self, inner: Pairs) -> None:
            object.__setattr__(self, "inner", inner)

        def micro_batches(self, step: int) -> list[Pair]:
            return [Pair(p.name, p.x.double(), p.y.double()) for p in self.inner.micro_batches(step)]

    for number, source in enumerate((Pairs(), Union())):
        Trainer(models[number], plain, Wide(source), replace(CONFIG, steps=4), tmp_path / str(number)).run()
    for p, q in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.allclose(p, q, atol=1e-12)


@pytest.mark.parametrize(
    ("field", "value"), [("steps", 0), ("learning_rate", 0.0), ("warmup_steps", -1), ("clip", 0.0)]
)
def test_a_loop_that_cannot_run_is_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        replace(CONFIG, **{field: value})
