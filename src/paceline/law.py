"""Laws of the next token in three forms, each as dear as it must be: a point, a short support, a dense row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch
from torch import Tensor

from paceline.dice import RACE, Dice


@dataclass(frozen=True, slots=True)
class Point:
    """All mass on one id a place: greedy decoding. No softmax, no noise."""

    ids: Tensor  # [...] int64

    @property
    def shape(self) -> torch.Size:
        return self.ids.shape

    def prob(self, ids: Tensor) -> Tensor:
        """[..., n]; the mass on each id, negative ids 0. ids: [..., n]."""
        return (self.ids[..., None] == ids).double()

    def minus(self, q: Law, where: Tensor) -> Law:
        """A point loses nothing that would change it: what is left of it is itself."""
        return self

    def draw(self, dice: Dice, lane: int) -> Tensor:
        return self.ids

    def race(self, dice: Dice, width: int) -> Tensor:
        """[..., width]; the point first, then pads (-1)."""
        return torch.nn.functional.pad(self.ids[..., None], (0, width - 1), value=-1)

    def dense(self, vocab: int) -> Tensor:
        """[..., vocab] probabilities."""
        return torch.nn.functional.one_hot(self.ids, vocab).double()

    def __getitem__(self, index: Index) -> Point:
        return Point(self.ids[index])

    def widen(self, width: int) -> Point:
        return self


@dataclass(frozen=True, slots=True)
class Sparse:
    """A short support, as top-k and top-p leave it. Ids rise along the last axis and are distinct."""

    ids: Tensor  # [..., k] int64
    probs: Tensor  # [..., k] float64, sums to 1; 0 where top-p cut deeper than the widest place needs

    @property
    def shape(self) -> torch.Size:
        return self.ids.shape[:-1]

    def prob(self, ids: Tensor) -> Tensor:
        """[..., n]; the mass on each id, ids outside the support 0. ids: [..., n]."""
        at = torch.searchsorted(self.ids, ids.contiguous()).clamp_(max=self.ids.shape[-1] - 1)
        return torch.where(self.ids.gather(-1, at) == ids, self.probs.gather(-1, at), 0.0)

    def minus(self, q: Law, where: Tensor) -> Law:
        """norm(max(p - q, 0)) at the places of `where`, p elsewhere and where nothing is left."""
        return replace(self, probs=_left(self.probs, q.prob(self.ids), where))

    def draw(self, dice: Dice, lane: int) -> Tensor:
        """[...]; one id a place, by one number of the lane."""
        return self.ids.gather(-1, _inverse(self.probs, dice, lane))[..., 0]

    def race(self, dice: Dice, width: int) -> Tensor:
        """[..., width]; the first finishers of the shared race, best first, pads (-1) where mass ends."""
        speed = _times(self.probs, dice.uniform(RACE, self.ids, shared=True))
        best = speed.topk(min(width, speed.shape[-1]), -1)
        ids = self.ids.gather(-1, best.indices).where(best.values > 0, -1)
        return torch.nn.functional.pad(ids, (0, width - ids.shape[-1]), value=-1)

    def dense(self, vocab: int) -> Tensor:
        """[..., vocab] probabilities."""
        return self.probs.new_zeros(*self.shape, vocab).scatter_(-1, self.ids, self.probs)

    def __getitem__(self, index: Index) -> Sparse:
        return Sparse(self.ids[index], self.probs[index])

    def widen(self, width: int) -> Sparse:
        """The same law with a support of `width` slots; ids beyond every vocabulary, without mass, fill it."""
        more = width - self.ids.shape[-1]
        if more <= 0:
            return self
        fill = 2**40 + torch.arange(more, device=self.ids.device)
        ids = torch.cat([self.ids, fill.expand(*self.shape, more)], -1)
        return Sparse(ids, torch.nn.functional.pad(self.probs, (0, more)))


@dataclass(frozen=True, slots=True)
class Dense:
    """A probability for every id of the vocabulary, in the precision of the logits (at least float32)."""

    probs: Tensor  # [..., V], sums to 1

    @property
    def shape(self) -> torch.Size:
        return self.probs.shape[:-1]

    def prob(self, ids: Tensor) -> Tensor:
        """[..., n]; the mass on each id, ids outside the vocabulary 0. ids: [..., n]."""
        known = (ids >= 0) & (ids < self.probs.shape[-1])
        return self.probs.gather(-1, ids.where(known, 0)).where(known, 0.0)

    def minus(self, q: Law, where: Tensor) -> Law:
        """norm(max(p - q, 0)) at the places of `where`, p elsewhere and where nothing is left."""
        return Dense(_left(self.probs, q.dense(self.probs.shape[-1]).to(self.probs.dtype), where))

    def draw(self, dice: Dice, lane: int) -> Tensor:
        """[...]; one id a place, by one number of the lane."""
        return _inverse(self.probs, dice, lane)[..., 0]

    def race(self, dice: Dice, width: int) -> Tensor:
        """[..., width]; the first finishers of the shared race, best first, pads (-1) where mass ends."""
        ids = torch.arange(self.probs.shape[-1], device=self.probs.device)
        speed = _times(self.probs, dice.uniform(RACE, ids, shared=True))
        best = speed.topk(min(width, self.probs.shape[-1]), -1)
        ids = best.indices.where(best.values > 0, -1)
        return torch.nn.functional.pad(ids, (0, width - ids.shape[-1]), value=-1)

    def dense(self, vocab: int) -> Tensor:
        """[..., vocab] probabilities; a shorter vocabulary is filled with zeros."""
        return torch.nn.functional.pad(self.probs, (0, vocab - self.probs.shape[-1]))

    def __getitem__(self, index: Index) -> Dense:
        return Dense(self.probs[index])

    def widen(self, width: int) -> Dense:
        return self


Law: TypeAlias = Point | Sparse | Dense
Index: TypeAlias = Tensor | slice | int | tuple[Tensor | slice | int, ...]


def stack(laws: Sequence[Law], dim: int = 1) -> Law:
    """One law with a new axis `dim`, from laws of one form and one shape. Raises TypeError on mixed forms."""
    return _merge(laws, dim, torch.stack)


def cat(laws: Sequence[Law], dim: int = 0) -> Law:
    """Laws of one form joined along an axis that they have. Raises TypeError on mixed forms."""
    return _merge(laws, dim, torch.cat)


def where(condition: Tensor, a: Law, b: Law) -> Law:
    """a at the places of `condition`, b elsewhere: laws of one form and shape. Raises TypeError on mixed forms."""
    if isinstance(a, Point) and isinstance(b, Point):
        return Point(a.ids.where(condition, b.ids))
    if isinstance(a, Sparse) and isinstance(b, Sparse):
        width = max(a.ids.shape[-1], b.ids.shape[-1])
        a, b = a.widen(width), b.widen(width)
        return Sparse(a.ids.where(condition[..., None], b.ids), a.probs.where(condition[..., None], b.probs))
    if isinstance(a, Dense) and isinstance(b, Dense):
        return Dense(a.probs.where(condition[..., None], b.probs))
    raise TypeError(f"laws of different forms cannot be joined: {type(a).__name__}, {type(b).__name__}")


def certain(ids: Tensor, like: Law) -> Law:
    """[...]; all mass on one id a place, in the form and precision of another law; none on negative ids. ids: [...]."""
    if isinstance(like, Point):
        return Point(ids)
    if isinstance(like, Sparse):
        return Sparse(ids[..., None], like.probs.new_ones(*ids.shape, 1))
    probs = like.probs.new_zeros(*ids.shape, like.probs.shape[-1])
    return Dense(probs.scatter_(-1, ids.clamp(min=0)[..., None], (ids >= 0).to(probs.dtype)[..., None]))


def _merge(laws: Sequence[Law], dim: int, join: Callable[[list[Tensor], int], Tensor]) -> Law:
    if all(isinstance(law, Point) for law in laws):
        return Point(join([law.ids for law in laws if isinstance(law, Point)], dim))
    if all(isinstance(law, Sparse) for law in laws):
        width = max(law.ids.shape[-1] for law in laws if isinstance(law, Sparse))
        wide = [law.widen(width) for law in laws if isinstance(law, Sparse)]
        return Sparse(join([law.ids for law in wide], dim), join([law.probs for law in wide], dim))
    if all(isinstance(law, Dense) for law in laws):
        return Dense(join([law.probs for law in laws if isinstance(law, Dense)], dim))
    raise TypeError(f"laws of different forms cannot be joined: {sorted({type(law).__name__ for law in laws})}")


def _inverse(probs: Tensor, dice: Dice, lane: int) -> Tensor:
    """[..., 1]; where the running sum reaches u times the whole: a draw from p for a uniform u, never one without mass.

    Sums in float64: the draw is as exact as the probabilities.
    """
    sums = probs.cumsum(-1, dtype=torch.float64)
    u = dice.uniform(lane, torch.zeros(1, dtype=torch.long, device=probs.device))
    return torch.searchsorted(sums, (u * sums[..., -1:]).expand(*sums.shape[:-1], 1).contiguous())


def _times(probs: Tensor, u: Tensor) -> Tensor:
    """p / Exp(1), whose argmax is a draw from p. Were it -log u, a u that rounds to 1 would let p = 0 win."""
    return probs / u.to(probs.dtype).neg_().log1p_().neg_()


def _left(p: Tensor, q: Tensor, where: Tensor) -> Tensor:
    rest = (p - q).clamp_(min=0)
    mass = rest.sum(-1, keepdim=True)
    return torch.where(where[..., None] & (mass > 0), rest / mass, p)
