"""The one training loop: micro-batches in, checkpoints out; killed at any moment, it resumes to the same bits."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from paceline.train import checkpoint, optimisers, parallel
from paceline.train.trackers import Tracker, open_tracker

Batch_co = TypeVar("Batch_co", covariant=True)
Batch = TypeVar("Batch")


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """How to train: steps, schedule, optimiser.

    The schedule is warm-up, then either constant with a linear decay to zero over the last `decay_steps`, or half a
    cosine from the end of the warm-up to zero.
    """

    steps: int
    learning_rate: float
    warmup_steps: int = 50
    decay_steps: int = 0
    optimiser: optimisers.Kind = "adamw"
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.05
    clip: float = 1.0  # largest allowed norm of the whole gradient
    checkpoint_seconds: float = 120.0
    threads: int = 0  # 0: leave torch's own choice
    rates: Mapping[str, float] = field(default_factory=dict)  # name prefix -> factor on the learning rate
    schedule: Literal["linear", "cosine"] = "linear"
    tracker: Tracker = "none"  # beside log.jsonl

    def __post_init__(self) -> None:
        if self.steps < 1 or self.warmup_steps < 0 or self.decay_steps < 0:
            raise ValueError("steps must be at least 1, warmup_steps and decay_steps at least 0")
        if not (self.learning_rate > 0 and self.clip > 0 and self.checkpoint_seconds > 0):
            raise ValueError("learning_rate, clip and checkpoint_seconds must be positive")
        if self.schedule == "cosine" and self.decay_steps:
            raise ValueError("a cosine schedule decays by itself: leave decay_steps out")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an objective returns: a loss summed over `terms` terms, and sums of whatever else is worth logging."""

    loss: Tensor  # []
    terms: int
    sums: Mapping[str, float] = field(default_factory=dict)  # divided by terms in the log
    fault: str = ""  # what, beside the batch, a loss that is not finite comes from


class Source(Protocol[Batch_co]):
    """Batches as a pure function of the step, so that the data position of a resumed run is the step itself."""

    def micro_batches(self, step: int) -> Sequence[Batch_co]: ...


class Diverged(RuntimeError):
    """The loss or the gradient stopped being finite; the message names the batch and the last good checkpoint."""


@dataclass(frozen=True, slots=True)
class Result:
    """Where a finished run left its last checkpoint, and its last logged loss."""

    checkpoint: Path
    steps: int
    loss: float


@dataclass(slots=True)
class _Schedule:
    steps: int
    decay_steps: int
    kind: str = "linear"

    def factor(self, step: int, warmup: int) -> float:
        up = min(1.0, (step + 1) / warmup) if warmup else 1.0
        if self.kind == "cosine":
            done = max(step - warmup, 0) / max(self.steps - warmup, 1)
            return up * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
        down = min(1.0, (self.steps - step) / (self.decay_steps + 1)) if self.decay_steps else 1.0
        return up * max(down, 0.0)


