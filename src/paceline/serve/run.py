"""The process around the application: a socket, impatience with half-sent headers, and an orderly end."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Any

from paceline.core import Drafter
from paceline.errors import UsageError
from paceline.serve.app import Server
from paceline.serve.engine import Engine
from paceline.serve.media import Media
from paceline.serve.metrics import Metrics
from paceline.serve.settings import Settings

CONNECTIONS = 1000  # at once; one more is answered 503 unread


def needed() -> None:
    """Raise UsageError where the packages of the extra are missing."""
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UsageError(f"serving needs the package {error.name}: pip install 'paceline[serve]'") from None


def build(target: Any, drafter: Drafter, settings: Settings, *, coupling: str = "gumbel") -> Server:
    """An application with its engine running. target: an HFTarget."""
    metrics = Metrics(settings.name)
    engine = Engine(target, drafter, rows=settings.rows, queue=settings.queue, observer=metrics, coupling=coupling)
    return Server(target, engine, settings, metrics, Media(settings))


def run(server: Server, host: str, port: int, *, ready: Callable[[int], None] | None = None) -> None:
    """Serve until SIGINT or SIGTERM: then what runs is finished, what waits is refused, and all of it ends in time.

    `ready` is told the port once the socket listens (port 0: any free one). Raises UsageError where it cannot be had.
    """
    process, listener = prepare(server, host, port)
    if ready is not None:
        ready(listener.getsockname()[1])
    with listener:
        process.run(sockets=[listener])


def prepare(server: Server, host: str, port: int) -> tuple[Any, socket.socket]:
    """(a uvicorn server that retires the engine when told to end, its listening socket). Raises UsageError."""
    import uvicorn

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=256)
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen on {host} port {port}: {error}") from None
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    config = uvicorn.Config(
        server.app(), http=_impatient(server.settings.header_timeout_s), ws="none", log_config=None, access_log=False,
        limit_concurrency=CONNECTIONS, timeout_keep_alive=10, server_header=False,
        timeout_graceful_shutdown=int(server.settings.grace_s) + 5,
    )  # fmt: skip

    class Orderly(uvicorn.Server):
        def handle_exit(self, sig: int, frame: Any) -> None:
            server.engine.retire()
            self.force_exit = self.should_exit  # asked twice
            self.should_exit = True

    return Orderly(config), listener


def _impatient(patience_s: float) -> Any:
    """uvicorn's protocol, closing connections on which no whole request header arrives in time."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        _timer: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Run the timer while no request is under way; bytes that trickle in do not restart it."""
            idle = self.cycle is None or self.cycle.response_complete
            if idle and self._timer is None:
                self._timer = self.loop.call_later(patience_s, self._give_up)
            elif not idle and self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _give_up(self) -> None:
            self._timer = None
            if (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing():
                self.transport.close()

    return Impatient
