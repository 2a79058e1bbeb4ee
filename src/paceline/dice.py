"""Noise as a pure function of where it is used: nothing is consumed in order, no row depends on its batch mates."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

LANES = 64  # independent uniforms for one (seed, position, turn, actor)
RACE, TEST, REST, DRAW = 0, 1, 2, 3  # DRAW + k draws child k; a row has at most LANES - DRAW children a node

VERIFIER, DRAFTER = 0, 1


@dataclass(frozen=True, slots=True)
class Dice:
    """Uniforms keyed by (seed, absolute position, turn, actor, lane, token id) through an integer hash.

    Equal on every device. The two actors never meet, and no turn repeats another's draws, except where `shared`
    is asked for: the Gumbel race of a position, which drafter and verifier run alike on every turn.
    """

    seed: Tensor  # [B] int64
    position: Tensor  # [B, ...] int64; of the token that is drawn, counted from the start of the prompt
    turn: Tensor  # [B] int64; rounds done
    actor: int = VERIFIER

    def ahead(self, steps: int | Tensor) -> Dice:
        """The dice `steps` positions further on; a tensor of steps must broadcast with `position`."""
        return replace(self, position=self.position + steps)

    def keep(self, rows: Tensor) -> Dice:
        """The dice of these rows. rows: [R] int64."""
        return replace(self, seed=self.seed[rows], position=self.position[rows], turn=self.turn[rows])

    def join(self, other: Dice) -> Dice:
        """The dice of both, these rows first."""
        seed, position = torch.cat([self.seed, other.seed]), torch.cat([self.position, other.position])
        return Dice(seed, position, torch.cat([self.turn, other.turn]), self.actor)

    def uniform(self, lane: int, ids: Tensor, *, shared: bool = False) -> Tensor:
        """[B, ..., n] float64 in (0, 1); one number an id. ids: [n], or [B, ..., n] int64.

        Raises ValueError for a lane outside 0 … LANES - 1.
        """
        if not 0 <= lane < LANES:
            raise ValueError(f"lane {lane} is not in 0 … {LANES - 1}: a node has at most {LANES - DRAW} drawn children")
        salt = torch.full_like(self.turn, lane) if shared else (2 * self.turn + self.actor + 1) * LANES + lane
        row = mix(mix(self.seed) + salt).view(-1, *[1] * (self.position.dim() - 1))
        place = mix(row + self.position)[..., None]
        bits = mix(place + mix(ids))
        return bits.bitwise_right_shift_(11).bitwise_and_(2**53 - 1).double().add_(0.5).mul_(2.0**-53)


def mix(x: Tensor) -> Tensor:
    """The splitmix64 finaliser on int64 (Steele, Lea, Flood 2014): wraps alike on every device."""
    x = x + -7046029254386353131
    x.bitwise_xor_((x >> 30).bitwise_and_(2**34 - 1)).mul_(-4658895280553007687)
    x.bitwise_xor_((x >> 27).bitwise_and_(2**37 - 1)).mul_(-7723592293110705685)
    return x.bitwise_xor_((x >> 31).bitwise_and_(2**33 - 1))
