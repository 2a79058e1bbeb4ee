"""MMT-Bench (Ying et al., ICML 2024): multiple choice over 32 abilities, one picture or several."""

from __future__ import annotations

from paceline.bench.public.benchmark import LETTER, Benchmark, Question, choices_listed
from paceline.bench.public.row import Row
from paceline.bench.public.scoring import letter, letters_of

LETTERS = "ABCDEFGHI"


def _question(row: Row) -> Question:
    filled = [mark for mark in LETTERS if row.maybe(mark)] or ["A"]
    choices = [row.text(mark) for mark in LETTERS[: LETTERS.index(filled[-1]) + 1]]  # a gap would move the letters
    right = None
    if row.maybe("answer"):  # the split `test` keeps its answers back
        right = letter(row.among("answer", letters_of(choices)), choices)
    prompt = f"{row.text('question')}\n{choices_listed(choices)}"
    return Question(prompt, LETTER, row.pictures("image"), right)


MMT = Benchmark(
    title="MMT-Bench",
    hub="lmms-lab/MMT-Benchmark",
    config=None,
    splits=("val", "test"),
    columns=("question", "image", "answer", "A", "B"),
    parts=("mmt-bench",),
    part=lambda row: "mmt-bench",
    question=_question,
)
