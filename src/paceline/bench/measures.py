"""The measures of design section 7 as functions of sums over prompts: one definition each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.bench.arms import Run

Value = float | NDArray[np.float64]  # a number, or one a bootstrap draw


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums over prompts. Times in seconds; each a number, or an array with one entry a bootstrap draw."""

    prompts: Any
    tokens: Any  # emitted
    decoded: Any  # emitted behind the first token, which prefill settles
    seconds: Any  # end to end
    decode: Any  # behind prefill
    condition: Any
    draft: Any
    target: Any
    rounds: Any
    accepted: Any
    committed: Any
    forwards: Any  # of the target; prefill counts one
    score: Any  # of the answers that the suite can score
    scored: Any  # how many of them there are


def ledger(runs: Sequence[Run], scores: Sequence[float | None]) -> NDArray[np.float64]:
    """[prompts, fields of Sums]; one line a prompt. scores: None where the suite has no expected answer."""
    lines = [_line(run, score) for run, score in zip(runs, scores, strict=True)]
    return np.array(lines, dtype=np.float64).reshape(len(runs), len(fields(Sums)))


def _line(run: Run, score: float | None) -> list[float]:
    spent = [run.phases.get(phase, 0.0) for phase in ("condition", "draft", "target")]
    accepted, committed = sum(r.accepted for r in run.rounds), sum(r.committed for r in run.rounds)
    n = len(run.token_ids)
    return [
        1, n, max(n - 1, 0), run.seconds, run.decode, *spent, len(run.rounds), accepted, committed,
        len(run.rounds) + 1, score or 0.0, score is not None,
    ]  # fmt: skip


def total(lines: NDArray[np.float64]) -> Sums:
    """The sums of a ledger."""
    return Sums(*lines.sum(0).tolist())


def resampled(lines: NDArray[np.float64], counts: NDArray[np.int64]) -> Sums:
    """The sums of each bootstrap draw. counts: [draws, prompts], how often each prompt was drawn."""
    return Sums(*(counts @ lines).T)


def ratio(top: Value, bottom: Value) -> Value:
    """top / bottom; nan where there is nothing to divide by."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient = np.where(np.equal(bottom, 0), np.nan, np.divide(top, np.where(np.equal(bottom, 0), 1, bottom)))
    return quotient if quotient.ndim else float(quotient)


def tau(ours: Sums) -> Value:
    """Acceptance length with bonus, unclipped: sum (a + 1) / R; nan without a round."""
    return ratio(ours.accepted + ours.rounds, ours.rounds)


def tau_eff(ours: Sums) -> Value:
    """Tokens emitted a round: sum c / R."""
    return ratio(ours.committed, ours.rounds)


def accuracy(ours: Sums) -> Value:
    """Mean score of the answers that the suite can score."""
    return ratio(ours.score, ours.scored)


def tokens_per_s(ours: Sums) -> Value:
    """Tokens behind the first one, per second of decoding."""
    return ratio(ours.decoded, ours.decode)


def tokens_per_s_e2e(ours: Sums) -> Value:
    """All tokens, per second from raw inputs to text."""
    return ratio(ours.tokens, ours.seconds)


def overhead_share(ours: Sums) -> Value:
    """(round - target forward - draft forward) / round, where rounds fill the decode time behind conditioning."""
    round_ = ours.decode - ours.condition
    return ratio(round_ - ours.target - ours.draft, round_)


def speedup_decode(ours: Sums, plain: Sums) -> Value:
    """Seconds a token of plain decoding over ours, both behind prefill."""
    return ratio(tokens_per_s(ours), tokens_per_s(plain))


def speedup_e2e(ours: Sums, plain: Sums) -> Value:
    """Seconds a token of plain decoding over ours, both from raw inputs to text. Against another loop: the same."""
    return ratio(tokens_per_s_e2e(ours), tokens_per_s_e2e(plain))


def efficiency(ours: Sums, plain: Sums) -> Value:
    """Share of the speed-up that a drafter without cost would have: speedup_decode / (tau_eff t_plain / t_target)."""
    t_plain, t_target = ratio(plain.target, plain.rounds), ratio(ours.target, ours.rounds)
    return ratio(speedup_decode(ours, plain), ratio(tau_eff(ours) * t_plain, t_target))


def nfe_ratio(ours: Sums, plain: Sums) -> Value:
    """Target forwards of plain decoding over ours."""
    return ratio(plain.forwards, ours.forwards)


@dataclass(frozen=True, slots=True)
class Trio:
    """A row's sums beside its baselines'."""

    ours: Sums
    plain: Sums
    hf: Sums | None  # None: transformers was not run


Measure = Callable[[Trio], Value | None]
MEASURES: Mapping[str, Measure] = MappingProxyType({  # each comes with an interval
    "tau": lambda s: tau(s.ours),
    "tau_eff": lambda s: tau_eff(s.ours),
    "speedup_decode": lambda s: speedup_decode(s.ours, s.plain),
    "speedup_e2e": lambda s: speedup_e2e(s.ours, s.plain),
    "speedup_vs_hf": lambda s: speedup_e2e(s.ours, s.hf) if s.hf else None,
    "plain_gain": lambda s: speedup_e2e(s.plain, s.hf) if s.hf else None,
    "spec_gain": lambda s: speedup_e2e(s.ours, s.plain),
    "efficiency": lambda s: efficiency(s.ours, s.plain),
    "overhead_share": lambda s: overhead_share(s.ours),
    "tokens_per_s": lambda s: tokens_per_s(s.ours),
    "tokens_per_s_e2e": lambda s: tokens_per_s_e2e(s.ours),
    "nfe_ratio": lambda s: nfe_ratio(s.ours, s.plain),
    "accuracy": lambda s: accuracy(s.ours),
})  # fmt: skip
RATIOS = ("speedup_decode", "speedup_e2e", "speedup_vs_hf", "plain_gain", "spec_gain", "efficiency")
GEOMETRIC = frozenset({*RATIOS, "tokens_per_s", "tokens_per_s_e2e"})  # over tasks; other measures are averaged


def phases_ms(runs: Sequence[Run]) -> dict[str, float]:
    """Mean milliseconds a prompt of each phase."""
    names = dict.fromkeys(phase for run in runs for phase in run.phases)
    return {name: 1000 * sum(run.phases.get(name, 0.0) for run in runs) / len(runs) for name in names}


def geometric(values: Sequence[Value]) -> Value:
    """Geometric mean, draw by draw; nan if one is missing."""
    mean = np.exp(np.mean(np.log(np.array(values, dtype=np.float64)), axis=0))
    return mean if np.ndim(mean) else float(mean)
