"""A target that is a table of probabilities, so that losslessness can be checked against an exact answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from paceline.clock import Clock, silent
from paceline.core import Context, Draft, Needs, Pass, Prompt, Shared


@dataclass(frozen=True)
class TableTarget:
    """Logits depend on the last two tokens. Features, if asked for, are fixed functions of the logits, V wide a layer.

    Embeddings, head and received attention are fixed too, so that every drafter has what it reads.
    """

    table: Tensor  # [V, V, V]; logits after (grandparent, parent)
    image_id: int | None = None  # its rows in a prompt stand for a picture

    @property
    def vocab_size(self) -> int:
        return self.table.shape[0]

    def open(
        self, prompts: Sequence[Prompt], needs: Needs = Needs(), *, clock: Clock = silent
    ) -> tuple[TableSession, Context, Pass]:
        """Read the prompts. Raises ValueError for one shorter than two tokens, which the table cannot place."""
        ids = [prompt.ids for prompt in prompts]
        if any(len(row) < 2 for row in ids):
            raise ValueError(f"a table target needs prompts of 2 tokens or more, got lengths {[len(r) for r in ids]}")
        session = TableSession(self.table, [row[:-1] for row in ids], needs.layers)
        root = torch.stack([row[-1] for row in ids])
        text = pad_sequence(ids, batch_first=True, padding_value=-1)
        known = text.clamp(min=0)
        before = torch.nn.functional.pad(known[:, :-1], (1, 0))  # a text's first token follows the id 0
        context = Context(
            tuple(prompts),
            text,
            text >= 0,
            torch.zeros_like(text, dtype=torch.bool) if self.image_id is None else text == self.image_id,
            embeddings=self.shared.embed(known) if needs.embeddings else None,
            features=taps(self.table[before, known], needs.layers),
            scores=(1 + before + known.cumsum(1) % 5).to(self.table.dtype) if needs.scores else None,
        )
        return session, context, session.forward(root, Draft.none(root))

    @property
    def shared(self) -> Shared:
        """Embedding and head, V wide, and as many layers as the published layer rules need."""
        embedding, head = self.table.mean(0).cos(), self.table.mean(1)
        return Shared(
            embedding.__getitem__, lambda hidden: hidden @ head.T, self.vocab_size, 8, self.vocab_size,
            self.table.new_empty(0),
        )  # fmt: skip


def taps(logits: Tensor, layers: Sequence[int]) -> Tensor | None:
    """[..., V * len(layers)]; what a table shows of its insides: layer k is the sine of k times the logits."""
    return torch.cat([(k * logits).sin() for k in layers], -1) if layers else None


class TableSession:
    """Remembers each row's last committed token and how many there are."""

    def __init__(self, table: Tensor, texts: Sequence[Tensor], layers: tuple[int, ...]) -> None:
        self.table, self.layers = table, layers
        self.length = torch.tensor([len(text) for text in texts])
        self.tail = torch.stack([text[-1] for text in texts])

    def forward(self, root: Tensor, draft: Draft, start: int = 0) -> Pass:
        self.block = torch.cat([root[:, None], draft.tokens.clamp(min=0)], 1)
        parents = draft.parent.expand(len(root), -1)
        before = torch.cat([self.tail[:, None], self.block.gather(1, parents)], 1)
        logits = self.table[before, self.block][:, start:]
        return Pass(logits, taps(logits, self.layers))

    def commit(self, path: Tensor, length: Tensor) -> None:
        last = path.gather(1, (length[:, None] - 1).clamp(min=0))
        self.tail = torch.where(length > 0, self.block.gather(1, last.clamp(min=0))[:, 0], self.tail)
        self.length = self.length + length

    def keep(self, rows: Tensor) -> None:
        self.length, self.tail = self.length[rows], self.tail[rows]

    def join(self, other: TableSession) -> None:
        self.length, self.tail = torch.cat([self.length, other.length]), torch.cat([self.tail, other.tail])
