"""`model.generate(**inputs, custom_generate=…)` gives the ids of plain `generate`, drafted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from paceline.bridge import custom_generate
from paceline.drafters.free.lookup import Lookup
from paceline.drafters.free.none import NoDraft
from paceline.errors import UsageError
from unit.targets.replay import Replay
from unit.targets.tiny import tiny

SETTINGS = {"max_new_tokens": 24, "eos_token_id": None, "pad_token_id": 0}


def inputs(name: str, row: int) -> tuple[Any, dict[str, torch.Tensor]]:
    made = tiny(name)
    prompt = made.prompts()[row]
    ids = prompt.ids[None]
    return made.model, {"input_ids": ids, "attention_mask": torch.ones_like(ids), **prompt.inputs}


@pytest.mark.parametrize("name", ["llama", "idefics3", "qwen2_5_vl", "llava_clip"])
def test_greedy_ids_equal_generate(name: str) -> None:
    model, given = inputs(name, 2)
    plain = model.generate(**given, do_sample=False, **SETTINGS)
    said = plain[0, given["input_ids"].shape[1] :].tolist()
    for drafter in (NoDraft(), Lookup(), Replay([said], "chain"), Replay([said], "tree")):
        drafted = model.generate(**given, do_sample=False, custom_generate=custom_generate(drafter), **SETTINGS)
        assert drafted.tolist() == plain.tolist()


def test_a_text_batch_padded_on_the_left_equals_its_rows_alone() -> None:
    model, _ = inputs("llama", 0)
    rows = [torch.tensor([5, 6, 7, 8, 9]), torch.tensor([11, 12])]
    ids = torch.tensor([[5, 6, 7, 8, 9], [0, 0, 0, 11, 12]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 0, 1, 1]])
    out = model.generate(
        input_ids=ids, attention_mask=mask, do_sample=False, custom_generate=custom_generate(Lookup()), **SETTINGS
    )
    for i, row in enumerate(rows):
        alone = model.generate(input_ids=row[None], do_sample=False, **SETTINGS)
        assert out[i, 5:].tolist() == alone[0, len(row) :].tolist()


def test_sampling_follows_torchs_seed_and_not_the_drafter() -> None:
    model, given = inputs("llama", 0)
    texts = []
    for drafter in (NoDraft(), Lookup()):
        torch.manual_seed(3)
        out = model.generate(
            **given, do_sample=True, temperature=0.9, top_k=20, custom_generate=custom_generate(drafter), **SETTINGS
        )
        texts.append(out.tolist())
    assert texts[0] == texts[1]
    torch.manual_seed(4)
    other = model.generate(**given, do_sample=True, custom_generate=custom_generate(NoDraft()), **SETTINGS)
    assert other.tolist() != texts[0]


def test_an_end_id_ends_and_pads() -> None:
    model, given = inputs("llama", 0)
    plain = model.generate(**given, do_sample=False, **SETTINGS)[0].tolist()
    end = plain[given["input_ids"].shape[1] + 5]
    settings = {**SETTINGS, "eos_token_id": end}
    out = model.generate(**given, do_sample=False, custom_generate=custom_generate(Lookup()), **settings)
    assert out.tolist() == model.generate(**given, do_sample=False, **settings).tolist()


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ({"repetition_penalty": 1.2}, "RepetitionPenalty"),
        ({"no_repeat_ngram_size": 3}, "NoRepeatNGram"),
        ({"min_new_tokens": 4, "eos_token_id": 9}, "MinLength"),
        ({"suppress_tokens": [4]}, "SuppressTokens"),
        ({"num_beams": 2}, "num_beams"),
        ({"max_time": 9.0}, "MaxTime"),
        ({"logits_processor": [lambda ids, scores: scores / 2]}, "function"),
        ({"stopping_criteria": [lambda ids, scores, **_: torch.zeros(len(ids), dtype=torch.bool)]}, "function"),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)),
)
def test_settings_with_memory_are_refused_by_name(setting: dict[str, Any], name: str) -> None:
    model, given = inputs("llama", 0)
    with pytest.raises(UsageError, match=name):
        model.generate(**given, do_sample=False, custom_generate=custom_generate(Lookup()), **{**SETTINGS, **setting})


def test_several_rows_with_pictures_are_refused() -> None:
    model, given = inputs("idefics3", 2)
    twice = {key: torch.cat([value, value]) for key, value in given.items()}
    with pytest.raises(UsageError, match="2 rows with pictures"):
        model.generate(**twice, do_sample=False, custom_generate=custom_generate(NoDraft()), **SETTINGS)
