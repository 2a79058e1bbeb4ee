"""The public benchmarks on small files of exactly their schemas: questions, pictures, lengths, scores, bad data."""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from paceline.bench.public import EXPLAIN, SUITES, asks_of, benchmark
from paceline.bench.public.reading import rows
from paceline.bench.traffic import Ask
from paceline.errors import UsageError
from paceline.hf.pictures import load_picture
from unit.bench.public.tables import CHART_ROWS, MMSPEC_ROWS, TABLES, picture, table

Shelf = dict[str, Path]
PARTS = {
    "mmt-bench": ["mmt-bench"],
    "seed-bench": ["image", "video"],
    "scienceqa": ["scienceqa"],
    "ocrbench": ["recognition", "scene", "document", "information", "formula"],
    "chartqa": ["human", "augmented"],
    "mathvista": ["choice", "free"],
    "mmspec": ["general-vqa", "image-captioning"],
}


def asks(shelf: Shelf, name: str, *tasks: str, limit: int = 8) -> dict[str, list[Ask]]:
    return asks_of(name, str(shelf[name]), tasks or ("all",), limit)


def text_of(ask: Ask) -> str:
    return ask.messages[0]["content"][-1]["text"]


def seen(source: Any) -> tuple[Any, ...]:
    """Size and first pixel of a picture or of the file of this name."""
    shown = load_picture(source)
    return shown.size, shown.getpixel((0, 0))


def pictures_of(ask: Ask) -> list[Any]:
    return [part["image"] for part in ask.messages[0]["content"][:-1]]


def test_the_schemas_are_the_published_ones() -> None:
    for name, (features, _) in TABLES.items():
        assert set(benchmark(name).columns) <= set(features), name
    assert set(benchmark("mmspec").columns) == set(MMSPEC_ROWS[0])
    assert set(SUITES) == {*TABLES, "mmspec"}


@pytest.mark.parametrize("name", SUITES)
def test_each_part_is_asked_in_two_lengths(shelf: Shelf, name: str) -> None:
    found = asks(shelf, name)
    assert list(found) == [*PARTS[name], *(f"{part}-explain" for part in PARTS[name])]
    for part in PARTS[name]:
        for short, long in zip(found[part], found[f"{part}-explain"], strict=True):
            assert (short.task, long.task) == (part, f"{part}-explain")
            assert text_of(long).endswith(EXPLAIN)
            assert EXPLAIN not in text_of(short)
            assert text_of(short).splitlines()[0] == text_of(long).splitlines()[0]
            assert short.pictures == long.pictures >= 1


def test_questions(shelf: Shelf) -> None:
    first, second = asks(shelf, "mmt-bench", "mmt-bench")["mmt-bench"]
    assert text_of(first).startswith("What is it?\nA. a cat\nB. a dog\nC. a cow\nAnswer with the letter")
    assert text_of(second).count("\n") == 5
    science = asks(shelf, "scienceqa", "scienceqa")["scienceqa"]
    assert text_of(science[0]).startswith("Feel it.\nWhich is the coldest?\nA. ice\nB. steam\n")
    assert text_of(science[1]).startswith("Which is a mammal?\n")
    seed = asks(shelf, "seed-bench", "video")["video"]
    assert [picture.size for picture in pictures_of(seed[0])] == [(8 + i, 8) for i in range(4)]
    math = asks(shelf, "mathvista", "free")["free"]
    assert text_of(math[0]).startswith("How long? (unit: cm)\n")
    assert text_of(math[1]).startswith("How many?\n")
    (ocr,) = asks(shelf, "ocrbench", "scene")["scene"]
    assert text_of(ocr) == "Read this (Scene Text-centric VQA)."
    (spec,) = asks(shelf, "mmspec", "general-vqa")["general-vqa"]
    assert text_of(spec) == "What plant is it?"
    assert pictures_of(spec)[0].endswith("images/general_vqa/img_000001.png")
    assert seen(pictures_of(spec)[0])[0] == (8, 8)


def test_limit_counts_for_each_part(shelf: Shelf) -> None:
    found = asks(shelf, "chartqa", "human", "augmented", limit=1)
    assert {task: len(some) for task, some in found.items()} == {"human": 1, "augmented": 1}
    assert text_of(found["human"][0]).startswith("How much?")
    assert len(asks(shelf, "chartqa", "human-explain", limit=5)["human-explain"]) == 2


