"""Drafters that know the answer and err on purpose, so that acceptance is truly ragged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from paceline import tree
from paceline.clock import Clock, silent
from paceline.core import Context, Draft, Needs, Rule, TargetSession, Verdict

Shape = Literal["plain", "chain", "tree"]


@dataclass(frozen=True)
class Replay:
    """Drafts what each row will answer, with random wrong guesses mixed in."""

    answers: Sequence[Sequence[int]]
    shape: Shape
    seed: int = 0
    depth: int = 4
    ids: int = 110  # wrong guesses are below it
    needs: Needs = Needs()

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> ReplaySession:
        return ReplaySession(self)


class ReplaySession:
    """Counts what each row has emitted."""

    def __init__(self, how: Replay) -> None:
        self.how, self.said = how, [0] * len(how.answers)
        self.answers = [list(answer) for answer in how.answers]
        self.draw = torch.Generator().manual_seed(how.seed)

    def propose(self, verdict: Verdict) -> Draft:
        self.said = [said + n for said, n in zip(self.said, verdict.length.tolist(), strict=True)]
        if self.how.shape == "plain":
            return Draft.none(verdict.root)
        ahead = [answer[said : said + self.how.depth] for answer, said in zip(self.answers, self.said, strict=True)]
        if self.how.shape == "chain":
            return Draft.chain(torch.tensor([self._line(row) for row in ahead]))
        grown = [self._tree(row) for row in ahead]
        size = max(len(tokens) for tokens, _ in grown)
        tokens = torch.tensor([t + [-1] * (size - len(t)) for t, _ in grown])
        parents = torch.tensor([p + [0] * (size - len(p)) for _, p in grown])
        return Draft(tokens, tree.of(parents))

    def _line(self, ahead: list[int]) -> list[int]:
        line = [self._wrong() if self._chance() < 0.2 else token for token in ahead]
        return line + [-1] * (self.how.depth - len(line))

    def _tree(self, ahead: list[int]) -> tuple[list[int], list[int]]:
        """A spine of what comes, wrong siblings before and after it, wrong children below those."""
        tokens, parents, spine = list[int](), list[int](), 0
        for token in ahead:
            kids = [token, self._wrong()] if self._chance() < 0.5 else [self._wrong(), token]
            if self._chance() < 0.15:
                kids = [self._wrong(), self._wrong()]
            below = spine
            for kid in kids:
                tokens.append(kid)
                parents.append(below)
                if kid == token:
                    spine = len(tokens)
            if spine == below:
                spine = len(tokens)
        return tokens, parents

    def _chance(self) -> float:
        return float(torch.rand((), generator=self.draw))

    def _wrong(self) -> int:
        return int(torch.randint(3, self.how.ids, (), generator=self.draw))

    def keep(self, rows: Tensor) -> None:
        self.said = [self.said[r] for r in rows.tolist()]
        self.answers = [self.answers[r] for r in rows.tolist()]

    def join(self, other: ReplaySession) -> None:
        self.said, self.answers = self.said + other.said, self.answers + other.answers
