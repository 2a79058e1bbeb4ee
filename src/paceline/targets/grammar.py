"""Row grammar: which ids may stand at each place of a layout, told to the law through the logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paceline.core import Context, Draft, Pass, Prompt, TargetSession
from paceline.layout import Layout


@dataclass(frozen=True)
class Grammar:
    """The forced id where the layout demands one, a code elsewhere; nothing is said behind the layout's end.

    Applied to guided logits, before temperature and top-k: where transformers runs such processors (decision 0007).
    """

    layout: Layout
    forced: Tensor  # [N + 1] int64; -1: a code, -2: anything (the last entry, for all that lies behind)

    @staticmethod
    def of(layout: Layout, device: torch.device) -> Grammar:
        return Grammar(layout, torch.tensor([*layout.forced, -2], device=device))

    def __call__(self, logits: Tensor, offset: Tensor) -> Tensor:
        """[B, n, V]; the logits with -inf on what may not stand at these offsets. offset: [B, n], 0 or more."""
        first, end = self.layout.codes
        allowed = torch.full_like(logits, -torch.inf)
        allowed[..., first:end] = logits[..., first:end]
        demand = self.forced[offset.clamp(max=self.layout.size)][..., None]
        at = demand.clamp(min=0)
        one = torch.full_like(logits, -torch.inf).scatter_(-1, at, logits.gather(-1, at))
        return torch.where(demand == -2, logits, torch.where(demand >= 0, one, allowed))

    def demands_nothing(self, vocab: int) -> bool:
        """Whether every id of the head may stand everywhere, so that there is nothing to apply."""
        return self.layout.codes == (0, vocab) and max(self.layout.forced) < 0


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


Opened = tuple[TargetSession, Context, Pass]


def obey(opened: Opened, prompts: Sequence[Prompt], layout: Layout) -> Opened:
    """What `open` gave for these prompts, under the layout's grammar."""
    session, context, seen = opened
    grammar = Grammar.of(layout, seen.logits.device)
    if grammar.demands_nothing(seen.logits.shape[-1]):
        return opened
    prompt = torch.tensor([len(p.ids) for p in prompts], device=seen.logits.device)
    first = grammar(seen.logits, torch.zeros_like(prompt)[:, None])
    return GrammarSession(session, grammar, prompt), context, replace(seen, logits=first)
