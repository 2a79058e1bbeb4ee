"""The empty drafter: plain decoding, the baseline of every table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from paceline.clock import Clock, silent
from paceline.core import Context, Draft, Needs, Rule, Target, TargetSession, Verdict


@dataclass(frozen=True, slots=True)
class NoDraft:
    """Guesses nothing, so that each round is one target forward of one row."""

    level: ClassVar[int] = 0
    trained: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs()

    @classmethod
    def tiny(cls, model: Target) -> NoDraft:
        """An instance for the law tests."""
        return cls()

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> NoDraftSession:
        return NoDraftSession()


class NoDraftSession:
    """Remembers nothing."""

    def propose(self, verdict: Verdict) -> Draft:
        return Draft.none(verdict.root)

    def keep(self, rows: Tensor) -> None:
        return None

    def join(self, other: NoDraftSession) -> None:
        return None
