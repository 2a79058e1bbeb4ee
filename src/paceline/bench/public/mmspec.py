"""MMSpec (Shen et al., 2026): 600 prompts for the speed of speculative decoding, by topic, of their own length."""

from __future__ import annotations

import re

from paceline.bench.public.benchmark import Benchmark, Question
from paceline.bench.public.row import Row


def _part(row: Row) -> str:
    return re.sub(r"[^a-z0-9]+", "-", row.text("topic").lower()).strip("-")


def _question(row: Row) -> Question:
    """The first turn: later ones go on from an answer that only the model under test can give. No right answers."""
    return Question(row.texts("turns")[0], "", row.pictures("image"))


MMSPEC = Benchmark(
    title="MMSpec",
    hub="",  # published as files: `mmspec.jsonl` beside `images/`
    config=None,
    splits=("test", "testmini"),
    columns=("id", "image", "turns", "category", "topic"),
    parts=None,
    part=_part,
    question=_question,
)