def test_reading_stops_when_the_parts_are_full(tmp_path: Path) -> None:
    file = tmp_path / "chart.jsonl"
    good = {**CHART_ROWS[0], "image": "a.png"}
    picture().save(tmp_path / "a.png")
    file.write_text(json.dumps(good) + "\nnot JSON\n")
    assert len(asks_of("chartqa", str(file), ["human"], 1)["human"]) == 1
    with pytest.raises(UsageError, match="line 2 is not JSON"):
        asks_of("chartqa", str(file), ["human"], 2)


@pytest.mark.parametrize(
    ("name", "task", "right", "wrong"),
    [
        ("mmt-bench", "mmt-bench", ["B", "B. a dog", "(B)", "It is a dog.", "The answer is B.", "Option B, I think"],
         ["A", "a cat", "The answer is A, not option B", "a cat or a dog", ""]),
        ("seed-bench", "image", ["C", "three", "Answer: C"],
         ["A three-legged table", "four", "C or D? The answer is D"]),
        ("scienceqa", "scienceqa", ["A", "A. ice", "ice is the coldest"], ["B", "steam", "A kettle gives steam"]),
        ("ocrbench", "recognition", ["stop", "It says STOP", "halt!"], ["shop", ""]),
        ("ocrbench", "formula", ["x+1", "X + 1 = 2"], ["x - 1"]),
        ("chartqa", "human", ["40", "41.9", "About 40 in 2019, so 40"], ["42.1", "none", "40 people of 100"]),
        ("chartqa", "augmented", ["12.5", "it is 12.6"], ["13.2"]),
        ("mathvista", "free", ["1.2", "about 1.21 cm", "1.0 + 0.2 = 1.2"], ["1.3", "long"]),
        ("mathvista", "choice", ["B", "60°", "The answer is B"], ["A", "30°", "30° or 60°"]),
    ],
)  # fmt: skip
def test_scores(shelf: Shelf, name: str, task: str, right: list[str], wrong: list[str]) -> None:
    ask = asks(shelf, name, task)[task][0]
    assert {told: ask.score(told) for told in right} == dict.fromkeys(right, 1.0)
    assert {told: ask.score(told) for told in wrong} == dict.fromkeys(wrong, 0.0)


def test_other_answers(shelf: Shelf) -> None:
    human = asks(shelf, "chartqa", "human")["human"][1]
    assert [human.score(told) for told in ("Peru", "peru.", "It is Peru", "Chile")] == [1.0, 1.0, 1.0, 0.0]
    whole = asks(shelf, "mathvista", "free")["free"][1]
    assert [whole.score(told) for told in ("7", "7.2", "3 + 4 = 7", "8")] == [1.0, 1.0, 1.0, 0.0]
    assert asks(shelf, "mmspec", "general-vqa")["general-vqa"][0].score("moss") is None


def test_answers_kept_back(tmp_path: Path) -> None:
    held = [{**row, "answer": None} for row in TABLES["mmt-bench"][1]]
    table("mmt-bench", held).to_parquet(tmp_path / "x.parquet")
    found = asks_of("mmt-bench", str(tmp_path / "x.parquet"), ["mmt-bench"], 2)
    assert [ask.score("B") for ask in found["mmt-bench"]] == [None, None]


def in_shards(name: str, home: Path) -> Path:
    """As the hub lays tables out: `data/test-00000-of-00002.parquet`, other splits beside them."""
    data = home / "data"
    data.mkdir()
    own = TABLES[name][1]
    for i, some in enumerate((own[:1], own[1:])):
        table(name, some).to_parquet(data / f"test-0000{i}-of-00002.parquet")
    table(name, own[:1]).to_parquet(data / "train-00000-of-00001.parquet")
    return home


def saved(name: str, home: Path) -> Path:
    table(name).save_to_disk(home / "saved")
    return home / "saved"


def saved_splits(name: str, home: Path) -> Path:
    from datasets import DatasetDict

    DatasetDict({"train": table(name, TABLES[name][1][:1]), "test": table(name)}).save_to_disk(home / "splits")
    return home / "splits"


def as_json(name: str, home: Path) -> Path:
    for i, row in enumerate(TABLES[name][1]):
        row["image"].save(home / f"{i}.png")
    told = [{**row, "image": f"{i}.png"} for i, row in enumerate(TABLES[name][1])]
    (home / "chart.json").write_text(json.dumps(told))
    return home


