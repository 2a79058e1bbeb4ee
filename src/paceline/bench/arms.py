"""Those who answer: our loop with a drafter."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from paceline.answer import answer_prompts
from paceline.bench.memory import PeakMemory
from paceline.bench.traffic import Ask
from paceline.clock import Stopwatch
from paceline.core import Drafter, Prompt
from paceline.sampling import Sampling
from paceline.trace import Round


@dataclass(frozen=True, slots=True)
class Run:
    """One answer to one prompt, and what it took. Times in seconds, from raw inputs to text."""

    token_ids: tuple[int, ...]
    text: str
    seconds: float
    decode: float  # behind prefill, conditioning of the drafter included
    peak_mem_mb: float
    phases: Mapping[str, float] = field(default_factory=dict[str, float])  # seconds; empty for loops not ours
    rounds: tuple[Round, ...] = ()


class Unavailable(Exception):
    """An arm that cannot answer this prompt at all; the message is the reason that the report gives."""


class Arm(Protocol):
    """Anything that answers prompts one at a time."""

    @property
    def name(self) -> str: ...

    def answer(self, ask: Ask, sampling: Sampling) -> Run:
        """Answer and time it. Raises Unavailable where the arm cannot do this."""
        ...


@dataclass(frozen=True, slots=True)
class Ours:
    """A target and a drafter in our loop, batch 1."""

    name: str
    target: Any  # an HFTarget
    drafter: Drafter
    coupling: str = "gumbel"

    @property
    def level(self) -> int:
        """Serial passes of the drafter: 0 training-free, 1 many, 2 and 3 one (see the drafter's docstring)."""
        return int(getattr(self.drafter, "level", 0))

    def answer(self, ask: Ask, sampling: Sampling) -> Run:
        """Answer and time it."""
        clock = Stopwatch(self.target.device.type)
        with torch.inference_mode(), PeakMemory(self.target.device) as memory:
            begin = _now(self.target.device)
            with clock("preprocess"):
                prompt = encode(self.target, ask)
            told = answer_prompts(self.target, self.drafter, [prompt], sampling, coupling=self.coupling, clock=clock)
            spent = _now(self.target.device) - begin
        phases: dict[str, float] = {**clock.seconds}
        before = sum(phases.get(phase, 0.0) for phase in ("preprocess", "vision", "prefill"))
        [one] = told
        return Run(one.token_ids, one.text, spent, spent - before, memory.mb, phases, one.trace.rounds)


def encode(target: Any, ask: Ask) -> Prompt:
    """The prompt of this ask, from raw pictures and text."""
    return target.encode(ask.messages, longest_edge=ask.longest_edge if ask.pictures else None)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
