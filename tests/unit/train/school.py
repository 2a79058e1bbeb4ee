"""A small target on disk that sees, and short recipes of drafters for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paceline.train.architecture import TextConfig, VisionConfig, build_target, write
from paceline.train.vocabulary import SPECIALS, VocabularyConfig, build_processor
from unit.cli.checkpoint import SIZE, _loosen, _tokenizer

TEXT = TextConfig(layers=8, width=32, feed_forward=48, heads=2, key_value_heads=1, positions=512)
VISION = VisionConfig(layers=1, width=32, feed_forward=64, heads=2)
assert len(SPECIALS) < SIZE

RECIPE = """
kind = "drafters"
target = "{target}"
seed = 3

[questions]
scenes = {{ science = 3, mmt = 2 }}
exchanges = 2

[answers]
max_new_tokens = 12
together = 4

[pack]
talks_per_step = 4
rows_per_micro_batch = 300

[held_out]
scenes = {{ science = 2 }}
every = 3

[loop]
steps = 6
learning_rate = 3e-3
warmup_steps = 2
schedule = "cosine"
weight_decay = 0.0
clip = 0.5

[[drafters]]
method = "eagle"
conditioner = "text-only"
rate = 0.5
config = {{ heads = 2, groups = 1, feed_forward = 32, unroll = 3 }}
options = {{ depth = 3, width = 2, nodes = 5 }}

[[drafters]]
method = "eagle"
name = "small"
config = {{ heads = 2, groups = 1, feed_forward = 32, unroll = 2, draft_vocab = 40 }}
"""


def target(where: Path) -> Path:
    """Write the target; equal every time."""
    tokenizer: Any = _tokenizer("w")
    model = build_target(TEXT, VISION, tokenizer, 0)
    _loosen(model)
    write(model, where, build_processor(tokenizer, VocabularyConfig(size=SIZE)))
    return where


def recipe(where: Path, target: Path, text: str = RECIPE) -> Path:
    """Write the recipe for this target."""
    path = where / "recipe.toml"
    path.write_text(text.format(target=target))
    return path


def log(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's log, without what depends on the clock."""
    lines = [json.loads(line) for line in (run / "joint" / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("step_s", "seconds")} for line in lines]
