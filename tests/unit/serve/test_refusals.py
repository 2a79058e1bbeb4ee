"""What is not honoured is refused by name, in OpenAI's shape; nothing a client sends brings out a stack trace."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from unit.cli.checkpoint import Shelf
from unit.cli.test_bad_input import bomb
from unit.serve.conftest import NAME, Live

httpx = pytest.importorskip("httpx", reason="the extra `dev` is not installed")
CHAT, COMPLETE = "/v1/chat/completions", "/v1/completions"
TALK = [{"role": "user", "content": "What is it?"}]
DEEP = b"[" * 100_000


def post(live: Live, path: str, body: Any, **headers: str) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(
        live.url + path, content=data, headers={"content-type": "application/json", **headers}, timeout=30
    )


def refused(answer: Any, status: int, param: str | None, *says: str) -> None:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["param"] == param, error
    assert "Traceback" not in answer.text
    for words in says:
        assert words in error["message"], error


def pictured(url: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url, **more}}]}


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"frequency_penalty": -1}, "frequency_penalty"),
        ({"repetition_penalty": 1.1}, "repetition_penalty"),
        ({"logit_bias": {"5": 3}}, "logit_bias"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"functions": [{}]}, "functions"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"n": 0}, "n"),
        ({"n": 99}, "n"),
        ({"n": True}, "n"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": -7}, "top_k"),
        ({"min_p": 2}, "min_p"),
        ({"seed": 2**70}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a"] * 17}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usge": True}}, "stream_options.include_usge"),
        ({"drafter": "eagle"}, "drafter"),
        ({"longest_edge": 0}, "longest_edge"),
        ({"temprature": 1}, "temprature"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "audio"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "image": "/etc/passwd"}]}]},
         "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "path": "/etc/passwd"}]}]},
         "messages[0].content[0].path"),
        ({"messages": [pictured(5)]}, "messages[0].content[0].image_url.url"),
        ({"messages": [pictured("data:,a", detail="huge")]}, "messages[0].content[0].image_url.detail"),
        ({"messages": [{"role": "user", "content": "word " * 600}]}, "messages"),
        ({"messages": [pictured("data:,a")] * 9}, "messages"),
    ],
)  # fmt: skip
def test_fields_of_a_chat(live: Live, more: dict[str, Any], param: str) -> None:
    refused(post(live, CHAT, {"model": NAME, "messages": TALK, **more}), 400, param)


def test_the_nearest_field_is_named(live: Live) -> None:
    answer = post(live, CHAT, {"model": NAME, "messages": TALK, "temprature": 1})
    refused(answer, 400, "temprature", "did you mean 'temperature'")


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"prompt": ""}, "prompt"), ({"prompt": ["a", "b"]}, "prompt"), ({"prompt": [1, 10**9]}, "prompt"),
        ({"prompt": [1, -1]}, "prompt"), ({"logprobs": 0}, "logprobs"), ({"echo": True}, "echo"),
        ({"best_of": 4}, "best_of"), ({"suffix": "end"}, "suffix"), ({"prompt": [1] * 600}, "prompt"),
    ],
)  # fmt: skip
def test_fields_of_a_completion(live: Live, more: dict[str, Any], param: str) -> None:
    refused(post(live, COMPLETE, {"model": NAME, "prompt": "a", "max_tokens": 2, **more}), 400, param)


def test_the_id_of_a_picture_is_no_word(live: Live, target: Any) -> None:
    refused(post(live, COMPLETE, {"model": NAME, "prompt": [5, *target.image_ids]}), 400, "prompt", "pictures")


def test_bodies(live: Live) -> None:
    for body in (b"", b"{", b'"text"', b"[]", b'{"model": NaN}', DEEP, b"\xff\xfe", b'{"a": ' + b"9" * 5000 + b"}"):
        refused(post(live, CHAT, body), 400, None)
    refused(post(live, CHAT, {"model": "tny"}), 404, "model", "tiny")
    refused(post(live, CHAT, {"messages": TALK}), 400, "model")
    refused(post(live, CHAT, {}, **{"content-type": "text/plain"}), 415, None)
    refused(httpx.get(live.url + CHAT), 405, None)
    refused(httpx.get(live.url + "/v1/nothing"), 404, None)
    refused(httpx.get(live.url + "/v1/models/../../etc/passwd"), 404, None)


def test_a_large_body_is_refused_before_it_is_read(start: Callable[..., Live]) -> None:
    small = start(body_bytes=10_000)
    with socket.create_connection(("127.0.0.1", small.port), 10) as line:
        line.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
                     b"content-length: 999999999\r\n\r\n")  # fmt: skip
        assert line.recv(4096).startswith(b"HTTP/1.1 413")

    def endless() -> Any:
        for _ in range(10_000):
            yield b"x" * 1000

    try:
        answer = httpx.post(
            small.url + CHAT, content=endless(), headers={"content-type": "application/json"}, timeout=30
        )
    except httpx.HTTPError:
        pass  # cut while it was still sending
    else:
        refused(answer, 413, None)
    assert httpx.get(small.url + "/health").status_code == 200


def test_slow_clients_are_cut(start: Callable[..., Live]) -> None:
    hasty = start(body_timeout_s=0.3, header_timeout_s=0.5)
    with socket.create_connection(("127.0.0.1", hasty.port), 10) as line:
        line.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
                     b"content-length: 100\r\n\r\n{")  # fmt: skip
        assert line.recv(4096).startswith(b"HTTP/1.1 408")
    for beginning in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: a\r\n"):
        with socket.create_connection(("127.0.0.1", hasty.port), 10) as line:
            begin = time.monotonic()
            line.sendall(beginning)
            for _ in range(3):  # bytes that trickle in buy no time
                time.sleep(0.1)
                line.sendall(b"x" if beginning else b"")
            assert line.recv(100) == b""
            assert time.monotonic() - begin < 3


def test_a_key_is_asked_for(start: Callable[..., Live]) -> None:
    locked = start(api_key="open-sesame")
    body = {"model": NAME, "messages": TALK, "max_tokens": 1}
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer"}):
        refused(post(locked, CHAT, body, **headers), 401, None)
        refused(httpx.get(locked.url + "/v1/models", headers=headers), 401, None)
    assert post(locked, CHAT, body, authorization="Bearer open-sesame").status_code == 200
    assert httpx.get(locked.url + "/health").status_code == 200


def test_pictures_are_bounded(start: Callable[..., Live], shelf: Shelf, tmp_path: Any) -> None:
    tight = start(picture_bytes=20_000, picture_pixels=20_000, pictures=2)
    where = "messages[0].content[0].image_url.url"

    def told(data: bytes) -> Any:
        url = "data:image/png;base64," + base64.b64encode(data).decode()
        return post(tight, CHAT, {"model": NAME, "messages": [pictured(url)], "max_tokens": 1})

    good = shelf.picture.read_bytes()
    assert told(good).status_code == 200
    refused(told(bomb(tmp_path / "bomb.png").read_bytes()), 400, where, "pixels")
    refused(told(good[:200]), 400, where, "broken")
    refused(told(b"GIF89a nothing"), 400, where)
    refused(told(b"x" * 30_000), 400, where, "bytes")
    refused(post(tight, CHAT, {"model": NAME, "messages": [pictured("data:image/png;base64,###")]}), 400, where)


def test_an_error_of_ours_is_told_without_its_trace(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret inner state")

    body = {"model": NAME, "messages": TALK, "max_tokens": 4, "temperature": 0}
    monkeypatch.setattr(type(live.server.target), "encode", fail)
    answer = post(live, CHAT, body)
    refused(answer, 500, None)
    assert "secret" not in answer.text
    monkeypatch.undo()
    monkeypatch.setattr("paceline.hf.session.Session.forward", fail)
    answer = post(live, CHAT, body)
    refused(answer, 500, None)
    assert "secret" not in answer.text
    streamed = post(live, CHAT, {**body, "stream": True})
    assert '"internal_error"' in streamed.text
    assert "secret" not in streamed.text
    monkeypatch.undo()
    assert post(live, CHAT, body).status_code == 200, "the engine lives on"
