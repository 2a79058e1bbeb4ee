"""Science, ocr, chart and human: same number, same scene; answers right, grammatical, of their split's material."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

import PIL
import pytest

from paceline.tasks import scene
from paceline.tasks.lettering import FOLDER, SEEN, UNSEEN, faces
from paceline.tasks.material import concepts
from paceline.tasks.ocr import GROCERIES, SIGNS, UNSEEN_WORDS, goods
from paceline.tasks.scene import Exchange, Scene, Split
from paceline.tasks.scoring import item_accuracy, items_found, words
from paceline.tasks.tables import (
    TEST_YEARS,
    UNSEEN_COUNTRIES,
    UNSEEN_ELEMENTS,
    VAL_YEARS,
    countries,
    definitions,
    elements,
    glosses,
)

TASKS = ("science", "ocr", "chart", "human")
SIDES = {"science": 96, "ocr": 192, "chart": 192, "human": 192}
FROZEN = {  # digest of what the bundled target was trained on; a change here means another suite
    "science": "b8ce2d5f5242a6d2",
    "ocr": "28e4dd73818cb537",
    "chart": "39cf77bd3eed0155",
    "human": "5572a7b78536ca1d",
}
FROZEN_PICTURES = {
    "science": "27b23fae53f23534",
    "ocr": "a445ccb44eaea727",
    "chart": "09ec3650d5831f3f",
    "human": "300faced4a5eccb0",
}
PILLOW = "13.0.0"  # the version whose pixels FROZEN_PICTURES holds
DIGESTS = """
import hashlib
from paceline.tasks import scene
digest = hashlib.sha256()
for task in ("science", "ocr", "chart", "human"):
    for i in range(50):
        drawn = scene(task, "train", i)
        digest.update(repr((drawn.exchanges, drawn.slice)).encode())
        digest.update(b"".join(image.tobytes() for image in drawn.images))
