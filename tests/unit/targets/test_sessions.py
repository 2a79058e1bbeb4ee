"""What a session promises: parts equal wholes, rows come and go, nothing of a conversation stays on the model."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from paceline import tree
from paceline.clock import Stopwatch
from paceline.core import Draft, Needs, Prompt, decode
from paceline.errors import UsageError
from paceline.targets import load_target
from unit.targets.replay import Replay
from unit.targets.test_identity import GREEDY, answer
from unit.targets.tiny import IMAGE, Tiny, generate, reference, tiny

KINDS = ["idefics3", "llava_pixtral", "qwen3_vl", "gemma3_window8", "llama", "mistral_window8", "qwen3_5"]
SINGLE = ("qwen3_5",)  # its recurrence computes in float32 whatever the model's precision


def close(a: Tensor, b: Tensor, name: str = "") -> bool:
    error = 1e-3 if name in SINGLE else 1e-9
    return torch.allclose(a, b, rtol=error, atol=error)


def hooks(made: Tiny) -> list[object]:
    """Hooks of ours that stand on the model; stock classes may leave their own."""
    every = [{**module._forward_hooks, **module._forward_pre_hooks}.values() for module in made.model.modules()]
    return [hook for some in every for hook in some if hook.__module__.startswith("paceline")]


def first(count: int) -> tuple[Tensor, Tensor]:
    """Path and length that commit each row's root."""
    return torch.zeros(count, 1, dtype=torch.long), torch.ones(count, dtype=torch.long)


