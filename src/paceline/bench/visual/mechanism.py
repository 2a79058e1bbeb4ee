"""Why a method needs few forwards: how calm its guesses are, how far laws move between rounds, how many agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from paceline.core import Verdict
from paceline.law import Dense, Law, Point
from paceline.painting import Stroke

SLOTS = 128  # places of a window at most; slot k is the k-th guess behind the root


@dataclass(frozen=True, slots=True)
class Slots:
    """Counts by slot, summed over rounds and rows. Held: guesses at places that the round before had guessed, too."""

    held: NDArray[np.float64]  # [SLOTS]
    unchanged: NDArray[np.float64]  # of the held: the very token of the round before
    confirmed: NDArray[np.float64]  # of the held: equal to this round's outcome
    moved: NDArray[np.float64]  # sum over the held of TV(law of this round, law that the guess was told with)
    offered: NDArray[np.float64]  # all guesses
    agreed: NDArray[np.float64]  # guesses that equalled the outcome, whether or not they were reached

    @staticmethod
    def none() -> Slots:
        return Slots(*(np.zeros(SLOTS) for _ in range(6)))

    def __add__(self, other: Slots) -> Slots:
        pairs = zip(self.arrays(), other.arrays(), strict=True)
        return Slots(*(a + b for a, b in pairs))

    def arrays(self) -> tuple[NDArray[np.float64], ...]:
        return self.held, self.unchanged, self.confirmed, self.moved, self.offered, self.agreed

    def rates(self) -> dict[str, float | None]:
        """Over all slots: shares of held guesses unchanged and confirmed, their mean TV, share of all that agreed."""
        return {
            "collisions": _share(self.unchanged.sum(), self.held.sum()),
            "confirmed": _share(self.confirmed.sum(), self.held.sum()),
            "tv": _share(self.moved.sum(), self.held.sum()),
            "agreement": _share(self.agreed.sum(), self.offered.sum()),
        }

    def by_slot(self) -> list[dict[str, float | int | None]]:
        """The same, slot by slot, up to the last one that was used."""
        last = int(np.flatnonzero(self.offered)[-1]) if self.offered.any() else -1
        return [
            {
                "slot": k + 1,
                "collisions": _share(self.unchanged[k], self.held[k]),
                "confirmed": _share(self.confirmed[k], self.held[k]),
                "tv": _share(self.moved[k], self.held[k]),
                "agreement": _share(self.agreed[k], self.offered[k]),
            }
            for k in range(last + 1)
        ]


@dataclass(slots=True)
class Observer:
    """Reads strokes as they come. Nothing it does changes what is drawn, and none of its time is in any phase."""

    slots: Slots
    entropy: float = 0.0  # nats, summed over settled tokens: of the law that each was drawn from
    settled: int = 0
    previous: dict[int, list[int]] | None = None  # canvas -> guesses that the last round left unsettled, in order

    @staticmethod
    def fresh() -> Observer:
        return Observer(Slots.none())

    def see(self, stroke: Stroke) -> None:
        """Count one round."""
        verdict = stroke.verdict
        tokens = verdict.draft.tokens.tolist()
        lengths, drawn = verdict.length.tolist(), verdict.drawn.tolist()
        moved = _moved(verdict)
        for row, canvas in enumerate(stroke.alive):
            guesses = [token for token in tokens[row] if token >= 0]
            before = (self.previous or {}).get(canvas, [])
            self._count(guesses, before, drawn[row], [] if moved is None else moved[row])
        self.previous = {
            canvas: [t for t in tokens[row] if t >= 0][lengths[row] :] for row, canvas in enumerate(stroke.alive)
        }
        self._measure_entropy(verdict.law, lengths)

    def _count(
        self, guesses: Sequence[int], before: Sequence[int], drawn: Sequence[int], moved: Sequence[float]
    ) -> None:
        held, unchanged, confirmed, distance, offered, agreed = self.slots.arrays()
        for k, guess in enumerate(guesses):
            offered[k] += 1
            agreed[k] += guess == drawn[k]
            if k < len(before):
                held[k] += 1
                unchanged[k] += guess == before[k]
                confirmed[k] += guess == drawn[k]
                distance[k] += moved[k] if moved else 0.0

    def _measure_entropy(self, law: Law, lengths: Sequence[int]) -> None:
        self.settled += sum(lengths)
        if isinstance(law, Point):
            return
        probs = law.probs.double()
        bits = -(probs * probs.clamp(min=1e-300).log()).sum(-1)  # [B, N + 1]
        column = torch.arange(bits.shape[1], device=bits.device)
        self.entropy += float(bits.where(column < torch.tensor(lengths, device=bits.device)[:, None], 0.0).sum())

    @property
    def mean_entropy(self) -> float:
        """Nats a token, under the law that it was drawn from."""
        return self.entropy / max(self.settled, 1)


def _moved(verdict: Verdict) -> list[list[float]] | None:
    """[B][N]; total variation between the newest law at each guess and the one it was told with. None when greedy."""
    q, n = verdict.draft.q, verdict.draft.tokens.shape[1]
    if q is None or not n or isinstance(verdict.law, Point):
        return None
    p, q = verdict.law[:, :n], q[:, :n]
    vocab = 1 + max(_top(p), _top(q))
    return ((p.dense(vocab) - q.dense(vocab)).clamp(min=0).sum(-1)).tolist()


def _top(law: Law) -> int:
    """The highest id that the law may name."""
    if isinstance(law, Point):
        return int(law.ids.max())
    return law.probs.shape[-1] - 1 if isinstance(law, Dense) else int(law.ids[law.probs > 0].max())


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None
