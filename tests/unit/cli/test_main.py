"""Exit codes, one line for what the user can mend, and a light door."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.cli import guarded, main, output
from paceline.errors import UsageError

Run = Callable[..., Any]


def raising(error: BaseException) -> Callable[[], int]:
    def command() -> int:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UsageError("no\nsuch   thing"), 2, "paceline: no such thing\n"),
        (FileNotFoundError(2, "No such file or directory", "x.png"), 2, "paceline: No such file or directory: x.png\n"),
        (PermissionError(13, "Permission denied", "/root"), 2, "paceline: Permission denied: /root\n"),
        (KeyboardInterrupt(), 130, "paceline: interrupted; nothing was written\n"),
        (KeyboardInterrupt("stopped at step 3"), 130, "paceline: stopped at step 3\n"),
    ],
)
def test_errors_become_a_line_and_a_code(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(raising(error)) == code
    assert capsys.readouterr() == ("", line)


def test_our_own_errors_are_not_dressed_up() -> None:
    with pytest.raises(KeyError):
        guarded(raising(KeyError("bug")))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["genrate"], "No such command 'genrate'"),
        (["generate"], "Missing option '--prompt'"),
        (["generate", "--promt", "x"], "No such option: --promt"),
        (["generate", "--prompt", "x", "--seed", "one"], "Invalid value for '--seed'"),
        (["bench", "--limit", "0"], "Invalid value for '--limit'"),
    ],
)
def test_what_cannot_be_parsed(run: Run, arguments: list[str], says: str) -> None:
    told = run(*arguments)
    assert told.code == 2
    assert told.out == ""
    assert says in told.err
    assert told.err.count("\n") == 1


@pytest.mark.parametrize("verb", ["demo", "generate", "bench", "models", "train"])
def test_each_verb_has_help(run: Run, verb: str) -> None:
    told = run(verb, "--help")
    assert told.code == 0
    assert "Usage: paceline " + verb in told.out


def test_the_version(run: Run) -> None:
    import paceline

    assert run("--version").out == f"paceline {paceline.__version__}\n"


def test_no_verb_shows_what_there_is(run: Run) -> None:
    told = run()
    assert told.code == 2
    assert "generate" in told.out + told.err


def test_help_loads_no_model_library() -> None:
    code = (
        "import sys\nfrom paceline.cli import main\n"
        "for verb in ('', 'demo', 'generate', 'bench', 'models', 'train'):\n"
        "    assert main([*verb.split(), '--help']) == 0\n"
        "heavy = {'torch', 'transformers', 'numpy', 'PIL'} & set(sys.modules)\nassert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{sys.executable} -m paceline.cli --help | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("0", "141")
    assert "Traceback" not in done.stderr


def test_files_are_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    output.write_whole(path, "first")

    def crash(source: object, target: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output.os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        output.write_whole(path, "second")
    assert path.read_text() == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


def test_numbers_that_json_lacks_become_null() -> None:
    assert output.to_json({"a": float("nan"), "b": [float("inf"), 1.5], "c": (Path("x"),)}) == (
        '{\n  "a": null,\n  "b": [\n    null,\n    1.5\n  ],\n  "c": [\n    "x"\n  ]\n}\n'
    )


def test_main_reads_the_process_arguments(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["paceline", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("paceline ")
