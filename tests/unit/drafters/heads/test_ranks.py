"""Trees of ranks: shape, the best tree of a budget, and filling one from laws that were guessed at once."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from paceline import tree
from paceline.core import Rule
from paceline.couplings import Gumbel, Maximal
from paceline.dice import DRAFTER, Dice
from paceline.drafters.heads import ranks
from paceline.law import Dense
from paceline.sampling import Sampling

V, B = 7, 3
LOGITS = torch.randn(B, 3, V, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
FREE = Sampling(temperature=1)


def dice() -> Dice:
    return Dice(torch.arange(B), torch.tensor([4, 9, 2]), torch.ones(B, dtype=torch.long), DRAFTER)


def test_a_cartesian_tree_hangs_every_choice_under_every_other() -> None:
    shape = ranks.build(ranks.product((2, 3)))
    assert shape.tree.parent.tolist() == [[0, 0, 1, 1, 1, 2, 2, 2]]
    assert shape.rank.tolist() == [0, 1, 0, 1, 2, 0, 1, 2]
    assert [above.tolist() for above in shape.above] == [[0, 0], [0, 0, 0, 1, 1, 1]]
    assert shape.width == (2, 3)


def test_one_choice_a_depth_is_a_chain() -> None:
    assert ranks.build(ranks.product((1, 1, 1))).tree.is_chain


@pytest.mark.parametrize("paths", [(), ((0,), (0,)), ((1,),), ((0, 0),), ((0,), (0, 1)), ((-1,),)])
def test_a_path_without_parent_or_elder_sibling_is_refused(paths: ranks.Paths) -> None:
    with pytest.raises(ValueError, match=r"hangs in the air|one path or more"):
        ranks.build(paths)


def expected(paths: ranks.Paths, accuracy: list[list[float]]) -> float:
    return sum(math.prod(accuracy[k][r] for k, r in enumerate(path)) for path in paths)


@pytest.mark.parametrize("nodes", range(1, 8))
def test_the_best_tree_is_the_best_of_all_trees(nodes: int) -> None:
    accuracy = [[0.5, 0.3, 0.1], [0.6, 0.2], [0.4, 0.35]]
    full = [path for k in (1, 2, 3) for path in itertools.product(*(range(len(row)) for row in accuracy[:k]))]
    best = 0.0
    for subset in itertools.combinations(full, nodes):
        try:
            ranks.build(subset)
        except ValueError:
            continue
        best = max(best, expected(subset, accuracy))
    found = ranks.best(accuracy, nodes)
    assert len(found) == nodes
    assert expected(found, accuracy) == pytest.approx(best, abs=1e-12)


def test_the_best_tree_stops_where_the_table_ends() -> None:
    assert ranks.best([[0.5, 0.5], [0.0]], 99) == ((0,), (1,), (0, 0), (1, 0))


def test_chosen_children_are_the_best_of_their_depth_and_carry_no_law() -> None:
    draft = ranks.fill(LOGITS, ranks.build(ranks.product((2, 2))), Rule(FREE.law, Gumbel()), dice(), drawn=False)
    assert draft.q is None
    first, second = LOGITS[:, 0].topk(2).indices, LOGITS[:, 1].topk(2).indices
    assert draft.tokens.equal(torch.cat([first, second, second], 1))


def test_drawn_children_are_the_finishers_of_their_positions_race() -> None:
    shape = ranks.build(((0,), (1,), (0, 0), (0, 1), (0, 0, 0)))
    draft = ranks.fill(LOGITS, shape, Rule(FREE.law, Gumbel()), dice(), drawn=True)
    laws = [Dense(LOGITS[:, k].softmax(-1)) for k in range(3)]
    race = [law.race(dice().ahead(k), 2) for k, law in enumerate(laws)]
    assert draft.tokens.equal(torch.cat([race[0], race[1], race[2][:, :1]], 1))
    assert draft.q is not None
    for column, k in enumerate([0, 1, 1, 2, 2]):  # the root chooses at depth 1, nodes at depth d choose at d + 1
        assert draft.q[:, column].dense(V).equal(laws[k].probs)


def test_drawn_children_of_maximal_are_its_own_draws_in_draw_order() -> None:
    draft = ranks.fill(LOGITS, ranks.build(ranks.product((3,))), Rule(FREE.law, Maximal()), dice(), drawn=True)
    assert draft.tokens.equal(Maximal().propose(Dense(LOGITS[:, 0].softmax(-1)), 3, dice()))


@pytest.mark.parametrize("drawn", [True, False])
def test_greedy_laws_know_one_id_so_the_best_are_chosen(drawn: bool) -> None:
    draft = ranks.fill(LOGITS, ranks.build(ranks.product((3,))), Rule(Sampling().law, Gumbel()), dice(), drawn)
    assert draft.q is None
    assert draft.tokens.equal(LOGITS[:, 0].topk(3).indices)


def test_more_choices_than_ids_are_pads() -> None:
    shape = ranks.build(ranks.product((V + 2,)))
    for drawn in (True, False):
        tokens = ranks.fill(LOGITS, shape, Rule(FREE.law, Gumbel()), dice(), drawn).tokens
        assert (tokens[:, V:] == -1).all()
        assert all(sorted(row[:V]) == list(range(V)) for row in tokens.tolist())


def test_laws_of_a_grown_tree_stand_in_the_order_of_its_nodes() -> None:
    given = [FREE.law(LOGITS[:, :1]), FREE.law(LOGITS[:, 1:])]
    q = ranks.grown(given, 4, drawn=True)
    assert q is not None
    assert q.shape == (B, 7)
    assert q[:, 2].dense(V).equal(LOGITS[:, 2].softmax(-1))
    assert ranks.grown(given, 4, drawn=False) is None
    assert ranks.grown([Sampling().law(LOGITS)], 4, drawn=True) is None
    assert tree.chain(1).is_chain


def test_options_that_make_no_tree_are_refused() -> None:
    assert ranks.check([[0], [0, 0]], 4, 2) == ((0,), (0, 0))  # as a recipe writes it
    for paths, nodes, said in (([], 0, "nodes is 0"), ([[0], [0, 0]], 4, "2 deep"), ([[1]], 4, "hangs in the air")):
        with pytest.raises(ValueError, match=said):
            ranks.check(paths, nodes, 1)


def test_without_a_tree_the_best_of_the_usual_chances_is_taken() -> None:
    shape = ranks.chosen((), 16, 4)
    assert shape.tree.size == 16
    assert shape.height == 4
    assert ranks.chosen(((0,),), 16, 4).tree.size == 1
