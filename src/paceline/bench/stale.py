"""A biased reference, for comparison only: the rule of the released SCD samplers for Lumina and Janus."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paceline.clock import Clock, silent
from paceline.core import Context, Rule, TargetSession, Verdict
from paceline.dice import Dice
from paceline.drafters.free.jacobi import Jacobi, JacobiSession
from paceline.law import Law, where

NAME = "stale-q (biased)"  # how every table calls it


@dataclass(frozen=True, slots=True)
class Stale(Jacobi):
    """`scd-maximal` with one fault: a guess that agreed right of the first refusal keeps the law it was told with.

    Not lossless: given that it agreed, a guess's law is proportional to min(p, q), not q. Exact total variation on a
    toy of four tokens: 0.11 (tests/laws). Only the benchmark builds it.
    """

    method: str = "scd-maximal"

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> StaleSession:
        return StaleSession(self, rule, len(context.prompts), context.ids.device)


class StaleSession(JacobiSession):
    """Forgets q := p where the guess agreed."""

    def refreshed(self, verdict: Verdict, source: Tensor, dice: Dice) -> tuple[Tensor, Law]:
        tokens, law = super().refreshed(verdict, source, dice)
        old, guesses = verdict.draft.q, verdict.draft.tokens
        if old is None or not guesses.shape[1]:
            return tokens, law
        guess = guesses.gather(1, source.clamp(max=guesses.shape[1] - 1)).where(source < guesses.shape[1], -1)
        rows = torch.arange(len(source), device=source.device)[:, None]
        return tokens, where(guess == tokens, old[rows, source], law)
