"""Small tables of exactly the published schemas: the features that the hub's cards declare, rows of our own making."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from datasets import Dataset, Features, Image, List, Value
from PIL import Image as Pictures


def picture(number: int = 0) -> Pictures.Image:
    """A small picture that only this number has."""
    return Pictures.new("RGB", (8 + number, 8), (10 * number, 80, 120))


def texts(*names: str) -> dict[str, Value]:
    return {name: Value("string") for name in names}


# lmms-lab/MMT-Benchmark
MMT = Features(
    {"index": Value("int32"), **texts("question", "answer", *"ABCDEFGHI"), "image": Image()}
    | texts("category", "l2-category", "split")
)
MMT_ROWS: list[dict[str, Any]] = [
    {"index": 7, "question": "What is it?", "answer": "B", "A": "a cat", "B": "a dog", "C": "a cow",
     "image": picture()},
    {"index": 8, "question": "Which way?", "answer": "D", "A": "up", "B": "down", "C": "left", "D": "right",
     "image": picture(1)},
]  # fmt: skip

# lmms-lab/SEED-Bench
SEED = Features(
    texts("answer", "choice_a", "choice_b", "choice_c", "choice_d")
    | {"data_id": List(Value("string")), **texts("data_type", "question", "question_id")}
    | {"question_type_id": Value("int16"), "image": List(Image()), "segment": List(Value("int64"))}
)
CHOICES = {f"choice_{mark}": text for mark, text in zip("abcd", ("one", "two", "three", "four"), strict=True)}
SEED_ROWS: list[dict[str, Any]] = [
    {**CHOICES, "answer": "C", "data_id": ["1"], "data_type": "image", "question": "How many dogs?",
     "question_id": "1", "question_type_id": 5, "image": [picture()], "segment": None},
    {**CHOICES, "answer": "A", "data_id": ["2"], "data_type": "video", "question": "How many steps?",
     "question_id": "2", "question_type_id": 11, "image": [picture(i) for i in range(4)], "segment": [3, 9]},
]  # fmt: skip

# lmms-lab/ScienceQA, ScienceQA-IMG
SCIENCE = Features(
    {"image": Image(), "question": Value("string"), "choices": List(Value("string")), "answer": Value("int8")}
    | texts("hint", "task", "grade", "subject", "topic", "category", "skill", "lecture", "solution")
)
SCIENCE_ROWS: list[dict[str, Any]] = [
    {"image": picture(), "question": "Which is the coldest?", "choices": ["ice", "steam"], "answer": 0,
     "hint": "Feel it."},
    {"image": picture(1), "question": "Which is a mammal?", "choices": ["ant", "bat", "cod"], "answer": 1, "hint": ""},
]  # fmt: skip

# echo840/OCRBench
OCR = Features({**texts("dataset", "question", "question_type"), "answer": List(Value("string")), "image": Image()})
OCR_KINDS = (
    "Regular Text Recognition", "Digit String Recognition", "Scene Text-centric VQA", "Doc-oriented VQA",
    "Key Information Extraction", "Handwritten Mathematical Expression Recognition",
)  # fmt: skip
OCR_ROWS: list[dict[str, Any]] = [
    {"dataset": "HME100k" if kind.startswith("Handwritten M") else "IIIT5K", "question": f"Read this ({kind}).",
     "question_type": kind, "answer": ["x + 1"] if kind.startswith("Handwritten M") else ["Stop", "Halt"],
     "image": picture(i)}
    for i, kind in enumerate(OCR_KINDS)
]  # fmt: skip

# lmms-lab/ChartQA
CHART = Features({**texts("type", "question", "answer"), "image": Image()})
CHART_ROWS: list[dict[str, Any]] = [
    {"type": "human_test", "question": "How much?", "answer": "40", "image": picture()},
    {"type": "human_test", "question": "Who?", "answer": "Peru", "image": picture(1)},
    {"type": "augmented_test", "question": "What share?", "answer": "12.5", "image": picture(2)},
]

# AI4Math/MathVista
META = {
    **texts("category", "context", "grade"), "img_height": Value("int64"), "img_width": Value("int64"),
    "language": Value("string"), "skills": List(Value("string")), **texts("source", "split", "task"),
}  # fmt: skip
MATH = Features(
    {**texts("pid", "question", "image"), "decoded_image": Image(), "choices": List(Value("string"))}
    | {"unit": Value("string"), "precision": Value("float64"), **texts("answer", "question_type", "answer_type")}
    | {"metadata": META, "query": Value("string")}
)
MATH_ROWS: list[dict[str, Any]] = [
    {"pid": "1", "question": "How long?", "image": "images/1.jpg", "decoded_image": picture(), "choices": None,
     "unit": "cm", "precision": 1.0, "answer": "1.2", "question_type": "free_form", "answer_type": "float",
     "query": "Hint: … Question: How long?"},
    {"pid": "2", "question": "Which angle?", "image": "images/2.jpg", "decoded_image": picture(1),
     "choices": ["30°", "60°"], "unit": None, "precision": None, "answer": "60°", "question_type": "multi_choice",
     "answer_type": "text", "query": "Hint: … Question: Which angle?"},
    {"pid": "3", "question": "How many?", "image": "images/3.jpg", "decoded_image": picture(2), "choices": None,
     "unit": None, "precision": None, "answer": "7", "question_type": "free_form", "answer_type": "integer",
     "query": "Hint: … Question: How many?"},
]  # fmt: skip

# killthefullmoon/MMSpec, mmspec.jsonl
MMSPEC_ROWS: list[dict[str, Any]] = [
    {"id": "img_000001", "image": "general_vqa/img_000001.png", "turns": ["What plant is it?", "What weather?"],
     "category": "Landscape", "topic": "general vqa"},
    {"id": "img_000037", "image": "image_captioning/img_000037.png", "turns": ["What is the main subject?"],
     "category": "Winter", "topic": "image captioning"},
]  # fmt: skip

TABLES: Mapping[str, tuple[Features, list[dict[str, Any]]]] = MappingProxyType({
    "mmt-bench": (MMT, MMT_ROWS),
    "seed-bench": (SEED, SEED_ROWS),
    "scienceqa": (SCIENCE, SCIENCE_ROWS),
    "ocrbench": (OCR, OCR_ROWS),
    "chartqa": (CHART, CHART_ROWS),
    "mathvista": (MATH, MATH_ROWS),
})  # fmt: skip


def table(name: str, rows: list[dict[str, Any]] | None = None) -> Dataset:
    """The table of a benchmark with its published features; rows: in place of ours."""
    features, own = TABLES[name]
    full = [{key: row.get(key) for key in features} for row in (own if rows is None else rows)]
    return Dataset.from_list(full, features=features)
