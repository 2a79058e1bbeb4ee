"""Budget trees: the likeliest paths, prefix-closed, and the longest accepted on average; exact whatever is chosen."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from paceline.core import Draft, Rule
from paceline.couplings import Gumbel, Maximal
from paceline.dice import Dice
from paceline.drafters.block.best_first import Lattice, along, apart, candidates, likeliest
from paceline.sampling import Sampling

K, C = 3, 3
GREEDY = Rule(Sampling().law, Gumbel())


def lattice(seed: int, parents: int, rows: int = 1) -> Lattice:
    draw = torch.Generator().manual_seed(seed)
    score = (torch.randn(rows, K, parents, C, generator=draw, dtype=torch.float64) * 1.5).log_softmax(-1)
    ids = torch.stack([torch.randperm(9, generator=draw)[: K * C] for _ in range(rows)]).view(rows, K, C)
    return Lattice(ids, score)


def paths(draft: Draft, row: int = 0) -> list[tuple[int, ...]]:
    """Token paths of the nodes of one row, in order."""
    found: list[tuple[int, ...]] = [()]
    parents = draft.parent.expand(len(draft.tokens), -1)
    for token, parent in zip(draft.tokens[row].tolist(), parents[row].tolist(), strict=True):
        if token >= 0:
            found.append((*found[parent], token))
    return found[1:]


def all_paths(given: Lattice, row: int = 0) -> dict[tuple[int, ...], float]:
    """Every path of a lattice with its log-chance."""
    found: dict[tuple[int, ...], float] = {}
    ids, score = given.ids[row].tolist(), given.score[row].tolist()
    for depth in range(1, K + 1):
        for word in itertools.product(range(C), repeat=depth):
            chance = 0.0
            for k, c in enumerate(word):
                chance += score[k][word[k - 1] if k and len(score[k]) > 1 else 0][c]
            found[tuple(ids[k][c] for k, c in enumerate(word))] = chance
    return found


@pytest.mark.parametrize("parents", [1, C])
@pytest.mark.parametrize("nodes", [1, 4, 11, 39])
def test_the_tree_holds_the_likeliest_paths(parents: int, nodes: int) -> None:
    for seed in range(8):
        given = lattice(seed, parents)
        every = all_paths(given)
        chosen = paths(likeliest(given, nodes))
        assert len(set(chosen)) == len(chosen) == min(nodes, len(every))
        wanted = sorted(every.values(), reverse=True)[:nodes]
        assert [every[path] for path in chosen] == pytest.approx(wanted)


def test_no_tree_of_its_size_is_accepted_longer_on_average() -> None:
    """Against every prefix-closed set of four nodes of a small lattice: the mean accepted length is the sum of its
    paths' chances."""
    small = Lattice(torch.tensor([[[0, 1], [2, 3]]]), lattice(3, C).score[:, :2, :, :2].log_softmax(-1)[:, :, :2])
    ids, score = small.ids[0].tolist(), small.score[0].exp().tolist()
    chance = {(ids[0][a],): score[0][0][a] for a in range(2)}
    chance |= {(ids[0][a], ids[1][b]): score[0][0][a] * score[1][a][b] for a in range(2) for b in range(2)}
    closed = [
        subset for subset in itertools.combinations(chance, 4) if all(len(p) == 1 or p[:1] in subset for p in subset)
    ]
    best = max(sum(chance[path] for path in subset) for subset in closed)
    assert sum(chance[path] for path in paths(likeliest(small, 4))) == pytest.approx(best)


def test_rows_have_their_own_shapes_and_pads() -> None:
    given = lattice(1, 1, rows=3)
    given.score[2, 0, 0, 1:] = -math.inf  # one row has a single first guess
    given.score[2, 1:, 0, 2:] = -math.inf
    draft = likeliest(given, 12)
    assert draft.tokens.shape == (3, 12)
    assert len({tuple(row) for row in draft.parent.tolist()}) == 3
    assert (draft.tokens[2] >= 0).sum() == 1 + 2 + 4
    for row in range(3):
        alone = likeliest(Lattice(given.ids[row : row + 1], given.score[row : row + 1]), 12)
        assert paths(draft, row) == paths(alone)
    assert draft.q is None


def test_no_nodes_are_refused() -> None:
    with pytest.raises(ValueError, match="1 node or more"):
        likeliest(lattice(0, 1), 0)


def dice(rows: int) -> Dice:
    return Dice(torch.arange(rows) + 3, torch.full((rows,), 11), torch.zeros(rows, dtype=torch.long))


def test_places_guessed_apart_are_scored_by_their_laws() -> None:
    logits = torch.randn(2, 4, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = apart(logits, GREEDY, dice(2), 5)
    assert found.ids.equal(logits.topk(5).indices)
    assert found.score.shape == (2, 4, 1, 5)
    torch.testing.assert_close(found.score[:, :, 0].exp(), logits.softmax(-1).topk(5).values)
    assert apart(logits, GREEDY, dice(2), 99).ids.shape == (2, 4, 10)
    short = Rule(Sampling(temperature=1, top_k=3).law, Maximal())
    assert (apart(logits, short, dice(2), 5).score[..., 3:] == -math.inf).all()


def test_behind_a_race_its_first_finishers_are_taken() -> None:
    """Outcomes of the target are found among few candidates more often than its best logits would be."""
    n, v = 4000, 30
    draw = torch.Generator().manual_seed(2)
    logits = torch.randn(n, 1, v, generator=draw, dtype=torch.float64)
    truth = logits + 0.3 * torch.randn(n, 1, v, generator=draw, dtype=torch.float64)
    rule = Rule(Sampling(temperature=1).law, Gumbel())
    outcome = rule.coupling.settle(rule.law(truth), torch.empty(n, 1, 0), None, along(dice(n), 1))
    given = apart(logits, rule, dice(n), 3)

    def hits(ids: Tensor) -> float:
        return float((ids == outcome[..., None]).any(-1).double().mean())

    assert hits(given.ids[..., :1]) > 0.7
    assert hits(given.ids) > 0.95 > 0.5 > hits(logits.topk(3).indices)
    order = given.score[:, 0, 0].argsort(-1, descending=True)
    assert order.equal(torch.arange(3).expand(n, 3)), "the race's order is the order of chances"


def test_ids_without_mass_are_no_candidates() -> None:
    logits = torch.tensor([[[2.0, -math.inf, 1.0, -math.inf]]])
    rule = Rule(Sampling(temperature=1).law, Gumbel())
    law = rule.law(logits)
    assert sorted(candidates(logits, law, rule, along(dice(1), 1), 4)[0, 0].tolist()) == [-1, -1, 0, 2]
    assert len(paths(likeliest(apart(logits, rule, dice(1), 4), 9))) == 2
