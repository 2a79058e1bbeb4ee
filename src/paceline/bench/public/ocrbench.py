"""OCRBench (Liu et al., 2023): reading text in pictures, by five groups of its ten kinds."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from paceline.bench.public.benchmark import Benchmark, Question
from paceline.bench.public.row import Row
from paceline.bench.public.scoring import any_of

PARTS: Mapping[str, str] = MappingProxyType({
    "Regular Text Recognition": "recognition",
    "Irregular Text Recognition": "recognition",
    "Artistic Text Recognition": "recognition",
    "Handwriting Recognition": "recognition",
    "Digit String Recognition": "recognition",
    "Non-Semantic Text Recognition": "recognition",
    "Scene Text-centric VQA": "scene",
    "Doc-oriented VQA": "document",
    "Key Information Extraction": "information",
    "Handwritten Mathematical Expression Recognition": "formula",
})  # fmt: skip


def _question(row: Row) -> Question:
    right = any_of(row.texts("answer"), spaces=row.text("dataset") != "HME100k")
    return Question(row.text("question"), "", row.pictures("image"), right)


OCRBENCH = Benchmark(
    title="OCRBench",
    hub="echo840/OCRBench",
    config=None,
    splits=("test",),
    columns=("dataset", "question", "question_type", "answer", "image"),
    parts=tuple(dict.fromkeys(PARTS.values())),
    part=lambda row: PARTS[row.among("question_type", tuple(PARTS))],
    question=_question,
)