def in_base64(name: str, home: Path) -> Path:
    def packed(image: Image.Image) -> str:
        data = io.BytesIO()
        image.save(data, "PNG")
        return base64.b64encode(data.getvalue()).decode()

    told = [{**row, "image": [packed(row["image"])]} for row in TABLES[name][1]]
    (home / "chart.jsonl").write_text("\n".join(map(json.dumps, told)))
    return home / "chart.jsonl"


@pytest.mark.parametrize("lay", [in_shards, saved, saved_splits, as_json, in_base64])
def test_every_form_gives_the_same_questions(lay: Callable[[str, Path], Path], shelf: Shelf, tmp_path: Path) -> None:
    expected = asks(shelf, "chartqa")
    found = asks_of("chartqa", str(lay("chartqa", tmp_path)), ["all"], 8)
    assert {task: list(map(text_of, some)) for task, some in found.items()} == {
        task: list(map(text_of, some)) for task, some in expected.items()
    }
    for part in PARTS["chartqa"]:
        for one, other in zip(found[part], expected[part], strict=True):
            (left,), (right,) = pictures_of(one), pictures_of(other)
            assert seen(left) == seen(right)


def test_the_configuration_named_by_the_benchmark_is_read(tmp_path: Path) -> None:
    for config, number in (("ScienceQA-FULL", 1), ("ScienceQA-IMG", 2)):
        (tmp_path / config).mkdir()
        some = TABLES["scienceqa"][1][:number]
        table("scienceqa", some).to_parquet(tmp_path / config / "test-00000-of-00001.parquet")
    assert len(asks_of("scienceqa", str(tmp_path), ["scienceqa"], 8)["scienceqa"]) == 2


def broken(**change: Any) -> dict[str, Any]:
    row = {"type": "human_test", "question": "How much?", "answer": "40", "image": "a.png"} | change
    return {key: value for key, value in row.items() if value is not ...}


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (broken(answer=...), "line 2: no column 'answer' (ChartQA has type, question, answer, image; this row has"),
        (broken(question=..., questions="How?"), "no column 'question'; is it 'questions'?"),
        (broken(question=3), "line 2: column 'question' is 3; expected text"),
        (broken(question=" "), "column 'question' is ' '; expected text"),
        (broken(type="robot"), "column 'type' is 'robot'; expected one of human_test, augmented_test"),
        (broken(image="b.png"), "column 'image' is 'b.png'; expected a picture below"),
        (broken(image="../out.png"), "column 'image' is '../out.png'; expected a picture below"),
        (broken(image=None), "column 'image' is None; expected a picture, or a list of pictures"),
        (broken(image=[]), "column 'image' is []; expected a picture"),
        (broken(image="QUJD" * 40), "line 2: column 'image' is not a picture of a known format"),
        (broken(image="data:image/png;base64"), "the data: URL has no comma"),
        (["How much?"], "line 2 is ['How much?']; expected an object"),
    ],
)
def test_a_row_of_another_shape(row: Any, says: str, tmp_path: Path) -> None:
    picture().save(tmp_path / "a.png")
    picture().save(tmp_path.parent / "out.png")
    file = tmp_path / "chart.jsonl"
    file.write_text(f"{json.dumps(broken())}\n{json.dumps(row)}\n")
    with pytest.raises(UsageError) as told:
        asks_of("chartqa", str(file), ["human"], 8)
    assert says in str(told.value)
    assert "chart.jsonl" in str(told.value) or "data: URL" in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("mmt-bench", {"B": None}, "row 1: column 'B' is None; expected text"),
        ("mmt-bench", {"answer": "F"}, "column 'answer' is 'F'; expected one of A, B, C"),
        ("seed-bench", {"answer": "E"}, "column 'answer' is 'E'; expected one of A, B, C, D"),
        ("seed-bench", {"data_type": "sound"}, "column 'data_type' is 'sound'; expected one of image, video"),
        ("scienceqa", {"answer": 2}, "column 'answer' is 2; expected a whole number from 0 to 1"),
        ("scienceqa", {"choices": ["ice"]}, "expected a list of 2 texts or more"),
        ("scienceqa", {"image": None}, "column 'image' is None; expected a picture"),
        ("ocrbench", {"question_type": "Poetry"}, "column 'question_type' is 'Poetry'"),
        ("ocrbench", {"answer": []}, "column 'answer' is []; expected a list of 1 texts"),
        ("mathvista", {"answer_type": "poem"}, "column 'answer_type' is 'poem'; expected one of integer"),
    ],
)
def test_a_table_with_a_wrong_value(name: str, change: dict[str, Any], says: str, tmp_path: Path) -> None:
    table(name, [TABLES[name][1][0] | change]).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(UsageError) as told:
        asks_of(name, str(tmp_path / "x.parquet"), ["all"], 8)
    assert says in str(told.value)
    assert "x.parquet, row 1" in str(told.value)