print(digest.hexdigest())
"""


drawn_once = cache(scene)


def scenes(task: str, split: Split, number: int) -> list[Scene]:
    return [drawn_once(task, split, i) for i in range(number)]


def text_of(drawn: Scene) -> str:
    return " ".join(e.question + " " + e.answer for e in drawn.exchanges)


def text_digest(task: str) -> str:
    return hashlib.sha256(repr([s.exchanges for s in scenes(task, "train", 50)]).encode()).hexdigest()[:16]


def picture_digest(task: str) -> str:
    pixels = (image.tobytes() for s in scenes(task, "train", 50) for image in s.images)
    return hashlib.sha256(b"".join(pixels)).hexdigest()[:16]


@pytest.mark.parametrize("task", TASKS)
def test_texts_are_those_that_the_target_was_trained_on(task: str) -> None:
    assert text_digest(task) == FROZEN[task]


@pytest.mark.skipif(PIL.__version__ != PILLOW, reason=f"pixels were recorded with Pillow {PILLOW}")
@pytest.mark.parametrize("task", TASKS)
def test_pictures_are_those_that_the_target_was_trained_on(task: str) -> None:
    assert picture_digest(task) == FROZEN_PICTURES[task]


def test_scenes_do_not_depend_on_the_process() -> None:
    """Sets and hashes differ between processes; scenes must not."""
    outputs = set()
    for seed in ("1", "2"):
        path = os.pathsep.join(filter(None, (str(Path(__file__).parents[3] / "src"), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        outputs.add(subprocess.check_output([sys.executable, "-c", DIGESTS], env=environment, text=True))
    assert len(outputs) == 1


@pytest.mark.parametrize("task", TASKS)
def test_numbers_and_splits_give_different_scenes(task: str) -> None:
    seen = {repr(s.exchanges) for split in ("train", "val", "test") for s in scenes(task, split, 20)}
    assert len(seen) == 60


@pytest.mark.parametrize("task", TASKS)
def test_pictures_have_the_side_of_their_family(task: str) -> None:
    for drawn in scenes(task, "test", 40):
        assert [image.size for image in drawn.images] == [(SIDES[task], SIDES[task])]
        assert drawn.longest_edge == SIDES[task]
        assert drawn.images[0].mode == "RGB"
        assert 3 <= len(drawn.exchanges) <= 5


@pytest.mark.parametrize("task", TASKS)
def test_answers_score_full_and_wrong_ones_do_not(task: str) -> None:
    for drawn in scenes(task, "test", 60):
        for e in drawn.exchanges:
            assert e.items
            assert items_found(e.answer, e.items) == len(e.items), e
            assert item_accuracy("qwertz", e.items) == 0.0


@pytest.mark.parametrize("task", TASKS)
def test_answers_of_other_scenes_score_low(task: str) -> None:
    """The items are facts of the picture: an answer in the same wording about another picture misses most of them."""
    by_question: dict[str, list[Exchange]] = {}
    for drawn in scenes(task, "train", 400):
        for e in drawn.exchanges:
            by_question.setdefault(e.question, []).append(e)
    pairs = [pair for group in by_question.values() for pair in pairwise(group)]
    scores = [item_accuracy(one.answer, other.items) for one, other in islice(pairs, 300)]
    assert len(scores) > 100
    assert sum(scores) / len(scores) < 0.45


@pytest.mark.parametrize("task", TASKS)
def test_lengths_of_answers(task: str) -> None:
    lengths = [len(words(e.answer)) for s in scenes(task, "test", 150) for e in s.exchanges]
    assert min(lengths) >= 6
    assert max(lengths) <= 60
    assert 14 <= sum(lengths) / len(lengths) <= 40


@pytest.mark.parametrize("task", TASKS)
def test_grammar(task: str) -> None:
    for drawn in scenes(task, "train", 150):
        for text in (t for e in drawn.exchanges for t in (e.question, e.answer)):
            assert not re.search(r"[{}]|  | [,;.]|[,;:]{2}", text), text
            assert text == text.strip()
            if task != "human":  # glosses in pieces or backward put an article before anything
                assert not re.search(r"\ban [^aeiou]|\ba [aeiou]", text), text
        for e in drawn.exchanges:
            assert re.match(r'["(]?[A-Z0-9]|"[a-z]', e.answer), e.answer
            assert e.question[0].isupper()
            assert e.question[-1] in "?.)" or "(3)" in e.question, e.question


def test_training_shows_no_held_out_material() -> None:
    new = {c.name for c in concepts() if c.hold == "new"}
    hidden = {
        "science": new | set(UNSEEN_ELEMENTS),
        "ocr": set(UNSEEN_WORDS) | set(goods()[1]),
        "chart": {c.lower() for c in UNSEEN_COUNTRIES} | {str(y) for y in TEST_YEARS + VAL_YEARS},
        "human": new,
    }
    for task, names in hidden.items():
        for drawn in scenes(task, "train", 200):
            assert drawn.slice == "seen"
            found = names & set(words(text_of(drawn)))
            assert not found, (task, found)


@pytest.mark.parametrize("task", TASKS)
def test_test_scenes_are_mostly_of_seen_material(task: str) -> None:
    drawn = [s.slice for s in scenes(task, "test", 300)]
    assert 0.75 <= drawn.count("seen") / len(drawn) <= 0.95
    assert drawn.count("style") > 5
    assert drawn.count("new") > 5 or task == "human"


def test_the_new_slice_shows_held_out_material() -> None:
    hidden = {
        "science": {c.name for c in concepts() if c.hold == "new"} | set(UNSEEN_ELEMENTS),
        "ocr": set(UNSEEN_WORDS) | set(goods()[1]),
        "chart": {c.lower() for c in UNSEEN_COUNTRIES},
    }
    for task, names in hidden.items():
        for drawn in scenes(task, "test", 200):
            if drawn.slice == "new":
                assert any(name in text_of(drawn).lower() for name in names), (task, text_of(drawn))


def test_tables_are_split_by_material() -> None:
    years = [set(countries(split, "seen")) for split in ("train", "val", "test")]
    assert len(set.union(*years)) == sum(map(len, years))
    texts = [set(glosses(split)) for split in ("train", "val", "test")]
    assert len(set.union(*texts)) == sum(map(len, texts))
    assert set(UNSEEN_ELEMENTS) == {e.name for e in elements("new")} - {e.name for e in elements("seen")}
    charted = {row.country for rows in countries("test", "new").values() for row in rows}
    assert set(UNSEEN_COUNTRIES) == charted - {r.country for rows in countries("test", "seen").values() for r in rows}
    assert not set(UNSEEN_WORDS) & {*SIGNS, *GROCERIES}


def test_fonts_are_split_and_complete() -> None:
    assert not set(SEEN) & set(UNSEEN)
    assert faces("seen") == faces("new") == SEEN
    assert faces("style") == UNSEEN
    files = {face.file for face in SEEN + UNSEEN}
    assert files == {path.name for path in FOLDER.iterdir()}


def test_every_font_has_its_licence() -> None:
    folder = FOLDER.parent / "LICENSES"
    for name in ("fonts-liberation2", "fonts-cantarell", "fonts-comic-neue", "fonts-courier-prime"):
        assert "OPEN FONT LICENSE" in (folder / f"{name}.txt").read_text(encoding="utf8").upper()
    assert "WordNet" in (folder / "wordnet.txt").read_text(encoding="utf8")
    listed = (folder / "README.md").read_text(encoding="utf8")
    assert {path.name for path in folder.glob("*.txt")} == set(re.findall(r"`([\w.-]+\.txt)`", listed))


def test_definitions_are_of_concepts_that_training_shows() -> None:
    shown = {c.name for c in concepts() if c.hold != "new"}
    assert set(definitions()) <= shown


def test_chart_arithmetic() -> None:
    checked = 0
    for drawn in scenes("chart", "train", 300):
        for e in drawn.exchanges:
            for a, b, c in re.findall(r"(\d+) - (\d+) = (-?\d+)", e.answer):
                assert int(a) - int(b) == int(c), e
                checked += 1
    assert checked > 10


def test_receipt_totals_add_up() -> None:
    checked = 0
    for drawn in scenes("ocr", "train", 300):
        for e in drawn.exchanges:
            if e.question == "Read the receipt from top to bottom.":
                *prices, total = map(int, re.findall(r"\d+", e.answer))
                assert sum(prices) == total, e
                checked += 1
    assert checked > 5


def test_sorted_answers_are_sorted() -> None:
    checked = 0
    for drawn in scenes("science", "train", 200):
        for e in drawn.exchanges:
            if e.kind in ("rising", "falling"):
                numbers = [int(n) for n in re.findall(r"\d+", e.answer)]
                assert numbers == sorted(numbers, reverse=e.kind == "falling"), e
                checked += 1
    assert checked > 50


def test_options_name_the_absent_one() -> None:
    for drawn in scenes("science", "train", 200):
        read = next(e for e in drawn.exchanges if e.kind in ("read", "name"))
        options = next(e for e in drawn.exchanges if e.kind == "options")
        found = re.search(r"\((\d)\) ([a-z -]+) is (missing|not shown)", options.answer)
        if found:
            assert found[2] not in words(read.answer), (read, options)
            assert f"({found[1]}) {found[2]}" in options.question
