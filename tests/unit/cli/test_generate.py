"""`paceline generate` on a random model: the document, the stream, the check, the config file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from paceline.cli import display
from paceline.identity import Comparison
from unit.cli.checkpoint import Shelf

Run = Callable[..., Any]
KEYS = {"text", "token_ids", "tau", "tau_eff", "rounds", "n_tokens", "phases_ms"}
ASK = ("generate", "--prompt", "List everything in the picture.", "--max-new-tokens", "14")


@pytest.mark.parametrize("drafter", ["none", "lookup", "lm"])
@pytest.mark.parametrize("temperature", ["0", "1"])
def test_the_document(run: Run, shelf: Shelf, drafter: str, temperature: str) -> None:
    where = shelf.lm if drafter == "lm" else drafter
    told = run(
        *ASK, "--image", shelf.picture, "--target", shelf.target, "--drafter", where, "--temperature", temperature,
        "--seed", "7", "--json", "--check",
    )  # fmt: skip
    assert told.code == 0
    document = json.loads(told.out)
    assert set(document) >= KEYS | {"identical", "ties", "faults"}
    assert document["identical"] is True
    assert document["faults"] == document["ties"] == 0
    assert document["n_tokens"] == len(document["token_ids"]) == 14
    assert len(set(document["token_ids"])) > 3
    assert document["tau"] == pytest.approx(1 + sum(document["survival"]))
    assert document["phases_ms"]["vision"] > 0


def test_without_check_nothing_is_claimed(run: Run, shelf: Shelf) -> None:
    document = json.loads(run(*ASK, "--target", shelf.target, "--json").out)
    assert not {"identical", "ties", "faults"} & set(document)


def test_pictures_count_and_order(run: Run, shelf: Shelf) -> None:
    def prompt_tokens(*images: object) -> int:
        given = [part for image in images for part in ("--image", image)]
        told = run(*ASK, *given, "--target", shelf.target, "--longest-edge", "96", "--json")
        return json.loads(told.out)["prompt_tokens"]

    none, one, two = prompt_tokens(), prompt_tokens(shelf.picture), prompt_tokens(shelf.picture, shelf.picture)
    assert one - none == two - one > 36


def test_the_stream_is_the_text(run: Run, shelf: Shelf) -> None:
    quiet = run(*ASK, "--target", shelf.target, "--drafter", shelf.lm, "--quiet")
    document = json.loads(run(*ASK, "--target", shelf.target, "--drafter", shelf.lm, "--json").out)
    assert quiet.out == document["text"] + "\n"
    assert quiet.err == ""


def test_the_last_line_says_what_it_was_worth(run: Run, shelf: Shelf) -> None:
    told = run(*ASK, "--target", shelf.target, "--drafter", shelf.lm)
    assert "τ " in told.err
    assert "tokens/s" in told.err
    assert "× over plain decoding" in told.err
    assert told.err.rstrip().endswith("identical: yes")


def test_a_stop_string_ends_the_text(run: Run, shelf: Shelf) -> None:
    text = json.loads(run(*ASK, "--target", shelf.target, "--json").out)["text"]
    stop = text[4:6]
    stopped = json.loads(run(*ASK, "--target", shelf.target, "--json", "--stop", stop).out)
    assert stopped["text"] == text[: text.index(stop)]


@pytest.mark.parametrize(("found", "code"), [((1, 0), 0), ((0, 1), 1)])
def test_a_fault_is_exit_code_one_and_a_tie_is_not(
    run: Run, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, found: tuple[int, int], code: int
) -> None:
    monkeypatch.setattr("paceline.identity.compare", lambda *given: Comparison(False, *found, 3, 0.1, 0.01))
    told = run(*ASK, "--target", shelf.target, "--drafter", shelf.lm, "--json", "--check")
    assert told.code == code
    document = json.loads(told.out)
    assert (document["identical"], document["ties"], document["faults"]) == (False, *found)
    told = run(*ASK, "--target", shelf.target, "--drafter", shelf.lm)
    assert ("fault" if code else "tie") in told.err


def test_the_output_file_is_the_document(run: Run, shelf: Shelf, tmp_path: Path) -> None:
    told = run(*ASK, "--target", shelf.target, "--json", "-o", tmp_path / "a.json")
    assert (tmp_path / "a.json").read_text() == told.out
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_config_file_gives_defaults(run: Run, shelf: Shelf, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(
        f'target = "{shelf.target}"\nimage = ["{shelf.picture}"]\nmax-new-tokens = 5\ntop_p = 0.9\ntemperature = 1.0\n'
    )
    document = json.loads(run("generate", "-c", config, "--prompt", "What is it?", "--json").out)
    assert document["n_tokens"] == 5
    assert document["temperature"] == 1.0
    assert document["phases_ms"]["vision"] > 0
    over = run("generate", "-c", config, "--prompt", "What is it?", "--json", "--max-new-tokens", "3")
    assert json.loads(over.out)["n_tokens"] == 3


def test_a_table_of_the_config_file_is_for_its_verb(run: Run, shelf: Shelf, tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'[generate]\ntarget = "{shelf.target}"\nmax-new-tokens = 4\n[bench]\nlimit = 3\n')
    assert json.loads(run("generate", "-c", config, "--prompt", "x", "--json").out)["n_tokens"] == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("temprature = 1\n", "did you mean 'temperature'"),
        ("temperature = = 1\n", "not valid TOML"),
        ('temperature = "warm"\n', "Invalid value for '--temperature'"),
    ],
)
def test_a_config_file_that_cannot_be_used(run: Run, tmp_path: Path, text: str, says: str) -> None:
    config = tmp_path / "c.toml"
    config.write_text(text)
    told = run("generate", "-c", config, "--prompt", "x")
    assert told.code == 2
    assert says in told.err
    assert told.err.count("\n") == 1


def test_accepted_drafts_stand_out(run: Run, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is coloured are the accepted guesses, and all letters are there."""
    screens: list[display.Screen] = []
    made = display.Screen.__init__

    def init(self: display.Screen, **given: Any) -> None:
        made(self, **given)
        self.text = Console(force_terminal=True, record=True, highlight=False, soft_wrap=True)
        screens.append(self)

    monkeypatch.setattr(display.Screen, "__init__", init)
    told = run(*ASK, "--target", shelf.target, "--drafter", shelf.target, "--no-check")
    assert told.code == 0
    document = json.loads(run(*ASK, "--target", shelf.target, "--drafter", shelf.target, "--json").out)
    assert document["tau"] > 2  # the target as its own drafter: every guess is right
    spoken = re.sub(r"\x1b\[[0-9;]*m", "", told.out)
    assert spoken == display.harmless(document["text"]) + "\n"
    coloured = re.findall(r"\x1b\[1;4;32m(.*?)\x1b\[0m", told.out, re.DOTALL)
    guesses = sum(document["accepted"])
    assert 2 <= len(coloured) <= document["rounds"]
    assert len("".join(coloured)) <= len(spoken) * guesses / 10
    assert len("".join(coloured)) >= guesses / 4


def test_a_model_cannot_steer_the_terminal() -> None:
    assert display.harmless("a\x1b[2Jb\x07\x9bc\r\n\té漢🙂") == "a[2Jbc\n\té漢🙂"
