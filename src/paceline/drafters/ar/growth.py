"""Trees that grow where the drafter is sure: EAGLE-2's dynamic tree (Li et al. 2024, section 4), by callback."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from paceline import law as laws
from paceline import tree
from paceline.core import Draft, Rule, Verdict
from paceline.couplings import Gumbel
from paceline.dice import RACE, Dice
from paceline.drafters.layers import Memory
from paceline.law import Law, Point
from paceline.tree import Tree

Step = Callable[[Tensor, Tensor, Tree, int], Tensor]
Pick = Callable[[Tensor, int, int], tuple[Tensor, Tensor]]
Read = Callable[[Tensor, Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]


class Growing:
    """One round's own passes of a drafter that feeds itself: each reads nodes beside the states of their parents.

    `read(ids [B, w], states [B, w, H], position [B, w], mask)` is one serial pass: states behind the ids, and logits.
    """

    def __init__(self, read: Read, memory: Memory, state: Tensor, verdict: Verdict) -> None:
        self.read, self.memory, self.state = read, memory, state
        self.root = verdict.dice.position - 1  # of the last token emitted

    def step(self, ids: Tensor, came: Tensor, shape: Tree, start: int) -> Tensor:
        """[B, w, V]; see `grow`."""
        above = self.state.gather(1, came[..., None].expand(-1, -1, self.state.shape[2]))
        return self._pass(ids, above, shape.height, self.memory.lay(shape, start, behind=1))

    def after(self, ids: Tensor, level: int) -> Tensor:
        """[B, V]; behind a chain whose newest guess this is. ids: [B, 1]."""
        return self._pass(ids, self.state, level, self.memory.lay(level + 1, level, behind=1))[:, 0]

    def _pass(self, ids: Tensor, state: Tensor, level: int, mask: Tensor | None) -> Tensor:
        position = (self.root + level)[:, None].expand_as(ids)
        self.state, logits = self.read(ids.clamp(min=0), state, position, mask)
        return logits


def chain(rule: Rule, first: Law, after: Callable[[Tensor, int], Law], depth: int, dice: Dice) -> Draft:
    """`depth` drawn guesses, [B, depth]. first: [B]; after(newest guess [B, 1], its level): the law behind it, [B]."""
    given, tokens = [first], [rule.coupling.propose(first, 1, dice)]
    for level in range(1, depth):
        given.append(after(tokens[-1], level))
        tokens.append(rule.coupling.propose(given[-1], 1, dice.ahead(level)))
    return Draft.chain(torch.cat(tokens, 1), laws.stack([*given, given[-1]]))


def grow(root: Tensor, step: Step, pick: Pick, depth: int, width: int, nodes: int) -> tuple[Tensor, Tree]:
    """The `nodes` likeliest guesses of a search that opens `width` nodes at each of `depth` levels: tokens [B, N].

    root: [B, V], logits after the root. `step(tokens, came, shape, start)` reads the open nodes of a level, [B, w],
    as columns start … of `shape`, and gives what follows each, [B, w, V]; came: the column among the level before
    under which each hangs. `pick(logits [B, n, V], width, level)` gives ids and scores, [B, n, width], whose sums along
    a path never rise. Children are chosen, so the draft's q is None.
    """
    ids, score = (each[:, 0] for each in pick(root[:, None], width, 0))
    tokens, scores, parents = [ids], [score], [torch.full_like(ids, -1)]
    open_, came = torch.arange(ids.shape[1], device=ids.device).expand_as(ids), torch.zeros_like(ids)
    shape, made = _sprout(None, came), ids.shape[1]
    for level in range(1, depth):
        ids, more = pick(step(ids, came, shape, shape.size + 1 - ids.shape[1]), width, level)
        every = (score[..., None] + more).flatten(1)
        tokens.append(ids.flatten(1))
        scores.append(every)
        parents.append(open_.repeat_interleave(ids.shape[2], 1))
        score, best = every.topk(min(width, every.shape[1]), 1)
        ids, came, open_ = ids.flatten(1).gather(1, best), best // ids.shape[2], best + made
        shape, made = _sprout(shape, came), made + every.shape[1]
    return _likeliest(torch.cat(tokens, 1), torch.cat(scores, 1), torch.cat(parents, 1), nodes)


def _sprout(shape: Tree | None, came: Tensor) -> Tree:
    """The tree with one more level, whose nodes hang under these columns of the level before. came: [B, w]."""
    b, w = came.shape
    if shape is None:
        see = torch.ones(b, 1, 1, dtype=torch.bool, device=came.device)
        parent, depth = came.new_empty(b, 0), came.new_zeros(b, 1)
        before = came  # all under the root
    else:
        see, parent, depth = shape.see, shape.parent, shape.depth
        before = came + see.shape[1] - _last(shape)
    n = see.shape[1]
    wider = torch.zeros(b, n + w, n + w, dtype=torch.bool, device=came.device)
    wider[:, :n, :n] = see
    wider[:, n:, :n] = see.gather(1, before[..., None].expand(-1, -1, n))
    wider[:, n:, n:] = torch.eye(w, dtype=torch.bool, device=came.device)
    height = 1 if shape is None else shape.height + 1
    depth = torch.cat([depth, torch.full_like(came, height)], 1)
    return Tree(torch.cat([parent, before], 1), wider, depth, came.new_empty(b, n + w, 0), height, False)


def _last(shape: Tree) -> int:
    return int((shape.depth[0] == shape.height).sum())


def _likeliest(tokens: Tensor, scores: Tensor, parents: Tensor, nodes: int) -> tuple[Tensor, Tree]:
    """The best of all guesses, in order of creation: a child never outscores its parent, so the tree hangs together."""
    kept = scores.argsort(dim=1, descending=True, stable=True)[:, : min(nodes, scores.shape[1])].sort(1).values
    number = torch.zeros_like(tokens).scatter_(1, kept, torch.arange(1, kept.shape[1] + 1).expand_as(kept).to(kept))
    above = parents.gather(1, kept)
    return tokens.gather(1, kept), tree.of(number.gather(1, above.clamp(min=0)).where(above >= 0, 0))


def choice(rule: Rule, dice: Dice) -> Pick:
    """How children are chosen under this rule: the likeliest, or under the Gumbel race its likely winners.

    The race may be looked at since its outcome is the target's own winner whatever was guessed; other couplings draw
    the outcome with noise that no drafter sees, and the likeliest children are the best guess.
    """
    race = isinstance(rule.coupling, Gumbel)

    def likeliest(logits: Tensor, width: int, level: int) -> tuple[Tensor, Tensor]:
        best = logits.topk(min(width, logits.shape[-1]), -1)
        return best.indices, best.values - logits.logsumexp(-1, keepdim=True)

    def winners(logits: Tensor, width: int, level: int) -> tuple[Tensor, Tensor]:
        law = rule.law(logits)
        if isinstance(law, Point):
            return likeliest(logits, width, level)
        at = dice.ahead(level)
        at = Dice(at.seed, at.position[:, None], at.turn, at.actor)
        ids = law.race(at, min(width, logits.shape[-1]))
        noise = -torch.log(-torch.log1p(-at.uniform(RACE, ids, shared=True)))
        speed = (law.prob(ids.clamp(min=0)).log() + noise).masked_fill(ids < 0, -torch.inf)
        return ids, speed.log_softmax(-1).to(logits.dtype)

    return winners if race else likeliest
