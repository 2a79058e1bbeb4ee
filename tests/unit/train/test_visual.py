"""The visual trainer: what a row holds, what is learnt from, and that the result loads with plain transformers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from paceline.pictures.codebook import Codebook
from paceline.train import run, visual
from paceline.train.dispatch import RecipeError
from paceline.train.media import MEDIA

RECIPE = """
kind = "visual"
name = "small"
seed = 3
medium = "{medium}"
words = 300
captions = 40
batch = 4
micro_batch = 2
drop = 0.5
[text]
layers = 2
width = 32
feed_forward = 32
heads = 2
key_value_heads = 1
positions = 640
[codebook]
codes = 16
pictures = 6
patches = 700
rounds = 2
[loop]
steps = {steps}
learning_rate = 1e-2
warmup_steps = 0
threads = 1
"""


def recipe(tmp_path: Path, medium: str = "picture", steps: int = 2) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(RECIPE.format(medium=medium, steps=steps), encoding="utf-8")
    return path


@pytest.mark.parametrize("medium", sorted(MEDIA))
def test_a_trained_generator_loads_with_plain_transformers(tmp_path: Path, medium: str) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    result = run(recipe(tmp_path, medium), tmp_path / "run")
    assert result.steps == 2
    where = tmp_path / "run" / "model"
    model, tokenizer = AutoModelForCausalLM.from_pretrained(where), AutoTokenizer.from_pretrained(where)
    facts = json.loads((where / "visual.json").read_text())
    assert model.dtype == torch.float32
    assert facts["layout"] == list(MEDIA[medium].layout)
    assert facts["first_code"] == 300 == len(tokenizer) - facts["codes"]
    assert model.config.vocab_size == 316
    book = Codebook.load(where / "codebook.safetensors")
    assert book.table.shape == (16, facts["patch"] ** 2 * 3)
    drawn = model.generate(**tokenizer("A red apple", return_tensors="pt"), max_new_tokens=3, do_sample=False)
    assert drawn.shape[1] == len(tokenizer("a red apple")["input_ids"]) + 3


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole = run(recipe(tmp_path, steps=3), tmp_path / "whole")
    run(recipe(tmp_path, steps=2), tmp_path / "halves")
    again = run(recipe(tmp_path, steps=3), tmp_path / "halves")
    bits = [(path.checkpoint / "model.safetensors").read_bytes() for path in (whole, again)]
    assert bits[0] == bits[1]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> visual.DrawnSource:
    where = tmp_path_factory.mktemp("visual")
    config = visual.recipe.load(recipe(where), visual.VisualRecipe)
    tokenizer = visual.prepare_tokenizer(config, MEDIA["picture"], where / "tokenizer")
    book = visual.prepare_codebook(config, MEDIA["picture"], where / "codebook.safetensors")
    return visual.DrawnSource(config, MEDIA["picture"], tokenizer, book)


def test_rows_are_captions_between_marks_then_codes(source: visual.DrawnSource) -> None:
    codes = np.arange(8).reshape(2, 4)
    first, second = visual.rows_of(source.tokenizer, ["Red  apple ", ""], codes, 16)
    assert source.tokenizer.decode(first[:-4]).replace(" ", "") == "<|begin|>redapple<|image|>"
    assert first[-4:].tolist() == [300, 301, 302, 303]
    assert second.tolist() == [1, 2, 304, 305, 306, 307]


def test_only_codes_are_learnt_from(source: visual.DrawnSource) -> None:
    for batch in source.micro_batches(0):
        followers = batch.ids.roll(-1, 1)[batch.source]
        assert (batch.source.sum(1) == 256).all()
        assert bool((followers >= 300).all())
        assert int((batch.ids >= 300).sum()) == len(followers)


def test_a_step_depends_on_its_number_alone_and_drops_some_captions(source: visual.DrawnSource) -> None:
    one, two = source.micro_batches(4), source.micro_batches(4)
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(one, two, strict=True))
    lengths = [
        int((row > 0).sum()) - 256 for step in range(8) for batch in source.micro_batches(step) for row in batch.ids
    ]
    empty = sum(length == 2 for length in lengths)  # the two marks alone
    assert 8 < empty < 24  # of 32, at one half


def test_the_loss_is_that_of_the_plain_model(source: visual.DrawnSource) -> None:
    config = source.config
    model = visual.architecture.build_language_model(config.text, source.tokenizer, config.seed)
    [batch, *_] = source.micro_batches(1)
    outcome = visual.next_codes(model, batch)
    labels = batch.ids.roll(-1, 1).where(batch.source, -100)
    logits = model(input_ids=batch.ids).logits
    plain = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
    assert outcome.terms == 512
    assert torch.allclose(outcome.loss, plain, rtol=1e-5)


def test_bad_recipes_are_refused(tmp_path: Path) -> None:
    path = recipe(tmp_path)
    path.write_text(path.read_text().replace('"picture"', '"pictures"'), encoding="utf-8")
    with pytest.raises(RecipeError, match="picture"):
        run(path, tmp_path / "run")
    path.write_text(RECIPE.format(medium="clip", steps=1).replace("drop = 0.5", "drop = 1.0"), encoding="utf-8")
    with pytest.raises(RecipeError, match="drop must be in"):
        run(path, tmp_path / "run")
    assert not (tmp_path / "run" / "model").exists()
