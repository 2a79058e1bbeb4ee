"""ChartQA (Masry et al., 2022): questions about charts, by people or made from captions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from paceline.bench.public.benchmark import PHRASE, Benchmark, Question
from paceline.bench.public.row import Row
from paceline.bench.public.scoring import relaxed

PARTS: Mapping[str, str] = MappingProxyType({"human_test": "human", "augmented_test": "augmented"})


def _question(row: Row) -> Question:
    return Question(row.text("question"), PHRASE, row.pictures("image"), relaxed(row.text("answer")))


CHARTQA = Benchmark(
    title="ChartQA",
    hub="lmms-lab/ChartQA",
    config=None,
    splits=("test",),
    columns=("type", "question", "answer", "image"),
    parts=tuple(PARTS.values()),
    part=lambda row: PARTS[row.among("type", tuple(PARTS))],
    question=_question,
)
