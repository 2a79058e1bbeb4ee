"""SEED-Bench (Li et al., CVPR 2024): multiple choice with four choices about a picture, or about frames of a clip."""

from __future__ import annotations

from paceline.bench.public.benchmark import LETTER, Benchmark, Question, choices_listed
from paceline.bench.public.row import Row
from paceline.bench.public.scoring import letter

PARTS = ("image", "video")


def _question(row: Row) -> Question:
    choices = [row.text(f"choice_{mark}") for mark in "abcd"]
    prompt = f"{row.text('question')}\n{choices_listed(choices)}"
    right = letter(row.among("answer", "ABCD"), choices)
    return Question(prompt, LETTER, row.pictures("image"), right)


SEED = Benchmark(
    title="SEED-Bench",
    hub="lmms-lab/SEED-Bench",
    config=None,
    splits=("test",),
    columns=("question", "choice_a", "choice_b", "choice_c", "choice_d", "answer", "data_type", "image"),
    parts=PARTS,
    part=lambda row: row.among("data_type", PARTS),
    question=_question,
)
