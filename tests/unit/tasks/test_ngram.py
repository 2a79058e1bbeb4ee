"""The n-gram table that measures how predictable answers are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.tasks import FAMILIES
from paceline.tasks.ngram import GOAL, Table, ceiling, main, measure, plain_tokens, read_answers, run


def test_tokens_are_words_digits_and_marks() -> None:
    assert plain_tokens("Peru 71, (red)!") == ["peru", "7", "1", ",", "(", "red", ")", "!"]


def test_table_learns_and_backs_off() -> None:
    table = Table()
    table.learn([["a", "b", "c"], ["a", "b", "c"], ["x", "b", "d"]])
    assert table.guess(("<start>", "a", "b")) == "c"
    assert table.guess(("x", "b")) == "d"
    assert table.guess(("unknown", "b")) == "c"  # only the last token is known
    with pytest.raises(ValueError, match="empty"):
        Table().guess(("a",))


def test_hit_rate_of_known_and_of_unknown_text() -> None:
    table = Table()
    table.learn([["a", "b", "c"]])
    known = measure("chart", table, [["a", "b", "c"]])
    assert known.hit_rate == 1.0
    assert known.mean_run == 4.0
    unknown = measure("chart", table, [["z", "y", "x"]])
    assert unknown.hit_rate == 0.0
    mixed = measure("chart", table, [["a", "b", "x"]])
    assert mixed.hit_rate == 0.5
    with pytest.raises(ValueError, match="no answers"):
        measure("chart", table, [])


def test_longer_contexts_are_told_apart_only_by_longer_tables() -> None:
    answers = [["a", "m", "n", "b"], ["c", "m", "n", "d"]]
    short, long = Table(order=3), Table(order=4)
    short.learn(answers)
    long.learn(answers)
    assert measure("chart", long, answers).hit_rate > measure("chart", short, answers).hit_rate


@pytest.mark.parametrize("task", FAMILIES)
def test_every_question_fixes_the_wording_of_its_answer(task: str) -> None:
    assert ceiling(task) == 1.0


@pytest.mark.parametrize("task", [name for name in FAMILIES if name != "human"])
def test_answers_are_not_predictable_without_the_picture(task: str) -> None:
    """The goal is GOAL with a table of 1,000 scenes; fewer scenes here, so the bound has no slack to give."""
    [rate] = run([task], scenes=250, limit=50)
    assert 0.1 < rate.hit_rate <= GOAL


def test_command_prints_json_for_given_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text(json.dumps({"task": "chart", "answer": "Peru 71, Chad 50."}) + "\n", encoding="utf8")
    main(["--tasks", "chart,ocr", "--scenes", "20", "--answers", str(file), "--json"])
    [record] = json.loads(capsys.readouterr().out)
    assert record["task"] == "chart"
    assert record["answers"] == 1
    assert list(read_answers(file, plain_tokens)) == ["chart"]
