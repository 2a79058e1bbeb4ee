"""ScienceQA with pictures (Lu et al., NeurIPS 2022): multiple choice, often with a hint."""

from __future__ import annotations

from paceline.bench.public.benchmark import LETTER, Benchmark, Question, choices_listed
from paceline.bench.public.row import Row
from paceline.bench.public.scoring import letter, letters_of


def _question(row: Row) -> Question:
    choices = row.texts("choices", least=2)
    right = letter(letters_of(choices)[row.index("answer", len(choices))], choices)
    told = [row.maybe("hint"), row.text("question"), choices_listed(choices)]
    return Question("\n".join(filter(None, told)), LETTER, row.pictures("image"), right)


SCIENCE = Benchmark(
    title="ScienceQA",
    hub="lmms-lab/ScienceQA",
    config="ScienceQA-IMG",
    splits=("test", "validation"),
    columns=("image", "question", "choices", "answer", "hint"),
    parts=("scienceqa",),
    part=lambda row: "scienceqa",
    question=_question,
)
