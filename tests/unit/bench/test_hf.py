"""Hugging Face `generate` as a reference: another instance, neutral settings, refusals with their reason."""

from __future__ import annotations

import copy
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from paceline.bench.arms import Ours, Unavailable
from paceline.bench.benchmark import plan_of
from paceline.bench.hf import Reference, small_model_of, untouched
from paceline.bench.meta import meta_of, parameters
from paceline.bench.traffic import asks_of
from paceline.loading import load_drafter
from paceline.sampling import Sampling
from paceline.targets import load_target
from unit.cli.checkpoint import Shelf, furnish

GREEDY = Sampling(max_new_tokens=12)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    shelf = furnish(tmp_path_factory.mktemp("shelf"))
    settings = shelf.target / "generation_config.json"  # a checkpoint with a will of its own
    own = {"repetition_penalty": 5.0, "no_repeat_ngram_size": 2, "top_k": 1, "min_new_tokens": 3, "max_new_tokens": 2}
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **own}))
    return shelf


@pytest.fixture(scope="module")
def target(shelf: Shelf) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that those settings are left out
        return load_target(shelf.target)


@pytest.fixture(scope="module")
def hf(target: Any) -> Reference:
    return Reference("hf-generate", target, untouched(target))


def test_the_reference_is_another_instance_of_the_same_weights(target: Any, hf: Reference) -> None:
    assert hf.model is not target.model
    ours, theirs = dict(target.model.named_parameters()), dict(hf.model.named_parameters())
    assert ours.keys() - theirs.keys() <= {"lm_head.weight"}  # ours may lay out a copy of a tied head
    assert all(torch.equal(weight, ours[name]) and weight.dtype == ours[name].dtype for name, weight in theirs.items())
    assert not {w.data_ptr() for w in ours.values()} & {w.data_ptr() for w in theirs.values()}


@pytest.mark.parametrize("task", ["mmt", "seed"])
def test_both_loops_say_the_same_when_greedy(target: Any, hf: Reference, task: str) -> None:
    """In spite of what the checkpoint's own generation config asks for."""
    plain = Ours("none", target, load_drafter("none", target))
    for ask in asks_of("m6", task, 2):
        theirs = hf.answer(ask, GREEDY)
        assert theirs.token_ids == plain.answer(ask, GREEDY).token_ids
        assert len(theirs.token_ids) == 12
        assert 0 < theirs.decode < theirs.seconds
        assert theirs.text == target.decode(theirs.token_ids)


def test_the_checkpoints_settings_would_have_mattered(target: Any) -> None:
    ask = asks_of("m6", "mmt", 1)[0]
    stock = untouched(target)
    prompt = target.encode(ask.messages, longest_edge=96)
    out = stock.generate(input_ids=prompt.ids[None], **prompt.inputs, max_new_tokens=12)
    assert tuple(out[0, len(prompt.ids) :].tolist()) != Reference("x", target, stock).answer(ask, GREEDY).token_ids


def test_lookup_is_lossless_too(target: Any, hf: Reference) -> None:
    ask = asks_of("m6", "mmt", 1)[0]
    found = replace(hf, name="hf-lookup", lookup=8).answer(ask, GREEDY)
    assert found.token_ids == hf.answer(ask, GREEDY).token_ids


def test_sampling_leaves_the_callers_generator_alone(hf: Reference) -> None:
    ask, warm = asks_of("m6", "mmt", 1)[0], Sampling(temperature=1, seed=3, max_new_tokens=12)
    before = torch.get_rng_state()
    first, again, other = hf.answer(ask, warm), hf.answer(ask, warm), hf.answer(ask, replace(warm, seed=4))
    assert torch.equal(torch.get_rng_state(), before)
    assert first.token_ids == again.token_ids != other.token_ids


def test_top_k_one_is_greedy(hf: Reference) -> None:
    """The sampling settings do reach transformers."""
    ask = asks_of("m6", "mmt", 1)[0]
    narrow = Sampling(temperature=1, top_k=1, seed=3, max_new_tokens=12)
    assert hf.answer(ask, narrow).token_ids == hf.answer(ask, GREEDY).token_ids


def test_a_refusal_is_a_reason(target: Any, hf: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**given: Any) -> None:
        raise ValueError("assisted generation is not\n supported")

    monkeypatch.setattr(hf.model, "generate", refuse)
    with pytest.raises(Unavailable, match="refuses: ValueError: assisted generation is not supported"):
        hf.answer(asks_of("m6", "mmt", 1)[0], GREEDY)


def test_only_drafters_that_are_language_models_can_assist(shelf: Shelf, target: Any) -> None:
    small = load_drafter(shelf.lm, target)
    assert small_model_of(small).path == shelf.lm  # type: ignore[union-attr]
    assert small_model_of(load_drafter("lookup", target)) is None
    plan = plan_of(target, ["none", "lookup", str(shelf.lm)])
    assert [arm.name for arm in plan.references] == ["hf-generate", "hf-lookup", "hf-assistant-lm"]
    assert plan.references[2].assistant is not small_model_of(plan.drafters[1].drafter).model  # type: ignore[union-attr]


def test_a_model_in_memory_is_copied(target: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        alone = load_target(copy.deepcopy(target.model))
    alone.model.config._name_or_path = ""
    copied = untouched(alone)
    assert copied is not alone.model
    assert torch.equal(copied.lm_head.weight, alone.model.lm_head.weight)


def test_a_tied_head_counts_once(target: Any) -> None:
    """Although the target holds a copy of it, laid out for few rows."""
    assert target.model.get_output_embeddings().weight is not target.model.get_input_embeddings().weight
    assert parameters(target.model) == parameters(untouched(target))


def test_all_means_what_can_be_loaded(
    target: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shelf: Shelf
) -> None:
    monkeypatch.setattr("paceline.zoo.drafters", lambda name: {"small": shelf.lm})
    named = load_target(shelf.lm)
    named.name = "bundled"
    assert [arm.name for arm in plan_of(named, ["all"], hf=False).drafters] == ["lookup", "jacobi", "small"]
    assert [arm.name for arm in plan_of(target, ["all"], hf=False).drafters] == ["lookup", "jacobi"]


def test_what_was_left_out_is_recorded(target: Any) -> None:
    assert meta_of(target, {})["dropped_settings"]["repetition_penalty"] == 5.0
