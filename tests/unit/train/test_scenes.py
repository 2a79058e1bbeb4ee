"""Rendered scenes: ids and pixels equal the processor's own for every family; shards and mixtures give them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from paceline.tasks import FAMILIES, scene
from paceline.train import shards, vocabulary
from paceline.train.language import Blind
from paceline.train.mixture import Mixture, MixtureConfig
from paceline.train.packing import normalise
from paceline.train.scenes import Encoder


def through_the_processor(processor: Any, drawn: Any, exchange: Any) -> Any:
    content = [*[{"type": "image"}] * len(drawn.images), {"type": "text", "text": exchange.question}]
    messages = [
        {"role": "user", "content": content},
        {"role": "assistant", "content": [{"type": "text", "text": exchange.answer}]},
    ]
    text = processor.apply_chat_template(messages)
    return processor(
        text=text, images=list(drawn.images), size={"longest_edge": drawn.longest_edge}, return_tensors="pt"
    )


@pytest.mark.parametrize("task", FAMILIES)
def test_ids_and_pixels_are_exactly_the_processors(processor: Any, task: str) -> None:
    encoder = Encoder(processor)
    for index in (0, 1):
        drawn = scene(task, "train", index)
        packed = encoder.encode(drawn)
        for exchange, branch in zip(drawn.exchanges, packed.branches, strict=True):
            expected = through_the_processor(processor, drawn, exchange)
            assert np.concatenate([packed.prefix, branch.ids]).tolist() == expected["input_ids"][0].tolist()
            assert torch.equal(normalise(packed.tiles), expected["pixel_values"][0])
            answer = processor.tokenizer.decode(branch.ids[branch.answer :], skip_special_tokens=True)
            assert answer == exchange.answer


def test_the_generation_prompt_ends_where_the_answer_starts(processor: Any) -> None:
    drawn = scene("mmt", "train", 0)
    packed = Encoder(processor).encode(drawn)
    content = [{"type": "image"}, {"type": "text", "text": drawn.exchanges[0].question}]
    text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
    ids = processor(text=text, images=list(drawn.images), size={"longest_edge": 96})["input_ids"][0]
    branch = packed.branches[0]
    assert ids == [*packed.prefix.tolist(), *branch.ids[: branch.answer].tolist()]


def test_pictures_come_before_text_and_tags_are_single_tokens(processor: Any) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image"}]}]
    assert processor.apply_chat_template(messages) == "<|begin|><|user|><image>hi<end_of_utterance>"
    for tag in vocabulary.SPECIALS:
        assert len(processor.tokenizer.tokenize(tag)) == 1
    assert processor.tokenizer.tokenize("1 2.50") == ["1", "Ġ2", ".", "5", "0"]
    assert processor.tokenizer.decode(processor.tokenizer("naïve Ж 42")["input_ids"]) == "naïve Ж 42"


def test_shards_give_back_what_was_encoded_and_are_not_made_twice(
    processor: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(shards, "SHARD", 3)
    encoder = Encoder(processor)
    shards.render({"mmt": 4, "seed": 2}, "train", encoder, tmp_path)
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(stamps) == 6
    shards.render({"mmt": 4}, "train", encoder, tmp_path)
    assert stamps == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    reader = shards.Shards(tmp_path, "train")
    for task, index in (("mmt", 0), ("mmt", 4), ("seed", 1)):
        made, read = encoder.encode(scene(task, "train", index)), reader.scene(task, index)
        assert np.array_equal(made.tiles, read.tiles)
        assert made.prefix.tolist() == read.prefix.tolist()
        for a, b in zip(made.branches, read.branches, strict=True):
            assert (a.ids.tolist(), a.answer) == (b.ids.tolist(), b.answer)
    with pytest.raises(FileNotFoundError, match="render seed/train up to scene 6"):
        reader.scene("seed", 4)


def test_a_mixture_is_a_function_of_the_step_and_skips_nothing(
    processor: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(shards, "SHARD", 4)
    shards.render({"mmt": 8, "seed": 4}, "train", Encoder(processor), tmp_path)
    config = MixtureConfig({"mmt": 3, "seed": 1}, {"mmt": 8, "seed": 4}, scenes_per_step=3, tokens_per_micro_batch=800)
    mixture = Mixture(shards.Shards(tmp_path, "train"), config, pad=0)
    seen = [number for step in range(8) for number in mixture.numbers(step)]
    assert len(seen) == 24
    assert [index for task, index in seen if task == "mmt"] == [n % 8 for n in range(18)]
    assert [index for task, index in seen if task == "seed"] == [n % 4 for n in range(6)]
    first, again = mixture.micro_batches(2), mixture.micro_batches(2)
    assert [batch.name for batch in first] == [batch.name for batch in again]
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(first, again, strict=True))
    assert all(batch.ids.numel() <= 800 or len(batch.ids) == 1 for batch in first)


def test_a_blind_scene_keeps_everything_but_the_picture(processor: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(shards, "SHARD", 1)
    shards.render({"seed": 1}, "train", Encoder(processor), tmp_path)
    reader, image = shards.Shards(tmp_path, "train"), processor.tokenizer.convert_tokens_to_ids("<image>")
    seeing, blind = reader.scene("seed", 0), Blind(reader, image).scene("seed", 0)
    assert image in seeing.prefix
    assert blind.prefix.tolist() == [i for i in seeing.prefix.tolist() if i != image]
    assert len(blind.tiles) == 0
    assert [b.ids.tolist() for b in blind.branches] == [b.ids.tolist() for b in seeing.branches]
