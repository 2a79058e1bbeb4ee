"""Taps: the rows and layers of branches equal those of each prompt read alone by the class itself; what is learnt."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import transformers as T

from paceline import conditioning
from paceline.conditioning import Full, Pool, Prune, Recent, TextOnly
from paceline.core import Needs, Prompt
from paceline.drafters.ar.eagle import Eagle
from paceline.targets import load_target
from paceline.train.taps import Talk, Taps, lesson, needs_of, shared_tokens, tap
from unit.targets.tiny import TEXT, tiny

NEEDS = Needs((2, 4, 8), embeddings=True)


def deep(vocab: int = 128) -> Any:
    """A text model deep enough for the layer rules."""
    torch.manual_seed(3)
    config = T.LlamaConfig(**{**TEXT, "vocab_size": vocab, "num_hidden_layers": 8, "hidden_size": 32}, head_dim=8)
    config.initializer_range = 0.4
    return load_target(T.LlamaForCausalLM(config).double())


def talk(question: list[list[int]], answers: list[list[int]], start: list[int], name: str = "t") -> Talk:
    prompts = tuple(Prompt(torch.tensor([*start, *more])) for more in question)
    return Talk(name, prompts, tuple(torch.tensor(a) for a in answers))


TWO = talk([[9, 8], [9, 7, 6]], [[20, 21, 2], [30, 2]], [5, 6, 7, 8, 9])
ONE = talk([[4, 3]], [[40, 41, 42, 2]], [5, 6, 7], "one")


def test_branches_read_what_each_prompt_alone_reads() -> None:
    target = deep()
    taps = tap(target, [TWO, ONE], NEEDS)
    assert shared_tokens(TWO.prompts) == 6
    assert taps.ids[0].tolist() == [5, 6, 7, 8, 9, 9, 8, 20, 21, 7, 6, 30]
    assert taps.owner[0].tolist() == [0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert taps.position[0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 6, 7, 8]
    assert taps.labels[0].tolist() == [-1] * 6 + [20, 21, 2, -1, 30, 2]
    assert taps.before[0].tolist() == [0, 0, 1, 2, 3, 4, 5, 6, 7, 5, 9, 10]
    assert taps.labels[1].tolist() == [-1] * 4 + [40, 41, 42, 2] + [-1] * 4
    assert taps.owner[1].tolist() == [0] * 4 + [1] * 4 + [-1] * 4
    alone = ([*range(9)], TWO.prompts[0], TWO.answers[0]), ([*range(6), 9, 10, 11], TWO.prompts[1], TWO.answers[1])
    for rows, prompt, answer in alone:
        ids = torch.cat([prompt.ids, answer[:-1]])
        with torch.no_grad():
            states = target.model(ids[None], output_hidden_states=True).hidden_states
        for k in NEEDS.layers:
            torch.testing.assert_close(taps.at[k][0, rows], states[k][0])
        assert taps.embeddings is not None
        torch.testing.assert_close(taps.embeddings[0, rows], states[0][0])


@pytest.mark.parametrize("name", ["idefics3", "qwen2_5_vl", "gemma3"])
def test_pictures_are_read_once_for_all_branches(name: str) -> None:
    made = tiny(name)
    target = load_target(made.model)
    whole = made.prompts()[0]
    cut = len(whole.ids)
    other = replace(whole, ids=torch.cat([whole.ids[:-2], whole.ids[-1:], whole.ids[-2:-1]]))
    answers = (torch.tensor([9, 10, 11]), torch.tensor([12, 13]))
    needs = Needs((1, 4), embeddings=True)
    both = tap(target, [Talk("both", (whole, other), answers)], needs)
    each = [tap(target, [Talk("alone", (p,), (a,))], needs) for p, a in zip((whole, other), answers, strict=True)]
    n = shared_tokens((whole, other))
    assert bool(both.image[0, :n].any())
    assert bool((both.image[0, :n] == each[0].image[0, :n]).all())
    for k in needs.layers:
        mine = both.at[k][0]
        torch.testing.assert_close(mine[: cut + 2], each[0].at[k][0, : cut + 2])
        torch.testing.assert_close(torch.cat([mine[:n], mine[cut + 2 :]]), each[1].at[k][0])


def eagle(target: Any, conditioner: Any) -> Eagle:
    return replace(Eagle.tiny(target), conditioner=conditioner)


def test_a_lesson_of_pairs_holds_the_worked_example() -> None:
    target = deep()
    drafter = eagle(target, Full())
    taps = tap(target, [TWO], needs_of([drafter], target.shared))
    made = lesson(taps, drafter)
    assert made.rows.ids[0].tolist() == [6, 7, 8, 9, 9, 8, 20, 21, 7, 6, 30]
    assert made.labels[0].tolist() == [-1] * 5 + [20, 21, 2, -1, 30, 2]
    assert made.terms == 5
    low = taps.at[drafter.needs.layers[0]]
    features = made.rows.features[0, :, : low.shape[2]]
    torch.testing.assert_close(features, low[0, [0, 1, 2, 3, 4, 5, 6, 7, 5, 9, 10]])  # those of the token before
    torch.testing.assert_close(made.at[8][0], taps.at[8][0, 1:])  # its own
    assert made.see[0, 8].tolist() == [True] * 5 + [False] * 3 + [True] + [False] * 2  # the second branch's first row
    assert made.further(1)[0].tolist() == [-1] * 5 + [6, 7, -1, 9, 10, -1]


@pytest.mark.parametrize(
    "how", [TextOnly(), Prune(0.5, "norm"), Prune(0.5, "uniform"), Prune(0.3, "random"), Pool(3), Prune(0.4)]
)
@pytest.mark.parametrize("paired", [True, False])
def test_training_shows_the_rows_that_decoding_shows(how: Any, paired: bool) -> None:
    """The prompt's rows of a lesson are those with which a draft session opens, and pictures' rows alone change."""
    made = tiny("idefics3")
    target, prompts = load_target(made.model), made.prompts()[:3]
    needs = Needs((1, 2), embeddings=True, scores=how.scores)
    _, context, _ = target.open(prompts, needs)
    opened = how.open(context, paired).prompt
    for i, prompt in enumerate(prompts):
        taps = tap(target, [Talk("x", (prompt,), (torch.tensor([9, 10, 2]),))], replace(needs, layers=(1, 2, 4)))
        drafter: Any = type("Any", (), {"needs": needs, "paired": paired, "conditioner": how, "lesson_layers": ()})()
        shown = lesson(taps, drafter).rows
        count = int(opened.count[i])
        text = ~context.image[i, 1 if paired else 0 :][: int(context.valid[i].sum()) - 1]
        assert int((~opened.image[i, :count]).sum()) == int(text.sum())  # text is left alone
        for name in ("ids", "position", "image", "features", "embeddings"):
            torch.testing.assert_close(getattr(shown, name)[0, :count], getattr(opened, name)[i, :count])


def test_shares_and_groups_are_exact() -> None:
    image = torch.tensor([[False] * 2 + [True] * 7 + [False] + [True] * 3 + [False] * 2])
    place = torch.arange(15)[None]
    rows = conditioning.Rows(place, place, place >= 0, image, place[..., None].double())
    assert TextOnly().edit(rows).position.tolist() == [[0, 1, 9, 13, 14]]
    assert Prune(0.5, "norm").edit(rows).position.tolist() == [[0, 1, 7, 8, 9, 10, 11, 12, 13, 14]]  # 5 of 10
    assert Prune(0.5, "uniform").edit(rows).position.tolist() == [[0, 1, 3, 5, 7, 9, 10, 12, 13, 14]]
    assert Prune(0, "uniform").edit(rows).position.tolist() == TextOnly().edit(rows).position.tolist()
    assert Prune(1, "random").edit(rows).position.tolist() == place.tolist()
    pooled = Pool(3).edit(rows)  # runs of 7 and 3: groups of 3, 3, 1 and 3
    assert pooled.position.tolist() == [[0, 1, 4, 7, 8, 9, 12, 13, 14]]
    assert pooled.features[0, :, 0].tolist() == [0, 1, 3, 6, 8, 9, 11, 13, 14]
    assert Pool(1).edit(rows).features.tolist() == rows.features.tolist()


def test_recent_shows_the_end_of_the_prompt_alike() -> None:
    target = deep()
    drafter = eagle(target, Recent(3))
    made = lesson(tap(target, [TWO], needs_of([drafter], target.shared)), drafter)
    first = made.see[0, 6]  # the row of the first answer token, position 7
    assert made.rows.position[0, first].tolist() == [4, 5, 6, 7]
    _, context, _ = target.open(TWO.prompts, drafter.needs)
    opened = Recent(3).open(context, True).prompt
    assert opened.position[0, opened.valid[0]].tolist() == [4, 5, 6]


def test_specs_are_read_back() -> None:
    for how in (Full(), TextOnly(), Prune(0.75), Prune(0.5, "norm"), Pool(4), Recent(64)):
        assert conditioning.parse(how.spec) == how
    for wrong, said in {"prune": "not complete", "prun:0.5": "did you mean 'prune'", "pool:x": "no number",
                        "prune:2": "share from 0 to 1", "prune:0.5:norms": "did you mean 'norm'"}.items():  # fmt: skip
        with pytest.raises(ValueError, match=said):
            conditioning.parse(wrong)


def test_a_talk_counts_its_rows() -> None:
    for each in (TWO, ONE):
        assert int(tap(deep(), [each], NEEDS).valid.sum()) == each.rows


def test_shared_rows_are_not_learnt() -> None:
    taps: Taps = tap(deep(), [TWO], NEEDS)
    assert bool((taps.labels[taps.owner == 0] == -1).all())
