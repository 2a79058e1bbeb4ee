"""The routes: each reads a bounded body, asks the engine and writes the answer, or is refused in OpenAI's shape."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import logging
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from paceline.core import Prompt
from paceline.errors import UsageError
from paceline.serve import asked as asking
from paceline.serve.asked import Asked
from paceline.serve.engine import Engine
from paceline.serve.fields import parse
from paceline.serve.media import Media
from paceline.serve.metrics import Metrics
from paceline.serve.refusal import Refusal, bad, broken
from paceline.serve.replies import Reply
from paceline.serve.settings import Settings
from paceline.serve.talk import Events, Gone, Talk, unless_gone

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

LOG = logging.getLogger("paceline.serve")
READERS = 4  # threads that fetch and decode pictures
Handler = Callable[["Request"], Awaitable[Any]]  # a Response, or any other ASGI application


class Server:
    """The application around one engine."""

    def __init__(self, target: Any, engine: Engine, settings: Settings, metrics: Metrics, media: Media) -> None:
        """target: an HFTarget."""
        self.target, self.engine, self.settings, self.metrics, self.media = target, engine, settings, metrics, media
        self.readers = ThreadPoolExecutor(READERS, thread_name_prefix="paceline-reader")
        self.page, self.policy = _page()
        self.began = int(time.time())

    def app(self) -> FastAPI:
        """The ASGI application. Bodies are read by `fields`, not by models: errors name fields and nearest names."""
        from fastapi import FastAPI

        app = FastAPI(
            title="paceline", docs_url=None, redoc_url=None, openapi_url=None, lifespan=self._lifespan,
            exception_handlers={404: _lost, 405: _lost},
        )  # fmt: skip
        for path, handler in (("/", self.show), ("/health", self.health), ("/metrics", self.measure)):
            app.add_route(path, self._guarded(handler, open_=True), ["GET"])
        for path, handler in (("/v1/models", self.models), ("/v1/models/{name:path}", self.model)):
            app.add_route(path, self._guarded(handler, open_=False), ["GET"])
        for path, handler in (("/v1/chat/completions", self.chat), ("/v1/completions", self.complete)):
            app.add_route(path, self._guarded(handler, open_=False), ["POST"])
        return app

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncGenerator[None]:
        yield
        await asyncio.get_running_loop().run_in_executor(None, self.engine.close, self.settings.grace_s)
        self.readers.shutdown(wait=False, cancel_futures=True)

    async def show(self, request: Request) -> Response:
        """The page."""
        from fastapi.responses import HTMLResponse

        guards = {"content-security-policy": self.policy, "referrer-policy": "no-referrer"}
        return HTMLResponse(self.page, headers={**guards, "x-content-type-options": "nosniff"})

    async def health(self, request: Request) -> Response:
        """200 while answers are taken, 503 after that."""
        from fastapi.responses import JSONResponse

        state = {"running": self.engine.running, "waiting": self.engine.waiting}
        alive = self.engine.alive
        return JSONResponse({"status": "ok" if alive else "closing", **state}, 200 if alive else 503)

    async def measure(self, request: Request) -> Response:
        """Metrics in Prometheus' text format."""
        from fastapi.responses import Response

        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def models(self, request: Request) -> Response:
        """The list of models: one."""
        from fastapi.responses import JSONResponse

        return JSONResponse({"object": "list", "data": [self._record()]})

    async def model(self, request: Request) -> Response:
        """The record of a model."""
        from fastapi.responses import JSONResponse

        name = request.path_params["name"]
        if name != self.settings.name:
            raise Refusal(404, f"there is no model {name[:80]!r}", "model", "model_not_found")
        return JSONResponse(self._record())

    def _record(self) -> dict[str, Any]:
        return {
            "id": self.settings.name, "object": "model", "created": self.began, "owned_by": "paceline",
            "max_model_len": self.target.max_length, "sees": self.target.sees,
        }  # fmt: skip

    async def chat(self, request: Request) -> Response | Events:
        """/v1/chat/completions."""
        return await self._answer(request, "chat.completion", asking.chat)

    async def complete(self, request: Request) -> Response | Events:
        """/v1/completions."""
        return await self._answer(request, "text_completion", asking.completion)

    async def _answer(self, request: Request, kind: str, read: Callable[..., Asked]) -> Response | Events:
        from fastapi.responses import JSONResponse

        document = await self._body(request)
        asked = read(document, self.settings, self.target.sampling_defaults, self.target.max_length)
        prompt = await asyncio.get_running_loop().run_in_executor(self.readers, self._prompt, asked)
        reply = Reply(kind, self.settings.name, asked)
        talk = Talk(self.engine, prompt, asked)
        try:
            first = await unless_gone(request.receive, talk.next())  # refusals come before any header is sent
            if asked.stream:
                return Events(talk, reply, first, self.settings.write_timeout_s)
            ended = await unless_gone(request.receive, talk.rest(first))
        except BaseException:
            talk.cancel()
            raise
        return JSONResponse(reply.whole(ended))

    async def _body(self, request: Request) -> Mapping[str, Any]:
        """The JSON object sent. Raises Refusal: 415 for another type, 413 for too much of it, 408 for too slow."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":  # which a page of another origin cannot send unasked
            raise Refusal(415, "the body must be sent as content-type: application/json", code="unsupported_media_type")
        limit = self.settings.body_bytes
        size = request.headers.get("content-length", "")
        too_large = Refusal(413, f"the body has more than {limit:,} bytes", code="too_large")
        if size.isdigit() and int(size) > limit:
            raise too_large
        data = bytearray()
        try:
            async with asyncio.timeout(self.settings.body_timeout_s):
                while (message := await request.receive())["type"] == "http.request":
                    data += message.get("body", b"")
                    if len(data) > limit:
                        raise too_large
                    if not message.get("more_body"):
                        return parse(bytes(data))
                raise Gone
        except TimeoutError:
            told = f"the body took longer than {self.settings.body_timeout_s:g} s"
            raise Refusal(408, told, code="timeout") from None

    def _prompt(self, asked: Asked) -> Prompt:
        """The prompt of a request: pictures are read, then text. Runs in a reader's thread. Raises Refusal."""
        import torch
        from jinja2 import TemplateError

        content, where = asked.content, "prompt"
        if isinstance(content, str | tuple):
            with self.engine.spelling:
                ids = self.target.tokenizer.encode(content) if isinstance(content, str) else list(content)
            self._known(ids)
            prompt = Prompt(torch.tensor(ids, dtype=torch.long))
        else:
            where = "messages"
            if not self.target.sees and any(part["type"] == "image" for m in content for part in m["content"]):
                raise bad("messages", "this model takes text only, but the messages hold pictures")
            talk = asking.with_pictures(content, self.media.picture)
            try:
                with self.engine.spelling, torch.inference_mode():
                    prompt = self.target.encode(talk, longest_edge=asked.longest_edge)
            except UsageError as error:
                raise bad("messages", str(error)) from None
            except TemplateError as error:
                raise bad("messages", f"the model's chat template refuses these messages: {error}"[:300]) from None
        size, most = len(prompt.ids), self.target.max_length
        if not 0 < size < most:
            told = f"the prompt has {size:,} tokens; this model takes 1 to {most - 1:,} and then answers"
            raise bad(where, told, "context_length_exceeded")
        return prompt

    def _known(self, ids: Sequence[int]) -> None:
        wrong = next((i for i in ids if not 0 <= i < self.target.vocab_size or i in self.target.image_ids), None)
        if wrong is not None:
            most = self.target.vocab_size - 1
            raise bad("prompt", f"prompt holds token {wrong}; ids are 0 to {most}, without those of pictures")

    def _guarded(self, handler: Handler, *, open_: bool) -> Handler:
        """The handler behind the API key, whose errors become documents."""

        async def endpoint(request: Request) -> Response:
            from fastapi.responses import JSONResponse, Response

            try:
                if not open_:
                    self._check_key(request)
                return await handler(request)
            except Refusal as refusal:
                told = refusal
            except Gone:
                return Response(status_code=499)  # nobody reads it
            except Exception:
                LOG.exception("%s failed", request.url.path)
                told = broken()
            self.metrics.refused(told.status)
            return JSONResponse(told.body, told.status, told.headers)

        return endpoint

    def _check_key(self, request: Request) -> None:
        wanted = self.settings.api_key
        given = request.headers.get("authorization", "").removeprefix("Bearer ").strip()
        if wanted is not None and not hmac.compare_digest(given.encode(), wanted.encode()):
            raise Refusal(401, "the API key is missing or wrong", code="invalid_api_key")


async def _lost(request: Request, error: Any) -> Response:
    from fastapi.responses import JSONResponse

    told = Refusal(error.status_code, f"{request.method} {request.url.path[:200]}: {error.detail}", code="not_found")
    return JSONResponse(told.body, told.status)


def _page() -> tuple[str, str]:
    """The page, and a policy under which it can run its own script and reach its own server, and nothing else."""
    html = (files("paceline.serve") / "page.html").read_text(encoding="utf-8")

    def hashed(tag: str) -> str:
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.S)
        marks = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inside]
        return " ".join(f"'sha256-{mark}'" for mark in marks)

    policy = (
        f"default-src 'none'; connect-src 'self'; img-src 'self' data: blob:; script-src {hashed('script')}; "
        f"style-src {hashed('style')}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return html, policy
