"""A small language model of the target's vocabulary as drafter (Leviathan et al. 2023; Chen et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from paceline import law as laws
from paceline.clock import Clock, silent
from paceline.core import Context, Draft, Needs, Prompt, Rule, Target, TargetSession, Verdict
from paceline.errors import UsageError
from paceline.law import Law


def text_only(prompt: Prompt, image: Tensor) -> Prompt:
    """The prompt without the rows that stand for pictures: what a model that cannot see is shown. image: [S] bool."""
    return Prompt(prompt.ids[~image], messages=prompt.messages)


View = Callable[[Prompt, Tensor], Prompt]  # (the target's prompt, its image rows [S]) -> the drafter's prompt


def reread_by(model: Any) -> View:
    """The messages as the drafter's own processor reads them, pictures at the resolution that the target sees."""
    return lambda prompt, image: model.encode(prompt.messages, longest_edge=prompt.longest_edge)


def same_vocabulary(model: Any, target: Any) -> None:
    """Raise UsageError unless both tokenizers spell every id that they share alike."""
    mine, theirs = model.tokenizer.get_vocab(), target.tokenizer.get_vocab()
    if mine == theirs:
        return
    by_id = {index: token for token, index in theirs.items()}
    other = [
        (i, token, by_id[i]) for token, i in sorted(mine.items(), key=lambda x: x[1]) if by_id.get(i, token) != token
    ]
    if other:
        i, token, wanted = other[0]
        raise UsageError(
            f"the drafter's vocabulary ({len(mine)} tokens) is not the target's ({len(theirs)} tokens): "
            f"id {i} is {token!r} there and {wanted!r} here; a drafter must share the target's tokenizer"
        )


@dataclass(frozen=True, slots=True)
class SmallLM:
    """Drafts a chain with any smaller model, text-only or shown the pictures by its own processor.

    Ids that the small model lacks get no mass, and it reads its first id in their stead: neither touches the outcome,
    which is the target's. Serial passes a round: `guesses`.
    """

    model: Target
    guesses: int = 4
    view: View = text_only
    vocab_size: int | None = None  # of the target, where the small model's differs

    level: ClassVar[int] = 1
    trained: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs()

    def __post_init__(self) -> None:
        if self.guesses < 1:
            raise ValueError(f"guesses is {self.guesses}; it must be 1 or more")

    @classmethod
    def tiny(cls, model: Target) -> SmallLM:
        """An instance for the law tests, which drafts with this model."""
        return cls(model, guesses=3)

    @classmethod
    def load(cls, path: Path, target: Target, open_model: Callable[[Path], Any], **options: Any) -> SmallLM:
        """Read a directory in Hugging Face format. A model that sees is shown the messages by its own processor.

        Raises UsageError when the shared ids of the two vocabularies do not spell the same tokens.
        """
        model = open_model(path)
        same_vocabulary(model, target)
        return cls(model, view=reread_by(model) if model.sees else text_only, vocab_size=target.vocab_size, **options)

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> SmallLMSession:
        shown = [
            self.view(prompt, image[valid])
            for prompt, image, valid in zip(context.prompts, context.image, context.valid, strict=True)
        ]
        own, _, _ = self.model.open([replace(prompt, ids=self.known(prompt.ids)) for prompt in shown])
        first = torch.zeros(len(shown), 1, dtype=torch.long, device=context.ids.device)
        own.commit(first, first[:, 0] + 1)  # a prompt's last token is settled: keep it
        return SmallLMSession(self, own, rule, self.vocab_size)

    def known(self, ids: Tensor) -> Tensor:
        """The ids with those that the small model lacks replaced by its first."""
        return ids.where(ids < self.model.vocab_size, 0)


class SmallLMSession:
    """The small model's own cache. Between rounds it holds the prompt and what was settled, never a guess."""

    def __init__(self, how: SmallLM, own: TargetSession, rule: Rule, vocab_size: int | None) -> None:
        self.how, self.own, self.rule, self.vocab_size = how, own, rule, vocab_size

    def propose(self, verdict: Verdict) -> Draft:
        """A chain of `guesses` tokens drawn from the small model's own laws, [B, guesses]."""
        given = [self._catch_up(verdict)]
        tokens = [self._guess(given[0], verdict, 0)]
        for step in range(1, self.how.guesses):
            behind = Draft.chain(torch.stack(tokens, 1)[:, 1:])
            given.append(self._law(self.own.forward(tokens[0], behind, start=step - 1).logits[:, -1]))
            tokens.append(self._guess(given[-1], verdict, step))
        self.own.commit(torch.full_like(tokens[0][:, None], -1), torch.zeros_like(tokens[0]))
        return Draft.chain(torch.stack(tokens, 1), laws.stack([*given, given[-1]]))

    def _catch_up(self, verdict: Verdict) -> Law:
        """[B]; read and keep what was settled; the law of what follows."""
        tokens = self.how.known(verdict.tokens)
        seen = self.own.forward(tokens[:, 0], Draft.chain(tokens[:, 1:]))
        column = torch.arange(verdict.tokens.shape[1], device=verdict.tokens.device)
        self.own.commit(column.where(verdict.tokens >= 0, -1), verdict.length)
        last = (verdict.length - 1)[:, None, None].expand(-1, 1, seen.logits.shape[2])
        return self._law(seen.logits.gather(1, last)[:, 0])

    def _guess(self, law: Law, verdict: Verdict, step: int) -> Tensor:
        return self.rule.coupling.propose(law, 1, verdict.dice.ahead(step))[:, 0]

    def _law(self, logits: Tensor) -> Law:
        """The law over the target's ids: those beyond its vocabulary are cut off, those that lack get no mass."""
        more = 0 if self.vocab_size is None else self.vocab_size - logits.shape[-1]
        return self.rule.law(pad(logits, (0, more), value=-torch.inf) if more else logits)

    def keep(self, rows: Tensor) -> None:
        self.own.keep(rows)

    def join(self, other: SmallLMSession) -> None:
        self.own.join(other.own)
