"""The best tree of a given size out of one block: likeliest node first, a shape for each row and round.

Places of a block are guessed apart, or each behind the one before it; either way every path has a chance, and the
tree of the N likeliest paths is accepted longest on average if the drafter is right about them. Its children are
chosen, not drawn, so the outcome has the target's law whatever was chosen.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from paceline import tree
from paceline.core import Draft, Rule
from paceline.couplings import Gumbel
from paceline.dice import RACE, Dice
from paceline.law import Law, Point


@dataclass(frozen=True, slots=True)
class Lattice:
    """Candidates for each place of a block, and how likely each is."""

    ids: Tensor  # [B, K, C] int64, distinct along C; -1 pads
    score: Tensor  # [B, K, P, C] log-chances; P = C: behind candidate p of the place before; P = 1: behind any


def apart(logits: Tensor, rule: Rule, dice: Dice, width: int) -> Lattice:
    """The `width` likeliest outcomes of places that are guessed apart. logits: [B, K, V]; dice: at the first guess."""
    law, at = rule.law(logits), along(dice, logits.shape[1])
    ids = candidates(logits, law, rule, at, width)
    return Lattice(ids, chances(logits, law, ids, rule, at)[:, :, None])


def along(dice: Dice, places: int) -> Dice:
    """The dice of so many positions in a row, [B, places], from the dice of the first."""
    return replace(dice, position=dice.position[:, None] + torch.arange(places, device=dice.position.device))


def candidates(logits: Tensor, law: Law, rule: Rule, dice: Dice, width: int) -> Tensor:
    """[..., C] the C = min(width, V) likeliest outcomes, the likeliest first; -1 pads. logits: [..., V].

    Where a race that the drafter can run too decides the outcome, its first finishers; else the best logits.
    """
    width = min(width, logits.shape[-1])
    return law.race(dice, width) if _raced(law, rule) else logits.topk(width, -1).indices


def chances(logits: Tensor, law: Law, ids: Tensor, rule: Rule, dice: Dice) -> Tensor:
    """[..., C] log-chances of these ids to be the outcome; -inf for pads and ids without mass. ids: [..., C].

    Behind a race, the drafter's error about the target's logits is taken to spread like the race's own noise.
    """
    if isinstance(law, Point):
        return logits.log_softmax(-1).gather(-1, ids.clamp(min=0)).where(ids >= 0, -math.inf)
    score = law.prob(ids).log()
    if _raced(law, rule):
        score = score - dice.uniform(RACE, ids, shared=True).neg().log1p().neg().log()
    return score.log_softmax(-1)


def _raced(law: Law, rule: Rule) -> bool:
    return isinstance(rule.coupling, Gumbel) and not isinstance(law, Point)


def likeliest(lattice: Lattice, nodes: int) -> Draft:
    """The tree of the `nodes` likeliest paths of each row, chosen; rows whose lattice has fewer pad with -1.

    Raises ValueError for no nodes.
    """
    if nodes < 1:
        raise ValueError(f"a tree needs 1 node or more, got {nodes}")
    best = lattice.score.sort(dim=-1, descending=True, stable=True)
    ids = lattice.ids.tolist()
    columns = zip(ids, best.values.tolist(), best.indices.tolist(), strict=True)
    rows = [_row(*column, nodes) for column in columns]
    width = max(len(tokens) for tokens, _ in rows)
    tokens = [[*tokens, *[-1] * (width - len(tokens))] for tokens, _ in rows]
    parent = [[*parents, *[0] * (width - len(parents))] for _, parents in rows]
    device = lattice.ids.device
    return Draft(torch.tensor(tokens, device=device), tree.of(torch.tensor(parent, device=device)))


def _row(
    ids: list[list[int]], score: list[list[list[float]]], order: list[list[list[int]]], nodes: int
) -> tuple[list[int], list[int]]:
    """Tokens and parents of one row. score: [K, P, C] falling along C; order: which candidate each is.

    A child is never likelier than its parent or its elder sibling, so the likeliest open node is the next best of all.
    """
    tokens, parents = list[int](), list[int]()
    heap = list[tuple[float, int, int, int, int, int, float]]()
    made = 0

    def offer(place: int, before: int, rank: int, parent: int, chance: float) -> None:
        """Open candidate `rank` behind candidate `before` of the place before, below node `parent`."""
        nonlocal made
        if place == len(score):
            return
        row = score[place][before if len(score[place]) > 1 else 0]
        if rank < len(row) and row[rank] > -math.inf:
            made += 1
            heapq.heappush(heap, (-chance - row[rank], made, place, before, rank, parent, chance))

    offer(0, 0, 0, 0, 0.0)
    while heap and len(tokens) < nodes:
        lost, _, place, before, rank, parent, chance = heapq.heappop(heap)
        candidate = order[place][before if len(order[place]) > 1 else 0][rank]
        tokens.append(ids[place][candidate])
        parents.append(parent)
        offer(place, before, rank + 1, parent, chance)
        offer(place + 1, candidate, 0, len(tokens), -lost)
    return tokens, parents
