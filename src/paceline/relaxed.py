"""Couplings that trade the target's law for agreement: every table labels them, and none is a default.

Neither lets out an id that the target gives no mass: top-k and row grammars hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paceline.couplings import Maximal, Mixture
from paceline.dice import Dice
from paceline.errors import UsageError
from paceline.law import Dense, Law, Point, Sparse


@dataclass(frozen=True, slots=True)
class Grouped:
    """Take a guess with min(1, p(C) / q(C)), where C are the ids of its group: GSD (So et al. 2025), with a partition.

    Ids are grouped by their rank under p, `size` neighbours a group. Refused guesses are replaced by a draw from what
    q left of each group, spread as p is within it. Groups keep the target's law exactly; ids within a group do not.
    With size 1 this is `Maximal`. Greedy laws and chosen guesses are not relaxed. Raises UsageError for a size below 1.
    """

    size: int = 10

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError(f"a group has {self.size} ids; it must have 1 (exact) or more")

    @property
    def exact(self) -> bool:
        return self.size == 1

    def propose(self, q: Law, width: int, dice: Dice) -> Tensor:
        """[..., width]; i.i.d. draws from q."""
        return Maximal().propose(q, width, dice)

    def outcome_law(self, p: Law, x: Tensor, q: Law | None) -> Mixture:
        """The chances to take each guess in turn, and the law of what is drawn when all are refused."""
        if q is None or isinstance(p, Point):
            return Mixture(x, (), p)
        group = self.groups(p)
        there = _on(p, q).where(p.probs > 0, 0.0)  # ids without mass belong to no group
        chances, open_ = list[Tensor](), torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
        for k in range(x.shape[-1]):
            slot, known = _slot(p, x[..., k : k + 1])
            wanted, given = _sums(p.probs, group), _sums(there, group)
            mine = group.gather(-1, slot)
            ratio = wanted.gather(-1, mine) / given.gather(-1, mine)
            chances.append(ratio.clamp(max=1).where(known, 0.0)[..., 0].nan_to_num(0.0))
            open_ = open_ & (x[..., k] >= 0)
            p = _left(p, group, wanted, given, open_)
        return Mixture(x, tuple(chances), p)

    def groups(self, p: Dense | Sparse) -> Tensor:
        """[..., K] int64; the group of each id that p lists: the likeliest `size` ids are group 0."""
        order = p.probs.argsort(dim=-1, descending=True, stable=True)
        rank = torch.arange(order.shape[-1], device=order.device).expand_as(order)
        return torch.empty_like(order).scatter_(-1, order, rank // self.size)

    def settle(self, p: Law, x: Tensor, q: Law | None, dice: Dice) -> Tensor:
        """[...]; a draw from `outcome_law`."""
        return self.outcome_law(p, x, q).draw(dice)


@dataclass(frozen=True, slots=True)
class Pooled:
    """Take a guess with min(1, p(A) / q), where A are the guess and its look-alikes: LANTERN (Jang et al. 2025).

    A grows by the nearest codes for as long as the mass that they lend stays within `delta`. Refused guesses are
    replaced as under `Maximal`, so that no more than the added acceptance changes: TV(outcome, p) is at most the gain
    in agreement. With delta 0 this is `Maximal`. Greedy laws and chosen guesses are not relaxed. Raises UsageError for
    a delta outside [0, 1].
    """

    neighbours: Tensor  # [V, K] int64; look-alikes of each id, nearest first, -1 pads; from `nearest`
    delta: float = 0.2

    def __post_init__(self) -> None:
        if not 0 <= self.delta <= 1:
            raise UsageError(f"delta is {self.delta}; it must be in [0, 1], 0 being exact")

    @property
    def exact(self) -> bool:
        return self.delta == 0

    def propose(self, q: Law, width: int, dice: Dice) -> Tensor:
        """[..., width]; i.i.d. draws from q."""
        return Maximal().propose(q, width, dice)

    def outcome_law(self, p: Law, x: Tensor, q: Law | None) -> Mixture:
        """The chances to take each guess in turn, and the law of what is drawn when all are refused."""
        if q is None or isinstance(p, Point):
            return Mixture(x, (), p)
        chances, left, open_ = list[Tensor](), p, torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
        for k in range(x.shape[-1]):
            guess = x[..., k : k + 1]
            own, given = left.prob(guess)[..., 0], q.prob(guess)[..., 0]
            wanted = torch.where(own > 0, own + self.lent(left, guess[..., 0]), 0.0)
            chance = torch.where(given > wanted, wanted / given, (wanted > 0).to(wanted.dtype))
            chances.append(chance.where(guess[..., 0] >= 0, 0.0))
            open_ = open_ & (guess[..., 0] >= 0)
            left = left.minus(q, open_)
        return Mixture(x, tuple(chances), left)

    def lent(self, p: Law, x: Tensor) -> Tensor:
        """[...]; the mass that the look-alikes of the guesses lend, at most `delta`. x: [...]."""
        near = self.neighbours.to(x.device)[x.clamp(min=0)]
        mass = p.prob(near).where(near >= 0, 0.0)
        return mass.where(mass.cumsum(-1) <= self.delta, 0.0).sum(-1)

    def settle(self, p: Law, x: Tensor, q: Law | None, dice: Dice) -> Tensor:
        """[...]; a draw from `outcome_law`."""
        return self.outcome_law(p, x, q).draw(dice)


def nearest(codebook: Tensor, count: int, first: int = 0) -> Tensor:
    """[first + C, count] int64; the codes that look most like each code, nearest first; -1 for ids that are no codes.

    codebook: [C, D], the vector (or patch) of each code; first: the id of code 0. Raises UsageError for a count that
    the codebook does not have.
    """
    if not 1 <= count < len(codebook):
        raise UsageError(f"{count} neighbours of {len(codebook)} codes: give 1 … {len(codebook) - 1}")
    flat = codebook.flatten(1).float()
    table = torch.full((first + len(flat), count), -1, device=flat.device)
    for begin in range(0, len(flat), 1024):
        far = torch.cdist(flat[begin : begin + 1024], flat)
        far[torch.arange(len(far)), begin + torch.arange(len(far))] = torch.inf
        table[first + begin : first + begin + len(far)] = first + far.topk(count, largest=False).indices
    return table


def _on(p: Dense | Sparse, q: Law) -> Tensor:
    """[..., K]; q's mass on the ids that p lists."""
    return q.prob(p.ids) if isinstance(p, Sparse) else q.dense(p.probs.shape[-1]).to(p.probs.dtype)


