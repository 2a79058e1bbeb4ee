"""What if a drafter were right so often? Replays answers that are known beforehand, with failures drawn at a rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from paceline.clock import Clock, silent
from paceline.core import Context, Draft, Needs, Rule, Target, TargetSession, Verdict
from paceline.dice import DRAW, Dice
from paceline.errors import UsageError


def rate_of(tau: float, guesses: int) -> float:
    """The rate a at which a chain has this tau: tau = 1 + a + a^2 + … + a^guesses, to 1e-12 by halving.

    Raises UsageError unless 1 <= tau <= guesses + 1.
    """
    if not 1 <= tau <= guesses + 1:
        raise UsageError(f"tau is {tau}; with {guesses} guesses a round it must be between 1 and {guesses + 1}")
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        too_little = sum(middle**k for k in range(guesses + 1)) < tau
        low, high = (middle, high) if too_little else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class Synthetic:
    """Guesses a known answer's next tokens; each is spoilt with chance 1 - rate, and then certainly wrong.

    Where plain decoding says what the answer says (greedy, or the Gumbel race with the answer's seed), `rate` is the
    chance that a guess survives, given that those before it did; rate 1 is the oracle, the ceiling of a chain that
    costs nothing. Elsewhere the text is no worse, only the rate is: guesses are chosen and never looked into.
    """

    answers: tuple[tuple[int, ...], ...] = ()  # one a row of the batch, in order; one alone serves all rows
    rate: float = 1.0  # alpha at every depth
    guesses: int = 8  # a round

    level: ClassVar[int] = 0
    trained: ClassVar[bool] = False
    assumed: ClassVar[bool] = True  # no method that anybody could deploy: left out of "all"
    needs: ClassVar[Needs] = Needs()

    def __post_init__(self) -> None:
        if self.guesses < 1 or not 0 <= self.rate <= 1:
            raise ValueError(f"synthetic needs guesses >= 1 and a rate in [0, 1], got {self.guesses} and {self.rate}")

    @classmethod
    def of_tau(cls, answers: Sequence[Sequence[int]], tau: float, guesses: int = 8) -> Synthetic:
        """The drafter that accepts so many tokens a round, bonus counted. Raises UsageError for a tau out of reach."""
        return cls(tuple(tuple(answer) for answer in answers), rate_of(tau, guesses), guesses)

    @classmethod
    def tiny(cls, model: Target) -> Synthetic:
        """An instance for the law tests: what it believes to know is mostly wrong, as it may be."""
        return cls((tuple(i * i % model.vocab_size for i in range(64)),), rate=0.7, guesses=3)

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> SyntheticSession:
        """Raises UsageError unless there is one answer, or one a row."""
        rows = len(context.prompts)
        if len(self.answers) not in (1, rows):
            raise UsageError(
                f"a synthetic drafter replays answers that are known beforehand: it has {len(self.answers)} for "
                f"{rows} prompt(s); give `answers` one a prompt"
            )
        return SyntheticSession(self, list(self.answers) * (rows // len(self.answers)))


class SyntheticSession:
    """How far each row's answer has got."""

    def __init__(self, how: Synthetic, answers: list[tuple[int, ...]]) -> None:
        self.how, self.answers, self.said = how, answers, [0] * len(answers)

    def propose(self, verdict: Verdict) -> Draft:
        """A chain of up to `guesses` tokens a row, chosen, not drawn."""
        self.said = [said + n for said, n in zip(self.said, verdict.length.tolist(), strict=True)]
        known = [a[s : s + self.how.guesses] for a, s in zip(self.answers, self.said, strict=True)]
        width = max(map(len, known))
        rows = [[*tokens, *[-1] * (width - len(tokens))] for tokens in known]
        truth = torch.tensor(rows, dtype=torch.long, device=verdict.root.device).view(len(rows), width)
        fails = spoilt(verdict.dice, width, self.how.rate) & (truth >= 0)
        return Draft.chain(torch.where(fails, torch.where(truth == 0, 1, truth - 1), truth))

    def keep(self, rows: Tensor) -> None:
        self.answers = [self.answers[row] for row in rows.tolist()]
        self.said = [self.said[row] for row in rows.tolist()]

    def join(self, other: SyntheticSession) -> None:
        self.answers, self.said = self.answers + other.answers, self.said + other.said


def spoilt(dice: Dice, width: int, rate: float) -> Tensor:
    """[B, width]; which of the next guesses fail, by the drafter's own noise: rolled anew each round."""
    step = torch.arange(width, device=dice.position.device)
    at = replace(dice, position=dice.position[:, None] + step)
    return at.uniform(DRAW, torch.zeros(1, dtype=torch.long, device=step.device))[..., 0] >= rate
