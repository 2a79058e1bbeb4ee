"""A server in this process on a loopback port, over the small random model in float64: its texts are exact."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from paceline.drafters import method
from paceline.serve.settings import Settings
from paceline.targets import load_target
from unit.cli.checkpoint import Shelf, furnish

NAME = "tiny"


@dataclass(frozen=True)
class Live:
    """A running server."""

    server: Any
    process: Any
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def idle(self, seconds: float = 10.0) -> bool:
        """Whether the engine has nothing left to do within this time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not self.server.engine.running and not self.server.engine.waiting:
                return True
            time.sleep(0.01)
        return False


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return furnish(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def target(shelf: Shelf) -> Any:
    return load_target(str(shelf.target), dtype=torch.float64)


@pytest.fixture(scope="session")
def start(target: Any) -> Iterator[Callable[..., Live]]:
    """Start a server: start(drafter="lookup", rows=4 …). All end with the tests."""
    for package in ("fastapi", "uvicorn", "prometheus_client"):
        pytest.importorskip(package, reason="the extra `serve` is not installed")
    from paceline.serve.run import build, prepare

    with ExitStack() as running:

        def begin(drafter: Any = None, **settings: Any) -> Live:
            given: dict[str, Any] = {"name": NAME, "grace_s": 5.0, **settings}
            server = build(target, drafter or method("lookup")(), Settings(**given))
            process, listener = prepare(server, "127.0.0.1", 0)
            thread = threading.Thread(target=process.run, kwargs={"sockets": [listener]}, daemon=True)
            thread.start()

            def end() -> None:
                process.should_exit = True
                thread.join(20)
                listener.close()

            running.callback(end)
            while not process.started:
                time.sleep(0.01)
            return Live(server, process, listener.getsockname()[1])

        yield begin


@pytest.fixture(scope="session")
def live(start: Callable[..., Live], shelf: Shelf) -> Live:
    """The server that most tests share."""
    return start(rows=4, queue=16, media_path=shelf.picture.parent, media_hosts=("127.0.0.1",))
