"""The floor drafter: says what its table says, from the beginning of the answer, and keeps nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from laws.families import FAMILIES, TARGET, V, run
from paceline.core import Prompt, Rule, decode
from paceline.couplings import Gumbel
from paceline.drafters.free.ngram import START, NGram, learn
from paceline.errors import UsageError
from paceline.sampling import Sampling
from paceline.tasks.ngram import Table
from paceline.trace import Round, tau

END = 9


def answers(seed: int, count: int = 30) -> list[list[int]]:
    draw = random.Random(seed)
    return [[*(draw.choice([0, 0, 1, 2, 3, 4]) for _ in range(draw.randint(1, 9))), END] for _ in range(count)]


@pytest.mark.parametrize("order", [1, 2, 4])
def test_the_small_table_guesses_as_the_full_one(order: int) -> None:
    """Contexts that only repeat what shorter ones say are left out, and nothing changes."""
    told = answers(1)
    full = Table(order)
    full.learn(told, ended=False)
    small = NGram(learn(told, order), order, (END,), guesses=1)
    assert len(small.follows) < len(full.counts) or order == 1
    for *text, _ in answers(2, 200):
        guess = full.guess(("<start>", *text)[1 - order :] if order > 1 else ())
        assert small.continued([START, *text]) == [guess]


def test_a_chain_goes_on_from_its_own_guesses_and_stops_at_the_end() -> None:
    drafter = NGram(learn([[5, 6, 7, 8, END]]), 4, (END,), guesses=8)
    assert drafter.continued([START]) == [5, 6, 7, 8, END]
    assert drafter.continued([START, 5, 6]) == [7, 8, END]
    assert drafter.continued([START, 1, 7]) == [8, END], "only the last token is known"
    assert drafter.continued([START, 5, END]) == []
    assert NGram(drafter.follows, 4, (END,), guesses=2).continued([START]) == [5, 6]


def test_rare_contexts_are_left_out_on_demand() -> None:
    told = [[1, 2, 3], [1, 2, 3], [4, 2, 5]]
    assert learn(told)[4, 2] == 5
    assert (4, 2) not in learn(told, least=2)
    assert learn(told, least=2)[()] == 2


def test_it_sees_the_answer_and_not_the_prompt() -> None:
    """The first guess of an answer is that behind its first token, whatever the prompt ends with."""
    drafter = NGram(learn([[0, 3, 1, 2]]), 4, (END,), guesses=3)
    rule = Rule(Sampling().law, Gumbel())
    prompts = [Prompt(torch.tensor(ids)) for ids in ([0, 3, 1], [2, 2], [1, 0, 3])]
    rounds = decode(TARGET, drafter, rule, prompts, torch.arange(3))
    first = next(rounds)
    draft = rounds.guesser.propose(first)
    want = [drafter.continued([START, token]) for token in first.tokens[:, 0].tolist()]
    assert [[t for t in row if t >= 0] for row in draft.tokens.tolist()] == want


def test_it_accepts_more_of_what_it_has_read() -> None:
    """On a target of exact answers: a table of its greedy answers beats one of other answers."""
    prompts = [Prompt(torch.tensor([a, b])) for a in range(V) for b in range(V)]
    seeds, greedy = torch.arange(len(prompts)), Sampling()
    told = run(FAMILIES["none"], Gumbel(), greedy, prompts, seeds, 20)

    def measured(answers: list[list[int]]) -> float:
        rounds = decode(TARGET, NGram(learn(answers), 4, ()), Rule(greedy.law, Gumbel()), prompts, seeds)
        next(rounds)
        return tau([Round(4, n - 1, n) for _ in range(3) for n in next(rounds).length.tolist()])

    assert measured(told) > 3.5 > 2.5 > measured([[t % V for t in text] for text in answers(3)])


class Marked:
    """A target that says who it is."""

    def __init__(self, layers: int) -> None:
        self.layers = layers

    def fingerprint(self) -> dict[str, int]:
        return {"layers": self.layers}


def read(path: Path, target: Marked, **options: int) -> NGram:
    return NGram.load(path, target, lambda where: None, **options)


def test_a_saved_table_is_read_back(tmp_path: Path) -> None:
    drafter = NGram(learn(answers(1)), 4, (END,))
    drafter.save(tmp_path / "table", Marked(3), {"answers": 30})
    again = read(tmp_path / "table", Marked(3), guesses=2)
    assert dict(again.follows) == dict(drafter.follows)
    assert (again.order, again.ends, again.guesses) == (4, (END,), 2)


def test_a_table_for_another_target_or_a_broken_one_is_refused(tmp_path: Path) -> None:
    NGram(learn(answers(1)), 4, (END,)).save(tmp_path, Marked(3), {})
    with pytest.raises(UsageError, match="trained for another target: its layers is 3, here it is 10"):
        read(tmp_path, Marked(10))
    (tmp_path / "model.safetensors").write_bytes(b"cut")
    with pytest.raises(UsageError, match="holds no n-gram table"):
        read(tmp_path, Marked(3))


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one answer"):
        learn([])
