"""Those who answer: our loop with a drafter, and our loop with an oracle that knows the answer."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from paceline.answer import answer_prompts
from paceline.bench.memory import PeakMemory
from paceline.bench.traffic import Ask
from paceline.clock import Clock, Stopwatch, silent
from paceline.core import Context, Draft, Drafter, Needs, Prompt, Rule, TargetSession, Verdict
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


@dataclass(frozen=True, slots=True)
class Oracle:
    """Guesses what plain decoding is known to say next: the ceiling of a chain of this length that costs nothing."""

    answer: tuple[int, ...]  # of one prompt, batch 1
    guesses: int = 8

    @property
    def needs(self) -> Needs:
        """Nothing: it knows already."""
        return Needs()

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> OracleSession:
        """Raises ValueError for more than one row: the oracle knows one answer."""
        if len(context.prompts) != 1:
            raise ValueError(f"the oracle knows the answer to one prompt, got {len(context.prompts)}")
        return OracleSession(self)


class OracleSession:
    """How far the answer has got."""

    def __init__(self, how: Oracle) -> None:
        self.how, self.said = how, 0

    def propose(self, verdict: Verdict) -> Draft:
        """The next tokens of the answer, chosen, not drawn."""
        self.said += int(verdict.length[0])
        known: Sequence[int] = self.how.answer[self.said : self.said + self.how.guesses]
        return Draft.chain(torch.tensor([known], dtype=torch.long, device=verdict.root.device))

    def keep(self, rows: Tensor) -> None:
        return None

    def join(self, other: OracleSession) -> None:
        raise NotImplementedError("the oracle knows the answer to one prompt")
