"""One question answered with its clock running, compared with plain decoding, and told as a JSON document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from paceline.answer import Answer, Piece, Row, follow, guessed, rule_of
from paceline.clock import Phase, Stopwatch
from paceline.core import Drafter
from paceline.drafters import method
from paceline.sampling import Sampling
from paceline.trace import survival

BEFORE: tuple[Phase, ...] = ("preprocess", "vision", "prefill")  # phases that plain decoding goes through as well


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of whom, and how answers are drawn."""

    target: Any  # an HFTarget
    drafter: Drafter
    messages: list[dict[str, Any]]
    sampling: Sampling
    coupling: str
    longest_edge: int | None


@dataclass(frozen=True, slots=True)
class Timed:
    """An answer with its times in seconds. What the caller does between two pieces is in none of them."""

    answer: Answer
    prompt: Any  # the Prompt
    seconds: float  # all phases
    decode: float  # all phases behind prefill


@dataclass(frozen=True, slots=True)
class Against:
    """An answer beside plain decoding with the same seed."""

    identical: bool
    ties: int
    faults: int
    speedup_decode: float
    speedup_e2e: float


def answer(question: Question, show: Callable[[Piece, str, str], None] | None = None) -> Timed:
    """The answer; each piece is shown as (piece, text that was guessed, text that the target wrote itself)."""
    target, clock = question.target, Stopwatch(question.target.device.type)
    with torch.inference_mode():
        with clock("preprocess"):
            prompt = target.encode(question.messages, longest_edge=question.longest_edge)
        row = Row(target, prompt, question.sampling, question.sampling.seed)
        shown = 0
        for piece in follow(target, question.drafter, [row], rule_of(question.sampling, question.coupling), clock):
            if show is not None:
                show(piece, *guessed(target, row, piece, shown))
            shown += len(piece.text)
    phases: dict[Phase, float] = {phase: 1000 * spent for phase, spent in clock.seconds.items()}
    seconds = sum(clock.seconds.values())
    decode = seconds - sum(clock.seconds.get(phase, 0.0) for phase in BEFORE)
    return Timed(row.answer(phases), prompt, seconds, decode)


def compare(question: Question, ours: Timed) -> Against:
    """Decode once more without a drafter; how the two differ, in text and in time."""
    from paceline.identity import compare as compare_ids

    plain = answer(
        Question(
            question.target, method("none")(), question.messages, question.sampling, "gumbel", question.longest_edge
        )
    )
    found = compare_ids(
        question.target,
        ours.prompt,
        question.sampling,
        question.sampling.seed,
        ours.answer.token_ids,
        plain.answer.token_ids,
    )
    decode = _pace(plain.decode, plain.answer.n_tokens) / _pace(ours.decode, ours.answer.n_tokens)
    whole = _pace(plain.seconds, plain.answer.n_tokens) / _pace(ours.seconds, ours.answer.n_tokens)
    return Against(found.identical, found.ties, found.faults, decode, whole)


def _pace(seconds: float, tokens: int) -> float:
    return seconds / max(tokens, 1)


def document(question: Question, timed: Timed, against: Against | None) -> dict[str, Any]:
    """The JSON document of an answer."""
    told, sampling = timed.answer, question.sampling
    record: dict[str, Any] = {
        "text": told.text,
        "token_ids": list(told.token_ids),
        "tau": told.tau,
        "tau_eff": told.tau_eff,
        "rounds": told.rounds,
        "n_tokens": told.n_tokens,
        "survival": survival(told.trace.rounds),
        "accepted": list(told.accepted),
        "prompt_tokens": len(timed.prompt.ids),
        "phases_ms": dict(told.phases_ms),
        "tokens_per_s": (told.n_tokens - 1) / timed.decode if told.n_tokens > 1 else None,
        "coupling": question.coupling,
        "temperature": sampling.temperature,
        "seed": sampling.seed,
        "dtype": str(question.target.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
    }
    if against is not None:
        record |= {
            "identical": against.identical,
            "ties": against.ties,
            "faults": against.faults,
            "speedup_decode": against.speedup_decode,
            "speedup_e2e": against.speedup_e2e,
        }
    return record
