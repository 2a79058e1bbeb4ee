"""MathVista (Lu et al., ICLR 2024): mathematics in pictures, by choice or as a free answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from paceline.bench.public.benchmark import LETTER, PHRASE, Benchmark, Question, choices_listed
from paceline.bench.public.row import Row
from paceline.bench.public.scoring import Right, any_of, letter, letters_of, number

PARTS: Mapping[str, str] = MappingProxyType({"multi_choice": "choice", "free_form": "free"})
KINDS = ("integer", "float", "list", "text")


def _part(row: Row) -> str:
    return PARTS[row.among("question_type", tuple(PARTS))]


def _question(row: Row) -> Question:
    """The data's own `query` holds hints for its extractor; ours is asked as the other benchmarks are."""
    unit = row.maybe("unit")
    prompt = row.text("question") + (f" (unit: {unit})" if unit else "")
    if _part(row) == "free":
        return Question(prompt, PHRASE, row.pictures("decoded_image"), _free(row))
    choices = row.texts("choices", least=2)
    right = None
    if row.maybe("answer"):  # the split `test` keeps its answers back
        right = letter(letters_of(choices)[choices.index(row.among("answer", choices))], choices)
    return Question(f"{prompt}\n{choices_listed(choices)}", LETTER, row.pictures("decoded_image"), right)


def _free(row: Row) -> Right | None:
    kind = row.among("answer_type", KINDS)
    answer = row.maybe("answer")
    if not answer:
        return None
    if kind in ("list", "text"):
        return any_of([answer], spaces=False)
    digits = row.number("precision")
    return number(answer, int(digits) if kind == "float" and digits is not None else None)


MATHVISTA = Benchmark(
    title="MathVista",
    hub="AI4Math/MathVista",
    config=None,
    splits=("testmini", "test"),
    columns=("question", "decoded_image", "choices", "answer", "question_type", "answer_type", "precision", "unit"),
    parts=tuple(PARTS.values()),
    part=_part,
    question=_question,
)
