"""Prompt lookup: guess what followed the same n-gram earlier in the prompt or the output (Saxena 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from paceline.clock import Clock, silent
from paceline.core import Context, Draft, Needs, Rule, Target, TargetSession, Verdict


@dataclass(frozen=True, slots=True)
class Lookup:
    """Continues the latest earlier occurrence of the longest matching suffix. Raises ValueError for empty ranges.

    Costs no forward at all; rows without a match guess nothing.
    """

    guesses: int = 8  # at most, a round
    longest: int = 3  # tokens of the suffix that is looked up; shorter ones are tried after it
    shortest: int = 1

    level: ClassVar[int] = 0
    trained: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs()

    def __post_init__(self) -> None:
        if self.guesses < 1 or not 1 <= self.shortest <= self.longest:
            raise ValueError(f"lookup needs guesses >= 1 and 1 <= shortest <= longest, got {self}")

    @classmethod
    def tiny(cls, model: Target) -> Lookup:
        """An instance for the law tests."""
        return cls(guesses=3, longest=2)

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> LookupSession:
        texts = [Text(self) for _ in context.prompts]
        for text, ids, valid in zip(texts, context.ids.tolist(), context.valid.tolist(), strict=True):
            text.extend([token for token, real in zip(ids, valid, strict=True) if real])
        return LookupSession(self, texts)


class Text:
    """The tokens of one row with an index: n-gram -> where it last ended, the present end left out."""

    def __init__(self, how: Lookup) -> None:
        self.how, self.tokens = how, list[int]()
        self.ends: dict[tuple[int, ...], int] = {}

    def extend(self, tokens: list[int]) -> None:
        """Append tokens; each n-gram becomes findable once something follows it."""
        for token in tokens:
            for n in range(self.how.shortest, min(self.how.longest, len(self.tokens)) + 1):
                self.ends[tuple(self.tokens[-n:])] = len(self.tokens)
            self.tokens.append(token)

    def guess(self) -> list[int]:
        """What followed the longest known suffix, at most `guesses` tokens."""
        for n in range(min(self.how.longest, len(self.tokens)), self.how.shortest - 1, -1):
            at = self.ends.get(tuple(self.tokens[-n:]))
            if at is not None:
                return self.tokens[at : at + self.how.guesses]
        return []


class LookupSession:
    """One indexed text a row."""

    def __init__(self, how: Lookup, texts: list[Text]) -> None:
        self.how, self.texts = how, texts

    def propose(self, verdict: Verdict) -> Draft:
        """A chain of up to `guesses` tokens a row, chosen, not drawn."""
        found: list[list[int]] = []
        for text, tokens, n in zip(self.texts, verdict.tokens.tolist(), verdict.length.tolist(), strict=True):
            text.extend(tokens[:n])
            found.append(text.guess())
        width = max(map(len, found), default=0)
        rows = [guess + [-1] * (width - len(guess)) for guess in found]
        return Draft.chain(torch.tensor(rows, dtype=torch.long, device=verdict.root.device).view(len(rows), width))

    def keep(self, rows: Tensor) -> None:
        self.texts = [self.texts[row] for row in rows.tolist()]

    def join(self, other: LookupSession) -> None:
        self.texts += other.texts
