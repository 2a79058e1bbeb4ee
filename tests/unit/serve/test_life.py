"""Leavers, full queues, metrics, and the end of a process, over real sockets."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from unit.cli.checkpoint import Shelf
from unit.serve.conftest import NAME, Live
from unit.serve.test_refusals import CHAT, TALK, post

httpx = pytest.importorskip("httpx", reason="the extra `dev` is not installed")
LONG = {"model": NAME, "messages": TALK, "temperature": 1, "seed": 1, "max_tokens": 400}


def raw(body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n"
    return head.encode() + data


@pytest.mark.parametrize("stream", [True, False])
def test_rows_of_clients_that_leave_are_freed(live: Live, stream: bool) -> None:
    def aborted() -> int:
        found = re.search(rb'request_success_total\{finished_reason="abort",.*\} (\d+)', live.server.metrics.text())
        return int(found[1]) if found else 0

    before = aborted()
    with socket.create_connection(("127.0.0.1", live.port), 10) as line:
        line.sendall(raw({**LONG, "stream": stream, "n": 2}))
        while live.server.engine.running < 2:
            time.sleep(0.005)
    assert live.idle(5)
    assert aborted() - before == 2


def test_a_full_queue_says_so(start: Callable[..., Live]) -> None:
    narrow = start(rows=1, queue=1)
    lines = [socket.create_connection(("127.0.0.1", narrow.port), 10) for _ in range(2)]
    try:
        for i, line in enumerate(lines):
            line.sendall(raw(LONG))
            while narrow.server.engine.running + narrow.server.engine.waiting < i + 1:
                time.sleep(0.005)
        answer = post(narrow, CHAT, LONG)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert answer.json()["error"]["code"] == "queue_full"
    finally:
        for line in lines:
            line.close()
    assert narrow.idle(5)
    assert post(narrow, CHAT, {**LONG, "max_tokens": 2}).status_code == 200


def test_metrics_bear_vllms_names(live: Live) -> None:
    def counters() -> dict[str, float]:
        lines = httpx.get(live.url + "/metrics").text.splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}

    before = counters()
    answer = post(live, CHAT, {**LONG, "temperature": 0, "max_tokens": 40}).json()
    after, told = counters(), answer["usage"]["speculative_decoding"]
    for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"):
        key = f'vllm:spec_decode_{name}_total{{model_name="tiny"}}'
        assert after[key] - before[key] == told[name]
    assert told["num_accepted_tokens"] > 0
    by_position = [
        after[key] - before[key]
        for k in range(8)
        if (key := f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{model_name="tiny",position="{k}"}}')
    ]
    assert sum(by_position) == told["num_accepted_tokens"]
    key = 'vllm:generation_tokens_total{model_name="tiny"}'
    assert after[key] - before[key] == 40


def test_the_page_may_run_its_own_script_only(live: Live) -> None:
    answer = httpx.get(live.url + "/")
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[^']+'", policy)
    assert "unsafe" not in policy
    assert "http://" not in answer.text.replace("http://www.w3.org", "")
    assert "https://" not in answer.text


def test_the_command_ends_in_order(shelf: Shelf) -> None:
    """SIGTERM while answers run: each whole answer arrives, whoever comes later is refused, and the code is 0."""
    command = [sys.executable, "-m", "paceline.cli", "serve", "--target", str(shelf.target), "--port", "0",
               "--name", NAME, "--rows", "2", "--threads", "1"]  # fmt: skip
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            assert found, line + process.stderr.read()
            live = Live(None, None, int(found[1]))
            answers: list[Any] = []
            asks = [threading.Thread(target=lambda: answers.append(post(live, CHAT, LONG))) for _ in range(4)]
            for ask in asks:
                ask.start()
            while httpx.get(live.url + "/health").json()["running"] < 2:
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            for ask in asks:
                ask.join(60)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert sorted(answer.status_code for answer in answers) in ([200, 200, 503, 503], [200] * 4, [200, 200, 200, 503])
    texts = {answer.json()["choices"][0]["message"]["content"] for answer in answers if answer.status_code == 200}
    assert len(texts) == 1
    assert all(answer.json()["error"]["code"] == "shutting_down" for answer in answers if answer.status_code == 503)


def test_a_port_in_use_is_told_in_one_line(shelf: Shelf, live: Live, capsys: pytest.CaptureFixture[str]) -> None:
    from paceline.cli import main

    assert main(["serve", "--target", str(shelf.target), "--port", str(live.port), "--quiet"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "cannot listen" in err
