"""One request's way through the engine, and how its answer is streamed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Any, TypeVar

from paceline.core import Prompt
from paceline.serve.asked import Asked
from paceline.serve.engine import Ended, Engine, Event, Job, Step
from paceline.serve.refusal import Refusal
from paceline.serve.replies import Reply, event

T = TypeVar("T")
Message = MutableMapping[str, Any]  # of ASGI
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Talk:
    """The answers to one request, as they come from the engine's thread."""

    def __init__(self, engine: Engine, prompt: Prompt, asked: Asked) -> None:
        """Raises Refusal where the engine takes no more."""
        self.engine, self.asked = engine, asked
        self._news = asyncio.Queue[tuple[Job, Event]]()
        loop = asyncio.get_running_loop()

        def tell(job: Job, news: Event) -> None:
            loop.call_soon_threadsafe(self._news.put_nowait, (job, news))

        self.jobs = [
            Job(prompt, replace(asked.sampling, seed=asked.seeded(i)), asked.plain, tell, i)
            for i in range(asked.choices)
        ]
        self.ended = dict[int, Ended]()
        engine.submit(self.jobs)

    async def next(self) -> tuple[int, Step | Ended]:
        """(choice, news). Raises Refusal where one of the answers failed; then all are given up."""
        job, news = await self._news.get()
        if isinstance(news, Refusal):
            self.cancel()
            raise news
        if isinstance(news, Ended):
            self.ended[job.choice] = news
        return job.choice, news

    @property
    def done(self) -> bool:
        return len(self.ended) == len(self.jobs)

    async def rest(self, first: tuple[int, Step | Ended]) -> list[Ended]:
        """The answers, in order, once all have ended."""
        while not self.done:
            await self.next()
        return self.all()

    def all(self) -> list[Ended]:
        """The answers, in order."""
        return [self.ended[i] for i in sorted(self.ended)]

    def cancel(self) -> None:
        """Nobody wants them any more."""
        if not self.done:
            self.engine.cancel(self.jobs)


class Events:
    """A stream of server-sent events: ended by a client that leaves, or that takes nothing for too long."""

    def __init__(self, talk: Talk, reply: Reply, first: tuple[int, Step | Ended], patience_s: float) -> None:
        self.talk, self.reply, self.first, self.patience_s = talk, reply, first, patience_s

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Send it all."""
        try:
            await unless_gone(receive, self._send(send))
        except (Gone, TimeoutError, OSError):
            return
        finally:
            self.talk.cancel()

    async def _send(self, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for piece in self._pieces():
            async with asyncio.timeout(self.patience_s):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pieces(self) -> AsyncIterator[bytes]:
        for piece in self.reply.open():
            yield piece
        numbers = [0] * self.talk.asked.choices
        choice, news = self.first
        while True:
            if isinstance(news, Ended):
                out = self.reply.end(news)
            else:
                out = self.reply.step(choice, numbers[choice], news)
                numbers[choice] += 1
            for piece in out:
                yield piece
            if self.talk.done:
                break
            try:
                choice, news = await self.talk.next()
            except Refusal as refusal:
                yield event(refusal.body)
                return
        for piece in self.reply.close(self.talk.all()):
            yield piece


class Gone(Exception):
    """The client has left."""


async def unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """What the work gives. Raises Gone, and stops the work, when the client leaves first."""

    async def leaving() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    doing, watching = asyncio.ensure_future(work), asyncio.ensure_future(leaving())
    try:
        await asyncio.wait((doing, watching), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise Gone
        return doing.result()
    finally:
        for task in (doing, watching):
            task.cancel()
            with contextlib.suppress(BaseException):
                await task