class Trainer(Generic[Batch]):
    """Trains `model` on `source` under `objective`; state lives in `directory` (checkpoints, log.jsonl, control.json).

    `control.json` may hold {"decay_from": "now" | step, "decay_steps": n, "threads": n}; it is read before every step,
    and a decay once begun is part of the checkpoint. The gradients of each of `parts` (default: the model as a whole)
    are clipped on their own. `measure` is asked after every step for more to log. Under torchrun the gradients of all
    processes are summed before they are applied, and the first process alone writes.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Callable[[nn.Module, Batch], Outcome],
        source: Source[Batch],
        config: LoopConfig,
        directory: Path,
        on_checkpoint: Callable[[int], None] | None = None,
        parts: Sequence[nn.Module] = (),
        measure: Callable[[int], Mapping[str, float]] | None = None,
    ) -> None:
        self.model, self.objective, self.source, self.config = model, objective, source, config
        self.directory, self.on_checkpoint, self.measure = directory, on_checkpoint, measure
        self.parts = list(parts) or [model]
        self.schedule = _Schedule(config.steps, config.decay_steps, config.schedule)
        self.optimisers = optimisers.build(
            model, config.optimiser, config.learning_rate, config.betas, config.weight_decay, config.rates
        )
        self.step, self.seconds, self.loss, self.decaying = 0, 0.0, math.nan, False
        self._stop = False

    def run(self) -> Result:
        """Train from the latest checkpoint (or from the start) to the last step; Ctrl-C saves and re-raises."""
        self._resume()
        self.model.train()
        saved_at = time.monotonic()
        tracker = open_tracker(self.config.tracker if parallel.rank() == 0 else "none", self.directory)
        with _stop_signals(self._request_stop), _progress(self.schedule) as show, tracker as track:
            while self.step < self.schedule.steps and not parallel.any_of(self._stop):
                self._obey_control()
                record = self._one_step()
                record |= {} if self.measure is None else self.measure(self.step)
                self._log(record)
                track(self.step, record)
                show(self.step, record)
                if time.monotonic() - saved_at > self.config.checkpoint_seconds:
                    self.save()
                    saved_at = time.monotonic()
            path = self.save()
        if self.step < self.schedule.steps:
            raise KeyboardInterrupt(f"stopped at step {self.step}; run the same command to resume from {path}")
        return Result(path, self.step, self.loss)

    def save(self) -> Path:
        """Write a checkpoint of this moment and return its directory."""
        counters = {
            "seconds": self.seconds,
            "loss": self.loss,
            "last_step": self.schedule.steps,
            "decay_steps": self.schedule.decay_steps,
            "decaying": self.decaying,
        }
        if parallel.rank():
            return self.directory / f"step-{self.step:08d}"
        path = checkpoint.save(self.directory, self.step, self.model, self.optimisers, counters)
        if self.on_checkpoint is not None:
            self.on_checkpoint(self.step)
        return path

    def _one_step(self) -> dict[str, Any]:
        began = time.monotonic()
        rate = self.config.learning_rate * self.schedule.factor(self.step, self.config.warmup_steps)
        total, terms, sums = 0.0, 0, dict[str, float]()
        for batch in self.source.micro_batches(self.step):
            outcome = self.objective(self.model, batch)
            value = outcome.loss.item()
            if not math.isfinite(value):
                raise self._diverged(f"loss is {value} in batch {_describe(batch)}", outcome.fault)
            outcome.loss.backward()
            total, terms = total + value, terms + outcome.terms
            for key, amount in outcome.sums.items():
                sums[key] = sums.get(key, 0.0) + amount
        total, terms, sums = parallel.summed(self.model, total, terms, sums)
        norm = self._apply(rate, terms)
        self.step += 1
        self.loss = total / terms
        spent = time.monotonic() - began
        self.seconds += spent
        means = {key: round(amount / terms, 5) for key, amount in sums.items() if not key.startswith("#")}
        counts = {key[1:]: amount for key, amount in sums.items() if key.startswith("#")}
        return {
            "step": self.step,
            "loss": round(self.loss, 5),
            "rate": rate,
            "norm": round(norm, 4),
            "terms": terms,
            "step_s": round(spent, 3),
            "seconds": round(self.seconds, 1),
            **means,
            **counts,
        }

    def _apply(self, rate: float, terms: int) -> float:
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        torch._foreach_mul_([p.grad for p in parameters], 1.0 / max(terms, 1))
        norm = max(nn.utils.clip_grad_norm_(part.parameters(), self.config.clip).item() for part in self.parts)
        if not math.isfinite(norm):
            raise self._diverged(f"gradient norm is {norm}")
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate * group["factor"]
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return norm

    def _diverged(self, what: str, fault: str = "") -> Diverged:
        kept = checkpoint.latest(self.directory)
        fault = f" ({fault})" if fault else ""
        return Diverged(f"step {self.step}: {what}{fault}; last good checkpoint: {kept or 'none'}")

    def _resume(self) -> None:
        if self.config.threads:
            torch.set_num_threads(self.config.threads)
        found = checkpoint.latest(self.directory)
        if found is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            return
        counters = checkpoint.restore(found, self.model, self.optimisers)
        self.step, self.seconds, self.loss = counters["step"], counters["seconds"], counters["loss"]
        if counters["decaying"]:
            self.decaying = True
            self.schedule.steps, self.schedule.decay_steps = counters["last_step"], counters["decay_steps"]
        if parallel.rank() == 0:
            _truncate_log(self.directory / "log.jsonl", self.step)

    def _obey_control(self) -> None:
        path = self.directory / "control.json"
        if not path.is_file():
            return
        try:
            orders = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError:  # being written at this moment: read again before the next step
            return
        if threads := orders.get("threads"):
            torch.set_num_threads(int(threads))
        if "decay_from" in orders and not self.decaying:
            start = self.step if orders["decay_from"] == "now" else int(orders["decay_from"])
            length = int(orders.get("decay_steps", max(1, start // 3)))
            self.decaying = True
            self.schedule.steps, self.schedule.decay_steps = start + length, length

    def _request_stop(self) -> None:
        self._stop = True

    def _log(self, record: Mapping[str, Any]) -> None:
        if parallel.rank():
            return
        with (self.directory / "log.jsonl").open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(record) + "\n")


def _describe(batch: object) -> str:
    return str(getattr(batch, "name", type(batch).__name__))


def _truncate_log(path: Path, step: int) -> None:
    if not path.is_file():
        return
    kept = [
        line
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.endswith("}") and json.loads(line)["step"] <= step
    ]
    draft = path.with_suffix(".writing")
    draft.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
    os.replace(draft, path)


@contextmanager
def _stop_signals(request: Callable[[], None]) -> Iterator[None]:
    """Turn Ctrl-C and SIGTERM into a request that the loop obeys between two steps; a second Ctrl-C is immediate."""

    def handler(number: int, frame: object) -> None:
        request()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not the main thread: the caller owns the signals
        yield
        return
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def _progress(schedule: _Schedule) -> Iterator[Callable[[int, Mapping[str, Any]], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, disable=not console.is_terminal or parallel.rank() > 0) as bar:
        task, shown = bar.add_task("", total=schedule.steps), dict[str, float]()

        def show(step: int, record: Mapping[str, Any]) -> None:
            shown.update({key: record[key] for key in record if key.rpartition("/")[2] == "tau"})
            taus = "".join(f"  {key} {value:.2f}" for key, value in shown.items())
            text = f"loss {record['loss']:.4f}  norm {record['norm']:.2f}  {record['step_s']:.2f} s/step{taus}"
            bar.update(task, completed=step, total=schedule.steps, description=text)

        yield show
