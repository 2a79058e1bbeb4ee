"""Couplings: each draws the outcome from p exactly; they differ in how often a guess survives."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from paceline.core import Coupling
from paceline.dice import DRAW, REST, TEST, Dice
from paceline.law import Law, Point


@dataclass(frozen=True, slots=True)
class Gumbel:
    """One race a position, run by drafter and verifier alike; the outcome is its winner under p.

    The outcome ignores the guesses, so the text equals plain decoding with the same seed, token for token, at any
    temperature, with any drafter, in any batch. Agreement: sum_i 1 / sum_j max(p_j/p_i, q_j/q_i), at least
    (1 - TV)/(1 + TV) (Daliri, Musco, Suresh 2024).
    """

    exact = True

    def propose(self, q: Law, width: int, dice: Dice) -> Tensor:
        """[..., width]; the first finishers of the race under q, best first."""
        return q.race(dice, width)

    def outcome_law(self, p: Law, x: Tensor, q: Law | None) -> Law:
        """p itself: guesses move the outcome only through the shared race, never through their value."""
        return p

    def settle(self, p: Law, x: Tensor, q: Law | None, dice: Dice) -> Tensor:
        """[...]; the winner of the race under p."""
        return self.outcome_law(p, x, q).race(dice, 1)[..., 0]


@dataclass(frozen=True, slots=True)
class Maximal:
    """Speculative sampling: take a guess with min(1, p/q), else draw from what q left of p; child by child.

    Children drawn from q must be i.i.d. and in draw order (Leviathan et al. 2023; Miao et al. 2024, multi-round form);
    agreement with one child is 1 - TV(p, q). Chosen children (q None) are compared with a plain draw from p.
    """

    exact = True

    def propose(self, q: Law, width: int, dice: Dice) -> Tensor:
        """[..., width]; i.i.d. draws from q."""
        return torch.stack([q.draw(dice, DRAW + k) for k in range(width)], -1)

    def outcome_law(self, p: Law, x: Tensor, q: Law | None) -> Mixture:
        """The chances to take each guess in turn, and the law of what is drawn when all are refused."""
        open_ = torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device)
        chances: list[Tensor] = []
        for k in range(x.shape[-1] if q is not None and not isinstance(p, Point) else 0):
            assert q is not None
            guess = x[..., k : k + 1]
            given, wanted = q.prob(guess)[..., 0], p.prob(guess)[..., 0]
            chance = torch.where(given > wanted, wanted / given, (wanted > 0).to(wanted.dtype))
            chances.append(chance.where(guess[..., 0] >= 0, 0.0))
            p = p.minus(q, open_ & (guess[..., 0] >= 0))
        return Mixture(x, tuple(chances), p)

    def settle(self, p: Law, x: Tensor, q: Law | None, dice: Dice) -> Tensor:
        """[...]; a draw from `outcome_law`, with noise that no drafter has seen."""
        return self.outcome_law(p, x, q).draw(dice)


@dataclass(frozen=True, slots=True)
class Mixture:
    """Guess k with chance a_k once the earlier ones are refused, else a draw from `rest`."""

    guesses: Tensor  # [..., W]
    chances: tuple[Tensor, ...]  # of length 0 … W, each [...]
    rest: Law  # [...]

    def draw(self, dice: Dice) -> Tensor:
        """[...]; outcomes."""
        if not self.chances:
            return self.rest.draw(dice, REST)
        u = dice.uniform(TEST, torch.arange(len(self.chances), device=self.guesses.device))
        taken = torch.full(self.guesses.shape[:-1], -1, device=self.guesses.device)
        for k, chance in enumerate(self.chances):
            taken = torch.where((taken < 0) & (u[..., k] < chance), self.guesses[..., k], taken)
        return taken.where(taken >= 0, self.rest.draw(dice, REST))

    def dense(self, vocab: int) -> Tensor:
        """[..., vocab] probabilities, for exact enumeration."""
        left = torch.ones(self.guesses.shape[:-1], dtype=torch.float64, device=self.guesses.device)
        total = torch.zeros(*self.guesses.shape[:-1], vocab, dtype=torch.float64, device=self.guesses.device)
        for k, chance in enumerate(self.chances):
            total.scatter_add_(-1, self.guesses[..., k : k + 1].clamp(min=0), (left * chance)[..., None])
            left = left * (1 - chance)
        return total + left[..., None] * self.rest.dense(vocab)


COUPLINGS: dict[str, type[Coupling]] = {"gumbel": Gumbel, "maximal": Maximal}