def whole(made: Tiny, prompt: Prompt, more: Sequence[int]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Logits [S, V] and hidden states of one forward over the prompt and what follows, without any cache."""
    model = copy.deepcopy(made.model)  # asking for hidden states leaves hooks on a model
    ids = torch.cat([prompt.ids, torch.tensor(list(more), dtype=torch.long)])[None]
    inputs = {
        k: torch.nn.functional.pad(v, (0, len(more))) if k.endswith("token_type_ids") else v
        for k, v in prompt.inputs.items()
    }
    with torch.no_grad():
        out = model(input_ids=ids, use_cache=False, output_hidden_states=True, **inputs)
    return out.logits[0], tuple(layer[0] for layer in out.hidden_states)


@pytest.mark.parametrize("name", KINDS)
def test_start_equals_the_whole_forward(name: str) -> None:
    made = tiny(name)
    prompts = made.prompts()
    session, _, _ = load_target(made.model).open(prompts)
    session.commit(*first(4))
    root, guesses = (
        torch.tensor([5, 6, 7, 8]),
        torch.randint(3, 110, (4, 5), generator=torch.Generator().manual_seed(1)),
    )
    want = session.forward(root, Draft.chain(guesses)).logits
    session.forward(root, Draft.chain(guesses[:, :2]))
    assert close(session.forward(root, Draft.chain(guesses[:, :4]), start=3).logits, want[:, 3:5], name)
    assert close(session.forward(root, Draft.chain(guesses), start=5).logits, want[:, 5:], name)
    for row, prompt in enumerate(prompts):
        logits, _ = whole(made, prompt, [int(root[row]), *guesses[row].tolist()])
        assert close(want[row], logits[len(prompt.ids) :], name)


@pytest.mark.parametrize("name", [name for name in KINDS if name != "qwen3_5"])
def test_tree_grown_in_parts_equals_each_branch(name: str) -> None:
    made = tiny(name)
    prompt = made.prompts()[2]
    session, _, _ = load_target(made.model).open([prompt])
    session.commit(*first(1))
    tokens, parent = torch.tensor([[20, 30, 40, 50, 60]]), torch.tensor([[0, 0, 2, 1, 3]])
    root = torch.tensor([9])
    session.forward(root, Draft(tokens[:, :2], tree.of(parent[:, :2])))
    seen = session.forward(root, Draft(tokens, tree.of(parent)), start=3).logits[0]
    for column, line in [(0, [9, 30, 40]), (1, [9, 20, 50]), (2, [9, 30, 40, 60])]:
        assert close(seen[column], whole(made, prompt, line)[0][-1], name)


@pytest.mark.parametrize("name", KINDS)
def test_committing_nothing_changes_nothing(name: str) -> None:
    made = tiny(name)
    session, _, _ = load_target(made.model).open(made.prompts())
    session.commit(*first(4))
    root, draft = torch.tensor([5, 6, 7, 8]), Draft.chain(torch.tensor([[10, 11], [12, 13], [14, 15], [16, 17]]))
    want = session.forward(root, draft).logits
    session.commit(torch.full((4, 1), -1), torch.zeros(4, dtype=torch.long))
    session.forward(root + 30, draft)
    session.commit(torch.tensor([[-1], [-1], [-1], [-1]]), torch.zeros(4, dtype=torch.long))
    assert close(session.forward(root, draft).logits, want, name)
    assert session.length.tolist() == [len(prompt.ids) for prompt in made.prompts()]


@pytest.mark.parametrize("name", KINDS)
def test_rows_leave_and_join(name: str) -> None:
    made = tiny(name)
    target, prompts = load_target(made.model), made.prompts()
    session, _, _ = target.open([prompts[i] for i in (0, 1, 2)])
    session.commit(*first(3))
    root, guesses = torch.tensor([5, 6, 7]), torch.tensor([[10, 11, 12], [13, 14, 15], [16, 17, 18]])
    session.forward(root, Draft.chain(guesses))
    session.commit(torch.tensor([[0, 1, 2], [0, -1, -1], [0, 1, -1]]), torch.tensor([3, 1, 2]))
    session.keep(torch.tensor([2, 0]))
    other, _, _ = target.open([prompts[3]])
    other.commit(*first(1))
    session.join(other)
    texts = [(prompts[2], [7, 16]), (prompts[0], [5, 10, 11]), (prompts[3], [])]
    assert session.length.tolist() == [len(prompt.ids) + len(more) for prompt, more in texts]
    seen = session.forward(torch.tensor([40, 41, 42]), Draft.chain(torch.tensor([[50, 51], [52, 53], [54, 55]]))).logits
    for row, (prompt, more) in enumerate(texts):
        logits, _ = whole(made, prompt, [*more, 40 + row, 50 + 2 * row, 51 + 2 * row])
        assert close(seen[row], logits[-3:], name)


@pytest.mark.parametrize("name", ["llama", "gemma3_window8", "qwen2_5_vl"])
def test_store_grows_and_text_stays_right(name: str) -> None:
    made = tiny(name)
    wanted = [list(reference(name, row, 200)) for row in (0, 3)]
    got, _ = answer(load_target(made.model), [made.prompts()[row] for row in (0, 3)], Replay(wanted, "tree"), 200)
    assert got == wanted


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl"])
def test_interleaved_sessions_do_not_meet(name: str) -> None:
    made = tiny(name)
    target = load_target(made.model)
    wanted = [reference(name, row) for row in (2, 1)]
    before = made.model.model.rope_deltas
    zero, texts = torch.zeros(1, dtype=torch.long), ([], [])
    runs = [
        decode(target, Replay([line], "chain"), GREEDY, [made.prompts()[row]], zero)
        for row, line in zip((2, 1), wanted, strict=True)
    ]
    while min(map(len, texts)) < 40:
        for text, run in zip(texts, runs, strict=True):
            verdict = next(run)
            text += verdict.tokens[0, : verdict.length[0]].tolist()
    assert [text[:40] for text in texts] == [list(line[:40]) for line in wanted]
    assert made.model.model.rope_deltas is before


@pytest.mark.parametrize("name", [*KINDS, "llava_next", "internvl"])
def test_features_are_the_hidden_states_of_a_full_forward(name: str) -> None:
    made = tiny(name)
    prompts, layers = made.prompts()[1:3], (0, 3, 1, 4)
    session, context, seen = load_target(made.model).open(prompts, Needs(layers, embeddings=True))
    session.commit(*first(2))
    draft = Draft.chain(torch.tensor([[10, 11], [12, 13]]))
    later = session.forward(torch.tensor([5, 6]), draft)
    for row, prompt in enumerate(prompts):
        size = len(prompt.ids)
        logits, states = whole(made, prompt, [5 + row, 10 + 2 * row, 11 + 2 * row])
        want = torch.cat([states[k] for k in layers], -1)
        assert close(context.features[row, :size], want[:size], name)
        assert close(context.embeddings[row, :size], states[0][:size], name)
        assert close(seen.features[row], want[size - 1 : size], name)
        assert close(later.features[row], want[size:], name)
        assert close(later.logits[row], logits[size:], name)
        assert context.ids[row, :size].tolist() == prompt.ids.tolist()
        assert context.image[row].sum() == (prompt.ids == IMAGE).sum()
    assert context.valid.sum(1).tolist() == [len(prompt.ids) for prompt in prompts]
    assert hooks(made) == []


def test_nothing_is_captured_that_nobody_asked_for() -> None:
    made = tiny("idefics3")
    session, context, seen = load_target(made.model).open(made.prompts())
    session.commit(*first(4))
    later = session.forward(torch.tensor([5, 6, 7, 8]), Draft.none(torch.tensor([5, 6, 7, 8])))
    assert context.features is context.embeddings is context.scores is None
    assert seen.features is None
    assert later.features is None


def test_vision_has_its_own_time() -> None:
    made, watch = tiny("idefics3"), Stopwatch()
    target = load_target(made.model)
    target.open([made.prompts()[1]], clock=watch)
    assert "vision" not in watch.seconds
    target.open([made.prompts()[2]], clock=watch)
    assert watch.seconds["vision"] > 0
    assert hooks(made) == []


@pytest.mark.parametrize("name", ["llava_pixtral", "mistral3"])
def test_pixtral_reads_pictures_one_by_one(name: str) -> None:
    made, calls = tiny(name), list[tuple[int, ...]]()
    tower = made.model.model.vision_tower
    handle = tower.register_forward_pre_hook(lambda _, args, kwargs: calls.append((*args, *kwargs.values())[0].shape),
                                             with_kwargs=True)  # fmt: skip
    prompt = made.prompts()[2]
    _, context, seen = load_target(made.model).open([prompt], Needs((), embeddings=True))
    handle.remove()
    assert [shape[0] for shape in calls] == [1, 1, 1]
    logits, states = whole(made, prompt, [])
    assert close(context.embeddings[0], states[0])
    assert close(seen.logits[0], logits[-1:])


def test_bad_asks_are_refused() -> None:
    made = tiny("llama")
    target = load_target(made.model)
    with pytest.raises(UsageError, match=r"layers \[5, -1\].*0 \(embeddings\) to 4"):
        target.open([made.prompts()[1]], Needs((5, 2, -1)))
    with pytest.raises(UsageError, match=r"the prompt has 512 tokens; this model takes 1 to 511"):
        target.open([Prompt(torch.full((512,), 5))])
    with pytest.raises(UsageError, match="the prompt has 0 tokens"):
        target.open([Prompt(torch.zeros(0, dtype=torch.long))])
    one, _, _ = target.open([made.prompts()[1]])
    other, _, _ = load_target(tiny("qwen3").model).open([made.prompts()[1]])
    with pytest.raises(UsageError, match="one target"):
        one.join(other)


def test_astype_computes_alike_in_another_precision() -> None:
    made = tiny("llama")
    single = load_target(made.model).astype(torch.float32)
    assert single.dtype == torch.float32
    assert single.model is not made.model
    got, _ = answer(single.astype(torch.float64), [made.prompts()[1]], Replay([[]], "plain"), 8)
    assert len(got[0]) == 8
    assert generate(made, made.prompts()[1], 8) == reference("llama", 1)[:8]
