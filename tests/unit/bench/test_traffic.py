"""What is asked: suites, tasks, a user's own files."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from paceline.bench.traffic import OWN, SIX, Ask, asks_of, in_geomean, message, own_asks, tasks_of
from paceline.errors import UsageError


def text_of(ask: Ask) -> str:
    return ask.messages[0]["content"][-1]["text"]


def test_tasks() -> None:
    assert tasks_of("m6", ["all"]) == tasks_of("m6", []) == [*SIX, "long", "human"]
    assert tasks_of("m6", ["chart", "mmt", "chart"]) == ["chart", "mmt"]
    assert len(tasks_of("text", ["all"])) >= 3
    assert [in_geomean("m6", task) for task in ("mmt", "long", "human")] == [True, False, False]
    assert in_geomean("text", "list")


@pytest.mark.parametrize(
    ("suite", "tasks", "says"),
    [
        ("visual", [], "unknown suite 'visual'"),
        ("m6", ["mmt", "se"], "unknown task"),
        ("text", ["mmt"], "unknown task"),
    ],
)
def test_unknown_names(suite: str, tasks: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        tasks_of(suite, tasks)


def test_questions_of_the_suite_come_with_pictures_and_facts() -> None:
    for task, pictures, edge in (("mmt", 1, 96), ("ocr", 1, 192)):
        asks = asks_of("m6", task, 3)
        assert [ask.pictures for ask in asks] == [pictures] * 3
        assert {ask.longest_edge for ask in asks} == {edge}
        assert all(ask.items for ask in asks)
        assert len({text_of(ask) for ask in asks}) == 3
    assert asks_of("m6", "mmt", 3, longest_edge=192)[0].longest_edge == 192
    assert [text_of(ask) for ask in asks_of("m6", "mmt", 2)] == [text_of(ask) for ask in asks_of("m6", "mmt", 5)[:2]]


def test_right_answers_score_one() -> None:
    from paceline.tasks import prompts

    for sample, ask in zip(prompts("mmt", "test", 3), asks_of("m6", "mmt", 3), strict=True):
        assert ask.score(sample.exchange.answer) == 1.0
        assert ask.score("???") == 0.0


def test_the_text_suite_has_no_pictures_and_no_right_answers() -> None:
    asks = asks_of("text", "list", 4)
    assert {ask.pictures for ask in asks} == {0}
    assert {ask.score("anything") for ask in asks} == {None}
    with pytest.raises(UsageError, match="--limit is 500"):
        asks_of("text", "list", 500)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    images = tmp_path / "images"
    images.mkdir()
    for name in ("b.png", "a.JPG", "c.png"):
        Image.new("RGB", (8, 8)).save(images / name)
    (images / "notes.txt").write_text("not a picture")
    return images


def test_lines_and_pictures_are_paired_in_order(tmp_path: Path, folder: Path) -> None:
    prompts = tmp_path / "p.txt"
    prompts.write_text("one\n\n  two  \n")
    asks = own_asks(prompts, folder, None, 96)
    pictures = [Path(ask.messages[0]["content"][0]["image"]).name for ask in asks]
    assert [(text_of(ask), picture) for ask, picture in zip(asks, pictures, strict=True)] == [
        ("one", "a.JPG"), ("two", "b.png"), ("one", "c.png"),
    ]  # fmt: skip
    assert {ask.longest_edge for ask in asks} == {96}
    assert [text_of(ask) for ask in own_asks(prompts, None, 1, None)] == ["one"]


def test_records_name_their_pictures(tmp_path: Path, folder: Path) -> None:
    prompts = tmp_path / "p.jsonl"
    prompts.write_text(
        '{"prompt": "both", "images": ["a.JPG", "b.png"], "items": ["red", 2]}\n{"prompt": "none"}\n'
        '{"prompt": "one", "images": "c.png"}\n'
    )
    asks = own_asks(prompts, folder, None, None)
    assert [ask.pictures for ask in asks] == [2, 0, 1]
    assert asks[0].score("Red 2 cars") == 1.0
    assert asks[1].score("anything") is None
    assert {ask.task for ask in asks} == {OWN}


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("p.txt", "\n  \n", "is empty"),
        ("p.jsonl", "what?\n", "line 1 is not JSON"),
        ("p.jsonl", '{"prompt": "x"}\n{"question": "y"}\n', 'line 2 has no "prompt"'),
        ("p.jsonl", '{"prompt": "x", "images": ["z.png"]}\n', "no picture"),
        ("p.jsonl", "[1]\n", 'line 1 has no "prompt"'),
    ],
)
def test_files_of_another_shape(tmp_path: Path, folder: Path, name: str, text: str, says: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=says):
        own_asks(tmp_path / name, folder, None, None)


def test_pictures_need_a_place(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "x", "images": "a.JPG"}\n')
    with pytest.raises(UsageError, match="say with --images where they are"):
        own_asks(tmp_path / "p.jsonl", None, None, None)
    with pytest.raises(UsageError, match="no such directory"):
        own_asks(tmp_path / "p.jsonl", tmp_path / "none", None, None)
    (tmp_path / "p.txt").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(UsageError, match="not a text file"):
        own_asks(tmp_path / "p.txt", None, None, None)
    (tmp_path / "p.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no picture"):
        own_asks(tmp_path / "p.txt", tmp_path / "empty", None, None)


def test_pictures_come_first() -> None:
    [told] = message("What?", [Path("a.png"), Image.new("RGB", (2, 2))])
    assert [part["type"] for part in told["content"]] == ["image", "image", "text"]
    assert told["content"][0]["image"] == "a.png"
