"""Trains the `lm` drafter of a target: a small text-only Llama on the same questions and answers, without the pictures.

Its prompts are the target's with the rows of pictures dropped, as decoding shows them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from paceline.train import architecture, objectives, provenance, recipe, shards, vocabulary
from paceline.train.loop import LoopConfig, Result, Trainer
from paceline.train.mixture import Mixture, MixtureConfig
from paceline.train.packing import Packed
from paceline.train.scenes import Encoder


@dataclass(frozen=True, slots=True)
class LanguageRecipe:
    """Everything that makes an `lm` drafter; `target` is a bundled name or the directory of a trained target."""

    kind: Literal["lm"]
    name: str
    target: str
    seed: int
    text: architecture.TextConfig
    mixture: MixtureConfig
    loop: LoopConfig


@dataclass(frozen=True, slots=True)
class Blind:
    """Rendered scenes without their pictures: no tiles, and a prefix without the ids that stand for them."""

    shards: shards.Shards
    image: int  # the id of a picture's row

    def scene(self, task: str, index: int) -> Packed:
        """Return scene `index` of a task as text."""
        scene = self.shards.scene(task, index)
        return replace(scene, tiles=np.zeros((0, 1, 1, 3), np.uint8), prefix=scene.prefix[scene.prefix != self.image])


def run(path: Path, output: Path, data: Path | None = None, render: bool = True) -> Result:
    """Run the recipe at `path`, or on from where a killed run stopped; the drafter lands in `output`/model.

    Rendered scenes are shared with the target's own training through `data` (default: `output`/data).
    """
    config = recipe.load(path, LanguageRecipe)
    processor: Any = vocabulary.load_processor(target_directory(config.target))
    tokenizer, data = processor.tokenizer, data or output / "data"
    if render:
        shards.render(config.mixture.scenes, "train", Encoder(processor), data)
    model = architecture.build_language_model(config.text, tokenizer, config.seed)
    source = Blind(shards.Shards(data, "train", 0.0 if render else 600.0), tokenizer.convert_tokens_to_ids("<image>"))

    def keep(step: int) -> None:
        architecture.write(model, output / "model", tokenizer)
        provenance.write(output / "model", path, method="lm", target=config.target, steps=step)

    mixture = Mixture(source, config.mixture, tokenizer.pad_token_id)
    return Trainer(model, objectives.answer_tokens, mixture, config.loop, output / "joint", on_checkpoint=keep).run()


def target_directory(name: str) -> Path:
    """The directory of a target given by bundled name or path."""
    from paceline import zoo

    return Path(name) if Path(name).is_dir() else zoo.target(name)
