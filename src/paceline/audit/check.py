"""What an audit finds: checks with figures, and the first divergence explained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Outcome = Literal["pass", "fail", "undecided"]
WORDS: Mapping[str, str] = {"pass": "lossless", "fail": "not lossless", "undecided": "undecided"}


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first token of a text that is not the reference's."""

    prompt: int  # number of the prompt
    position: int  # of the token in the answer, from 0
    context: str  # the last words that both share
    ours: str  # the token that was said
    reference: str  # the token that plain decoding says there
    kind: Literal["tie", "fault"]
    margin: float | None = None  # between the scores of the two tokens in float64
    noise: float | None = None  # of the kernels, on those scores
    top2: float | None = None  # between the best and the second score in the precision that was audited

    def __str__(self) -> str:
        """One sentence."""
        where = f"prompt {self.prompt}, token {self.position}, after …{self.context!r}"
        told = f"{where}: {self.ours!r} instead of {self.reference!r}"
        if self.margin is None:
            return f"{told} ({self.kind})"
        why = "within" if self.kind == "tie" else "far beyond"
        return f"{told}; their scores differ by {self.margin:.2e}, {why} the kernels' noise of {self.noise:.1e}"


@dataclass(frozen=True, slots=True)
class Check:
    """One question about losslessness and its answer."""

    name: str
    outcome: Outcome
    says: str  # one sentence
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any])
    divergences: Sequence[Divergence] = ()


def verdict(checks: Sequence[Check]) -> Outcome:
    """fail where one check fails; pass where all that could be decided pass, and one could."""
    outcomes = {check.outcome for check in checks}
    return "fail" if "fail" in outcomes else "pass" if "pass" in outcomes else "undecided"


def document(checks: Sequence[Check], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The audit as JSON: verdict, checks, the first divergence that is a fault, and what was audited."""
    faults = [d for check in checks for d in check.divergences if check.outcome == "fail" and d.kind == "fault"]
    return {
        "verdict": WORDS[verdict(checks)],
        "first_divergence": {**asdict(faults[0]), "explained": str(faults[0])} if faults else None,
        "checks": [
            {**asdict(check), "divergences": [{**asdict(d), "explained": str(d)} for d in check.divergences]}
            for check in checks
        ],
        "meta": dict(meta),
    }
