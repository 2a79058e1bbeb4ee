"""Row grammar: which ids may stand at each place of a layout, told to the law through the logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paceline.core import Draft, Pass, Prompt, TargetSession
from paceline.layout import Layout
from paceline.targets.guided import Opened


@dataclass(frozen=True)
class Grammar:
    """The forced id where the layout demands one, a code elsewhere; nothing is said behind the layout's end.

    Applied to guided logits, before temperature and top-k: where transformers runs such processors (decision 0007).
    """

    kind: Tensor  # [N + 1] int64; which penalty holds at an offset, the last entry for all that lies behind
    penalty: Tensor  # [K, V]; 0 for what may stand, -inf for the rest
    size: int  # N, tokens of the layout

    @staticmethod
    def of(layout: Layout, like: Tensor) -> Grammar:
        """The grammar of a layout for logits such as `like`, [..., V]."""
        demands = sorted(set(layout.forced) | {-1})  # -1: a code
        kinds = [*(demands.index(demand) for demand in layout.forced), len(demands)]
        penalty = like.new_full((len(demands) + 1, like.shape[-1]), -torch.inf)
        for row, demand in zip(penalty, demands, strict=False):
            row[slice(*layout.codes) if demand < 0 else demand] = 0
        penalty[-1] = 0
        return Grammar(torch.tensor(kinds, device=like.device), penalty, layout.size)

    def __call__(self, logits: Tensor, offset: Tensor) -> Tensor:
        """[B, n, V]; the logits with -inf on what may not stand at these offsets. offset: [B, n], 0 or more."""
        return logits + self.penalty[self.kind[offset.clamp(max=self.size)]]

    @property
    def demands_nothing(self) -> bool:
        """Whether every id of the head may stand everywhere, so that there is nothing to apply."""
        return not self.penalty[self.kind.unique()].any()


class GrammarSession:
    """A session whose logits obey a grammar at every node of a draft, each by its own depth."""

    def __init__(self, inner: TargetSession, grammar: Grammar, prompt: Tensor) -> None:
        """prompt: [B] int64; tokens before each row's offset 0."""
        self.inner, self.grammar, self._prompt = inner, grammar, prompt

    @property
    def length(self) -> Tensor:
        """[B] int64; tokens committed."""
        return self.inner.length

    def forward(self, root: Tensor, draft: Draft, start: int = 0) -> Pass:
        """See `TargetSession`. What follows a node of depth d behind n committed tokens stands at offset n + d + 1."""
        seen = self.inner.forward(root, draft, start)
        offset = (self.length - self._prompt)[:, None] + draft.tree.depth[:, start:] + 1
        return replace(seen, logits=self.grammar(seen.logits, offset))

    def commit(self, path: Tensor, length: Tensor) -> None:
        self.inner.commit(path, length)

    def keep(self, rows: Tensor) -> None:
        self.inner.keep(rows)
        self._prompt = self._prompt[rows]

    def join(self, other: GrammarSession) -> None:
        self.inner.join(other.inner)
        self._prompt = torch.cat([self._prompt, other._prompt])


def obey(opened: Opened, prompts: Sequence[Prompt], layout: Layout) -> Opened:
    """What `open` gave for these prompts, under the layout's grammar."""
    session, context, seen = opened
    grammar = Grammar.of(layout, seen.logits)
    if grammar.demands_nothing:
        return opened
    prompt = torch.tensor([len(p.ids) for p in prompts], device=seen.logits.device)
    first = grammar(seen.logits, torch.zeros_like(prompt)[:, None])
    return GrammarSession(session, grammar, prompt), context, replace(seen, logits=first)