def _slot(p: Dense | Sparse, ids: Tensor) -> tuple[Tensor, Tensor]:
    """([..., n] where p lists each id, [..., n] bool whether it gives it mass). ids: [..., n]."""
    if isinstance(p, Dense):
        at = ids.clamp(0, p.probs.shape[-1] - 1)
        return at, (ids == at) & (p.probs.gather(-1, at) > 0)
    at = torch.searchsorted(p.ids, ids.contiguous()).clamp_(max=p.ids.shape[-1] - 1)
    return at, (p.ids.gather(-1, at) == ids) & (p.probs.gather(-1, at) > 0)


def _sums(mass: Tensor, group: Tensor) -> Tensor:
    """[..., K]; the mass of each group, in the column of its number."""
    return torch.zeros_like(mass).scatter_add_(-1, group, mass)


def _left(p: Dense | Sparse, group: Tensor, wanted: Tensor, given: Tensor, where: Tensor) -> Dense | Sparse:
    """What q left of each group of p, spread as p is within it; p where nothing is left, and outside `where`."""
    rest = (wanted - given).clamp(min=0)
    mass = rest.sum(-1, keepdim=True)
    scale = (rest / mass / wanted).nan_to_num(0.0, 0.0, 0.0).gather(-1, group)
    return replace(p, probs=torch.where(where[..., None] & (mass > 0), p.probs * scale, p.probs))