def test_a_table_of_another_benchmark(shelf: Shelf) -> None:
    with pytest.raises(UsageError, match=r"chartqa.parquet, row 1: no column 'dataset' \(OCRBench has dataset, "):
        asks_of("ocrbench", str(shelf["chartqa"]), ["all"], 8)


def test_sources_that_are_not_there(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n")
    (tmp_path / "empty.jsonl").write_text("\n")
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "y.json").write_bytes(b"\xff\xfe")
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "bare").mkdir()
    for source, says in {
        "nowhere": "--data nowhere: no such file or directory; expected a .jsonl",
        str(tmp_path / "x.csv"): "unknown form .csv",
        str(tmp_path / "empty.jsonl"): "holds no rows",
        str(tmp_path / "x.json"): "holds a dict; expected a list",
        str(tmp_path / "y.json"): "not a text file in UTF-8",
        str(tmp_path / "x.parquet"): "x.parquet cannot be read",
        str(tmp_path / "bare"): "holds 0 .jsonl or .json files and no .parquet",
    }.items():
        with pytest.raises(UsageError) as told:
            asks_of("chartqa", source, ["all"], 8)
        assert says in str(told.value)
        assert "\n" not in str(told.value)
    shutil.copy(shelf["chartqa"], tmp_path / "bare" / "x.parquet")
    with pytest.raises(UsageError, match="no column"):
        asks_of("mmspec", str(tmp_path / "bare"), ["all"], 8)


def test_the_hub_is_asked_only_for_an_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline, an id says that there is neither a path nor a hub; the published table is the default."""
    import datasets

    asked: list[Any] = []

    def names(source: str, config: str | None) -> list[str]:
        asked.append((source, config))
        raise ConnectionError("offline")

    monkeypatch.setattr(datasets, "get_dataset_split_names", names)
    for data in (None, "some/where"):
        with pytest.raises(UsageError, match="no such path, and the hub gave: offline; give a local copy"):
            asks_of("scienceqa", data, ["all"], 8)
    assert asked == [("lmms-lab/ScienceQA", "ScienceQA-IMG"), ("some/where", "ScienceQA-IMG")]
    with pytest.raises(UsageError, match="MMSpec is published as files: say with --data"):
        asks_of("mmspec", None, ["all"], 8)


def test_the_hub_gives_the_first_split_that_has_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def load(source: str, config: str | None, *, split: str, streaming: bool) -> Any:
        assert (split, streaming) == ("val", True)
        return table("mmt-bench").to_iterable_dataset()

    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda source, config: ["test", "val"])
    monkeypatch.setattr(datasets, "load_dataset", load)
    assert len(asks_of("mmt-bench", None, ["mmt-bench"], 8)["mmt-bench"]) == 2
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda source, config: ["train"])
    with pytest.raises(UsageError, match="has the splits train; expected one of val, test"):
        list(rows("some/where", None, ("val", "test")))


def test_unknown_tasks_and_names(shelf: Shelf) -> None:
    with pytest.raises(UsageError, match="unknown task of the suite chartqa 'humane'; did you mean 'human'"):
        asks_of("chartqa", "nowhere", ["humane"], 8)
    with pytest.raises(UsageError, match="unknown task of the suite mmspec 'general-vq'; did you mean 'general-vqa'"):
        asks(shelf, "mmspec", "general-vq")
    with pytest.raises(UsageError, match="unknown public benchmark 'chart-qa'; did you mean 'chartqa'"):
        benchmark("chart-qa")


def test_parts_that_the_data_lack(tmp_path: Path) -> None:
    table("chartqa", CHART_ROWS[:2]).to_parquet(tmp_path / "x.parquet")
    assert list(asks_of("chartqa", str(tmp_path / "x.parquet"), ["human"], 8)) == ["human"]
    with pytest.raises(UsageError, match="holds no questions of augmented among its 2 rows"):
        asks_of("chartqa", str(tmp_path / "x.parquet"), ["all"], 8)
