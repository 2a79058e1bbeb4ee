"""Layers with a running state cannot be cropped: the state before a block is kept, and what was accepted read again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from paceline.core import Draft, Pass
from paceline.errors import UsageError
from paceline.hf.body import Body
from paceline.hf.layers import RecurrentLayer, State
from paceline.hf.session import Session
from paceline.hf.slots import Slots


class ReplaySession(Session):
    """One conversation on a decoder with recurrent layers. Chains only.

    A round whose guesses were all accepted costs nothing more; any other reads its accepted tokens a second time.
    """

    def __init__(
        self,
        body: Body,
        layers: tuple[int, ...],
        slots: Slots,
        rows: Sequence[int],
        offset: Tensor | None,
        root: Tensor,
    ) -> None:
        """root: [1, 1]; the prompt's last token, which the state has seen already."""
        super().__init__(body, layers, slots, rows, offset)
        self._block, self._read = root, True  # what the state has seen beyond what is committed
        self._states: list[State] | None = None  # before the block

    def forward(self, root: Tensor, draft: Draft, start: int = 0) -> Pass:
        """As in `Session`; with `start` the whole block is read again. Raises UsageError for a tree."""
        if not draft.tree.is_chain:
            raise UsageError(
                f"{type(self.body.model).__name__} has recurrent layers, whose state follows one line of text: "
                "a tree of guesses cannot be verified on it; use a drafter that drafts chains"
            )
        if self._read:
            self._rewind()
        self._states = [layer.state() for layer in self._recurrent()]
        guesses = draft.tokens[:, : int((draft.tokens[0] >= 0).sum())]
        self._block, self._read = torch.cat([root[:, None], guesses], 1), True
        seen = super().forward(root, Draft.chain(guesses))
        short = draft.tokens.shape[1] - guesses.shape[1]
        logits = pad(seen.logits, (0, 0, 0, short))[:, start:]
        return Pass(logits, None if seen.features is None else pad(seen.features, (0, 0, 0, short))[:, start:])

    @torch.inference_mode()
    def commit(self, path: Tensor, length: Tensor) -> None:
        kept = int(length[0])
        if kept < self._block.shape[1]:
            self._rewind()
            if kept:
                super().forward(self._block[:, 0], Draft.chain(self._block[:, 1:kept]))
        self._read = False
        super().commit(path, length)

    def _recurrent(self) -> list[RecurrentLayer]:
        return [layer for layer in self.slots.layers if isinstance(layer, RecurrentLayer)]

    def _rewind(self) -> None:
        if self._states is None:
            raise UsageError("a recurrent target cannot take back the last token of its prompt: commit it first")
        for layer, state in zip(self._recurrent(), self._states, strict=True):
            layer.restore(state)


class Abreast:
    """Several one-row sessions that look like one: rows of unlike length cannot share a recurrent forward."""

    def __init__(self, sessions: Sequence[ReplaySession]) -> None:
        self.sessions = list(sessions)

    @property
    def length(self) -> Tensor:
        """[B] int64; tokens committed."""
        return torch.cat([session.length for session in self.sessions])

    def forward(self, root: Tensor, draft: Draft, start: int = 0) -> Pass:
        """Read root and draft behind what is committed, row by row. root: [B]."""
        rows = torch.arange(len(self.sessions), device=root.device)[:, None]
        each = [
            session.forward(root[row], Draft(draft.tokens[row], draft.tree.keep(row)), start)
            for session, row in zip(self.sessions, rows, strict=True)
        ]
        features = [seen.features for seen in each if seen.features is not None]
        return Pass(torch.cat([seen.logits for seen in each]), torch.cat(features) if features else None)

    def commit(self, path: Tensor, length: Tensor) -> None:
        """Keep these columns of the block, in order, and forget the rest. path: [B, A]; length: [B], 0 allowed."""
        for row, session in enumerate(self.sessions):
            session.commit(path[row : row + 1], length[row : row + 1])

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these. Between commit and forward only. rows: [R] int64, none twice."""
        self.sessions = [self.sessions[row] for row in rows.tolist()]

    def join(self, other: Abreast) -> None:
        """Append the rows of another session of the same target."""
        self.sessions += other.sessions
