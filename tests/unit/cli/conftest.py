"""The checkpoint is written once a session; commands run in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from paceline.cli import main
from unit.cli.checkpoint import Shelf, furnish


@dataclass(frozen=True)
class Told:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return furnish(tmp_path_factory.mktemp("shelf"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """Run a command: run("generate", "--prompt", "…")."""

    def command(*arguments: object) -> Told:
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Told(code, out, err)

    return command
