"""What a decode did, round by round, and the measures that follow from it (one definition each)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Round:
    """One verification of one row."""

    proposed: int  # g: guesses one below the other, chain length or depth of the tree
    accepted: int  # a: guesses that the target's outcomes confirmed, before any clipping
    committed: int  # c <= a + 1: tokens that were emitted, clipped by stop or budget


@dataclass(frozen=True, slots=True)
class Trace:
    """One row's tokens and rounds. The token that prefill settles belongs to no round."""

    prompt_length: int  # tokens
    seed: int
    token_ids: tuple[int, ...]  # emitted, the stop token included when it was reached
    rounds: tuple[Round, ...]

    @property
    def nfe(self) -> int:
        """Target forwards: prefill and one a round."""
        return 1 + len(self.rounds)


def tau(rounds: Sequence[Round]) -> float:
    """Acceptance length with bonus, unclipped, rounds pooled: sum (a + 1) / R. 1 without rounds."""
    return sum(r.accepted + 1 for r in rounds) / len(rounds) if rounds else 1.0


def tau_eff(rounds: Sequence[Round]) -> float:
    """Tokens emitted a round: sum c / R. 1 without rounds."""
    return sum(r.committed for r in rounds) / len(rounds) if rounds else 1.0


def survival(rounds: Sequence[Round]) -> list[float]:
    """P(a >= k) for k = 1 … the longest draft, so that tau = 1 + their sum."""
    longest = max((r.proposed for r in rounds), default=0)
    return [sum(r.accepted >= k for r in rounds) / len(rounds) for k in range(1, longest + 1)]
