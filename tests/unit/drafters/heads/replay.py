"""A trajectory told in advance, which guesses follow but for planned slips: drafting is held against lessons on it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from paceline.conditioning import Rows, of_prompt
from paceline.core import Draft, Needs, Prompt, Rule, Verdict, settle
from paceline.dice import VERIFIER, Dice
from paceline.drafters.lesson import Lesson
from paceline.law import Law
from paceline.sampling import Sampling
from paceline.targets.table import TableTarget

V = 4
_noise = torch.Generator().manual_seed(4)
TARGET = TableTarget(torch.randn(V, V, V, generator=_noise, dtype=torch.float64), image_id=3)
PROMPTS = [[3, 1], [2, 3, 3, 0, 1, 2], [1, 0, 3, 2]]
LENGTH = 40  # tokens of prompt and answer
TRUTH = torch.cat([torch.tensor([p + [-1] * (LENGTH - len(p)) for p in PROMPTS])], 0).where(
    torch.arange(LENGTH) < torch.tensor([[len(p)] for p in PROMPTS]), torch.randint(0, 3, (3, LENGTH), generator=_noise)
)


@dataclass(frozen=True)
class Told:
    """A coupling under which every outcome is the truth, and first guesses are, except at planned slips."""

    truth: Tensor  # [B, T]
    exact = True

    def propose(self, q: Law, width: int, dice: Dice) -> Tensor:
        shape = q.shape
        right = self._at(dice.position.expand(shape))
        slip = torch.isin(dice.position.expand(shape) % 11, torch.tensor([0, 4, 5]))
        first = torch.where(slip, (right + 1) % V, right)
        return (first[..., None] + torch.arange(width)) % V

    def outcome_law(self, p: Law, x: Tensor, q: Law | None) -> Law:
        return p

    def settle(self, p: Law, x: Tensor, q: Law | None, dice: Dice) -> Tensor:
        return self._at(dice.position)

    def _at(self, position: Tensor) -> Tensor:
        flat = position.reshape(len(self.truth), -1).clamp(max=self.truth.shape[1] - 1)
        return self.truth.gather(1, flat).view(position.shape)


@dataclass(frozen=True)
class Round:
    """What one proposal was made from, and the logits that it made laws of, call by call, each [B, n, V]."""

    verdict: Verdict
    draft: Draft
    logits: list[Tensor]

    @property
    def root(self) -> list[int]:
        """Position of each row's root."""
        return (self.verdict.dice.position - 1).tolist()


def rounds(drafter: Any, target: TableTarget = TARGET, truth: Tensor = TRUTH) -> Iterator[Round]:
    """Rounds along the truth until one row reaches its end."""
    told, heard, free = Told(truth), list[Tensor](), Sampling(temperature=1)

    def law(logits: Tensor) -> Law:
        heard.append(logits.clone().view(len(logits), -1, logits.shape[-1]))
        return free.law(logits)

    rule = Rule(law, told)
    prompts = [Prompt(torch.tensor(ids)) for ids in PROMPTS]
    session, context, seen = target.open(prompts, drafter.needs)
    guesser = drafter.open(session, context, rule)
    dice, draft = (
        Dice(torch.arange(3), session.length + 1, torch.zeros(3, dtype=torch.long)),
        Draft.none(session.length),
    )
    while True:
        verdict = settle(draft, seen, rule, Dice(dice.seed, dice.position, dice.turn, VERIFIER))
        session.commit(verdict.path, verdict.length)
        if int(verdict.dice.position.max()) >= truth.shape[1] - 8:
            return
        heard.clear()
        draft = guesser.propose(verdict)
        yield Round(verdict, draft, list(heard))
        dice, seen = verdict.dice, session.forward(verdict.root, draft)


def lesson(drafter: Any, row: int, target: TableTarget = TARGET, truth: Tensor = TRUTH) -> tuple[Lesson, Rows]:
    """One conversation as a lesson whose only branch begins with the prompt's last token; and its rows."""
    text, start = truth[row], len(PROMPTS[row])
    _, context, _ = target.open([Prompt(text)], drafter.needs)
    rows = of_prompt(context, drafter.paired)
    owner = (rows.position >= start - 1).long()
    answer = torch.cat([text[1:], torch.tensor([-1])])
    labels = answer[rows.position].where(rows.position >= start - 1, -1)
    kept = drafter.conditioner.edit(
        Rows(
            rows.ids, rows.position, rows.valid, rows.image & (owner == 0), rows.features, rows.embeddings, rows.scores
        )
    )
    index = torch.arange(rows.ids.shape[1])[None] if kept.index is None else kept.index
    owner, labels = owner.gather(1, index), labels.gather(1, index)
    count = kept.ids.shape[1]
    see = torch.ones(1, count, count, dtype=torch.bool).tril()
    if (window := drafter.conditioner.window) is not None:
        see = see & (kept.position > start - 1 - window)[:, None]
    see = see | torch.eye(count, dtype=torch.bool)
    deep = (*drafter.needs.layers, *drafter.lesson_layers, target.shared.depth)
    at = {k: _own(target, text, k)[None, kept.position[0]] for k in set(deep)}
    return Lesson("truth", kept, see, owner, labels, at, target.shared), kept


def _own(target: TableTarget, text: Tensor, k: int) -> Tensor:
    """[T, V]; layer k at each token."""
    _, context, _ = target.open([Prompt(text)], Needs(layers=(k,)))
    assert context.features is not None
    return context.features[0]
