"""Each way to ask wrongly: one line that says what is wrong, exit code 2, nothing half written."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unit.cli.checkpoint import Shelf

Run = Callable[..., Any]


def refused(told: Any, *says: str) -> None:
    assert told.code == 2
    assert told.out == ""
    assert told.err.count("\n") == 1, told.err
    for words in says:
        assert words in told.err


def ask(shelf: Shelf, *more: object, target: object = None, prompt: str = "What is it?") -> list[object]:
    return ["generate", "--target", target or shelf.target, "--prompt", prompt, "--max-new-tokens", 4, *more]


def bomb(path: Path) -> Path:
    """A PNG of a few bytes that claims 900 million pixels."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")
    )
    return path


def test_pictures(run: Run, shelf: Shelf, tmp_path: Path) -> None:
    text, broken = tmp_path / "note.png", tmp_path / "broken.png"
    text.write_text("not a picture")
    broken.write_bytes(shelf.picture.read_bytes()[:200])
    refused(run(*ask(shelf, "--image", tmp_path / "none.png")), "none.png", "does not exist")
    refused(run(*ask(shelf, "--image", tmp_path)), "not a file")
    refused(run(*ask(shelf, "--image", text)), "note.png", "not a picture")
    refused(run(*ask(shelf, "--image", broken)), "broken.png", "broken")
    refused(run(*ask(shelf, "--image", bomb(tmp_path / "bomb.png"))), "bomb.png", "pixels")


def test_a_text_model_is_given_a_picture(run: Run, shelf: Shelf) -> None:
    refused(run(*ask(shelf, "--image", shelf.picture, target=shelf.lm)), "text only")


def test_names(run: Run, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.zoo.targets", lambda: {"tiny-native": shelf.target})
    refused(run(*ask(shelf, target="tiny-natif")), "unknown target 'tiny-natif'", "did you mean 'tiny-native'")
    refused(run(*ask(shelf, "--drafter", "lokup")), "unknown drafter 'lokup'", "did you mean 'lookup'")
    refused(run(*ask(shelf, "--coupling", "gumble")), "unknown coupling 'gumble'", "did you mean 'gumbel'")
    refused(run("bench", "--target", shelf.target, "--drafters", "none,lokup"), "did you mean 'lookup'")
    refused(run("bench", "--target", shelf.target, "--tasks", "mmt,chrat"), "did you mean 'chart'")
    refused(run("bench", "--target", shelf.target, "--suite", "m7"), "did you mean 'm6'")


def test_checkpoints(run: Run, shelf: Shelf, tmp_path: Path) -> None:
    refused(run(*ask(shelf, target=tmp_path)), "no config.json")
    refused(run(*ask(shelf, target=shelf.empty)), "no weights")
    refused(run(*ask(shelf, target=shelf.pickled)), "pickle", "safetensors")
    refused(run(*ask(shelf, "--drafter", shelf.pickled)), "pickle", "safetensors")


def test_a_drafter_of_another_vocabulary(run: Run, shelf: Shelf) -> None:
    refused(run(*ask(shelf, "--drafter", shelf.stranger)), "vocabular")


def test_a_prompt_that_is_too_long_or_empty(run: Run, shelf: Shelf) -> None:
    refused(run(*ask(shelf, prompt="word " * 600)), "tokens", "511")
    refused(run(*ask(shelf, prompt="  ")), "--prompt is empty")


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--temperature", "-1", "temperature is -1.0; it must be 0 or more"),
        ("--temperature", "nan", "temperature is nan"),
        ("--top-p", "0", "top_p is 0.0; it must be in (0, 1]"),
        ("--top-p", "1.5", "top_p is 1.5"),
        ("--top-k", "-3", "top_k is -3"),
        ("--min-p", "2", "min_p is 2.0"),
        ("--max-new-tokens", "0", "max_new_tokens is 0; it must be 1 or more"),
        ("--device", "tpu7", "device"),
        ("--dtype", "float23", "unknown dtype 'float23'"),
        ("--stop", "", "empty string"),
    ],
)
def test_values_out_of_range(run: Run, shelf: Shelf, option: str, value: str, says: str) -> None:
    refused(run(*ask(shelf, option, value)), says)


def test_values_of_bench(run: Run, shelf: Shelf, tmp_path: Path) -> None:
    bench = ("bench", "--target", shelf.target, "--tasks", "mmt", "--limit", 1)
    refused(run(*bench, "--temperature", "0,warm"), "--temperature '0,warm'")
    refused(run(*bench, "--temperature", "0,-1"), "temperature is -1.0")
    refused(run(*bench, "--images", tmp_path), "--images goes with --prompts")
    refused(run(*bench, "--prompts", tmp_path / "none.txt"), "no such file")
    refused(run("bench", "--target", shelf.target, "--suite", "text", "--limit", 1000), "--limit is 1000")


def test_texts_that_cannot_be_compared(run: Run, shelf: Shelf) -> None:
    refused(run(*ask(shelf, "--check", "--coupling", "maximal", "--temperature", 1)), "use gumbel")


def test_outputs_are_refused_before_the_work(run: Run, shelf: Shelf, tmp_path: Path) -> None:
    for verb in (ask(shelf), ["bench", "--target", shelf.target]):
        refused(run(*verb, "-o", tmp_path), "is a directory")
        refused(run(*verb, "-o", tmp_path / "no" / "a.json"), "there is no directory")


@pytest.mark.parametrize("verb", ["generate", "bench"])
@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (OSError(28, "No space left on device"), 2)])
def test_nothing_half_written(
    run: Run, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, error: BaseException, code: int
) -> None:
    """Something goes wrong in the middle of decoding, or of writing the file: no file, no document."""
    calls = iter(range(100))
    from paceline.hf.session import Session

    forward = Session.forward

    def sometimes(self: Any, *given: Any) -> Any:
        if next(calls) == 3:
            raise error
        return forward(self, *given)

    monkeypatch.setattr(Session, "forward", sometimes)
    command = ask(shelf, "--max-new-tokens", 9) if verb == "generate" else [
        "bench", "--target", shelf.target, "--drafters", "none", "--tasks", "mmt", "--limit", 2, "--no-hf",
    ]  # fmt: skip
    told = run(*command, "--json", "-o", tmp_path / "a.json")
    assert told.code == code
    assert told.out == ""
    assert ("nothing was written" if code == 130 else "No space left") in told.err
    assert list(tmp_path.iterdir()) == []


def test_train(run: Run, tmp_path: Path) -> None:
    refused(run("train", "-c", tmp_path / "none.toml", "-o", tmp_path / "run"), "no recipe at")
    recipe = tmp_path / "bad.toml"
    recipe.write_text('kind = "traget"\n')
    refused(run("train", "-c", recipe, "-o", tmp_path / "run"), "did you mean 'target'")
    recipe.write_text('kind = "lm"\nsedd = 1\n')
    refused(run("train", "-c", recipe, "-o", tmp_path / "run"), "sedd", "'seed'")
    assert not (tmp_path / "run").exists()
