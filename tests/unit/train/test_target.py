"""Whole recipes at toy size: what they leave behind loads by plain classes, and its drafter shares its vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from paceline.tasks import scene
from paceline.train import evaluate, shards
from paceline.train.dispatch import run

STACK = """
[text]
layers = 2
width = 32
feed_forward = 48
heads = 2
key_value_heads = 1
positions = 1024
"""
DATA = """
[mixture]
scenes_per_step = 2
tokens_per_micro_batch = 800
shares = {mmt = 1, seed = 1}
scenes = {mmt = 2, seed = 2}
[loop]
steps = 2
learning_rate = 1e-2
"""
LESSONS = """
[[lessons]]
name = "first"
kinds = {mmt = ["list"]}
scenes_per_step = 1
loop = {steps = 1, learning_rate = 1e-3}
[[lessons]]
name = "second"
kinds = {seed = ["shots"]}
scenes_per_step = 1
tiles = 2
loop = {steps = 1, learning_rate = 1e-3}
"""
TARGET = f"""
kind = "target"
name = "toy"
seed = 1
vocabulary_scenes = 2
vocabulary = {{size = 380}}
vision = {{layers = 1, width = 16, feed_forward = 32, heads = 2}}
language = {{steps = 1, learning_rate = 1e-3}}
alignment = {{tiles = 2, loop = {{steps = 1, learning_rate = 1e-3}}}}
letters = {{tiles = 2, loop = {{steps = 1, learning_rate = 1e-3}}}}
beside = {{tiles = 2, steps = 1}}
naming = {{batch = 1, loop = {{steps = 1, learning_rate = 1e-3}}}}
{STACK}{DATA}{LESSONS}"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    (root / "toy.toml").write_text(TARGET)
    (root / "lm.toml").write_text(
        f'kind = "lm"\nname = "lm"\nseed = 2\ntarget = "{root / "toy" / "model"}"\n{STACK}{DATA}'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "SHARD", 2)
        result = run(root / "toy.toml", root / "toy")
        assert result.steps == 2
        run(root / "lm.toml", root / "lm", root / "toy" / "data")
    return root


def test_a_trained_target_loads_by_plain_classes_in_float32(made: Path) -> None:
    from transformers import AutoModelForImageTextToText, AutoProcessor

    directory = made / "toy" / "model"
    with safe_open(directory / "model.safetensors", "pt") as stored:
        names = set(stored.keys())
        assert {stored.get_slice(name).get_dtype() for name in names} == {"F16"}
    assert "lm_head.weight" not in names  # tied
    model = AutoModelForImageTextToText.from_pretrained(directory).eval()
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    processor: Any = AutoProcessor.from_pretrained(directory)
    assert model.generation_config.eos_token_id == processor.tokenizer.eos_token_id
    drawn = scene("mmt", "val", 0)
    text = evaluate.chat(processor, drawn.exchanges[0].question, 1)
    inputs = processor(text=text, images=list(drawn.images), size={"longest_edge": 96}, return_tensors="pt")
    assert model.generate(**inputs, max_new_tokens=3, do_sample=False).shape[1] > inputs["input_ids"].shape[1]


def test_what_made_the_weights_is_written_beside_them(made: Path) -> None:
    record = json.loads((made / "toy" / "model" / "paceline.json").read_text())
    assert (record["license"], record["recipe"], record["steps"]) == ("Apache-2.0", "toy.toml", 2)
    drafter = json.loads((made / "lm" / "model" / "paceline.json").read_text())
    assert (drafter["method"], drafter["steps"]) == ("lm", 2)


def test_the_drafter_shares_the_targets_vocabulary(made: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    small = AutoModelForCausalLM.from_pretrained(made / "lm" / "model")
    ours = AutoTokenizer.from_pretrained(made / "lm" / "model").get_vocab()
    assert ours == AutoTokenizer.from_pretrained(made / "toy" / "model").get_vocab()
    assert small.config.vocab_size == len(ours)


def test_the_evaluator_reports_every_measure(made: Path) -> None:
    from transformers import AutoModelForImageTextToText, AutoProcessor

    directory = made / "toy" / "model"
    model, processor = (
        AutoModelForImageTextToText.from_pretrained(directory).eval(),
        AutoProcessor.from_pretrained(directory),
    )
    report = evaluate.family(model, processor, "seed", "val", scenes=2, answers=2, shown=1)
    assert report.tokens > 50
    assert report.nll > 0
    assert report.nll_wrong_picture != report.nll
    assert not report.grounded
    assert report.answers == 2
    assert set(report.by_slice) == {"seen"}
    assert set(report.examples[0]) == {"question", "expected", "answer"}
