"""`python -m paceline.serve.load`: a bounded load on a server of its own on loopback: is anything lost or wrong?"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

HOST, NAME = "127.0.0.1", "loaded"
PATIENCE_S = 300.0  # for one request, waiting and second tries included
TRIES = 200  # after a 429
OVERSIZED = 2 * 2**20  # bytes of a picture that is too large; the server is told to take 1 MiB


@dataclass(frozen=True, slots=True)
class Case:
    """One request and what must come of it."""

    kind: str
    path: str
    body: bytes
    status: int  # 0: the client leaves
    offline: dict[str, Any] | None = None  # what the text must be: messages, temperature, seed, max_tokens
    slow: bool = False  # the body is sent in pieces


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    case: Case
    status: int = 0
    text: str | None = None
    seconds: float = 0.0
    refused: int = 0  # 429s on the way
    error: str = ""


@dataclass(slots=True)
class Figures:
    """The load in numbers."""

    counts: Counter[str] = field(default_factory=Counter[str])
    lost: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])
    ties: int = 0
    seconds: list[float] = field(default_factory=list[float])
    refused: int = 0

    def add(self, outcome: Outcome, judge: Callable[[Case, str], str]) -> None:
        """Count an outcome; judge says "same", "tie" or what is wrong with a text."""
        case = outcome.case
        self.counts[case.kind] += 1
        self.refused += outcome.refused
        if case.status == 0:
            return
        if outcome.status == 0:
            self.lost.append(f"{case.kind}: {outcome.error}")
        elif outcome.status != case.status:
            self.wrong.append(f"{case.kind}: status {outcome.status} instead of {case.status}")
        elif case.offline is not None:
            self.seconds.append(outcome.seconds)
            verdict = judge(case, outcome.text or "")
            self.ties += verdict == "tie"
            if verdict not in ("same", "tie"):
                self.wrong.append(f"{case.kind}: {verdict}")

    def document(self) -> dict[str, Any]:
        """The figures as JSON."""
        times = sorted(self.seconds)

        def at(share: float) -> float | None:
            return round(times[min(len(times) - 1, int(share * len(times)))], 3) if times else None

        return {
            "requests": sum(self.counts.values()), "kinds": dict(self.counts), "lost": self.lost, "wrong": self.wrong,
            "ties": self.ties, "refused_429": self.refused, "p50_s": at(0.5), "p99_s": at(0.99),
        }  # fmt: skip


def cases(count: int, seed: int, sees: bool) -> list[Case]:
    """A mix of good, bad and rude requests, always the same for a seed."""
    dice = random.Random(seed)
    makers = [
        _chat,
        _chat,
        _stream,
        _leaver,
        _slow,
        _bad_json,
        _unknown,
        *([_picture, _broken, _oversized] if sees else []),
    ]
    return [makers[i % len(makers)](i, dice) for i in range(count)]


def _ask(i: int, dice: random.Random, **more: Any) -> dict[str, Any]:
    words = " ".join(dice.choice("red blue two small apple dog car list what count".split()) for _ in range(i % 9 + 2))
    return {
        "model": NAME, "messages": [{"role": "user", "content": words}], "temperature": (0, 0.7, 1)[i % 3], "seed": i,
        "max_tokens": 8 + i % 25, **more,
    }  # fmt: skip


def _case(kind: str, body: dict[str, Any], status: int = 200, **more: Any) -> Case:
    offline = body if status == 200 else None
    return Case(kind, "/v1/chat/completions", json.dumps(body).encode(), status, offline, **more)


def _chat(i: int, dice: random.Random) -> Case:
    return _case("chat", _ask(i, dice))


def _stream(i: int, dice: random.Random) -> Case:
    return _case("stream", _ask(i, dice, stream=True))


def _leaver(i: int, dice: random.Random) -> Case:
    return _case("disconnect", _ask(i, dice, stream=bool(i % 2), max_tokens=200), 0)


def _slow(i: int, dice: random.Random) -> Case:
    return _case("slow client", _ask(i, dice), slow=True)


def _bad_json(i: int, dice: random.Random) -> Case:
    return Case("bad JSON", "/v1/chat/completions", b'{"model": ', 400)


def _unknown(i: int, dice: random.Random) -> Case:
    return _case("unknown model", {**_ask(i, dice), "model": "nobody"}, 404)


def _pictured(i: int, dice: random.Random, data: bytes) -> dict[str, Any]:
    url = "data:image/png;base64," + base64.b64encode(data).decode()
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is it?"}]
    return _ask(i, dice, messages=[{"role": "user", "content": parts}])


def _png(i: int) -> bytes:
    file = io.BytesIO()
    Image.linear_gradient("L").rotate(90 * (i % 4)).convert("RGB").resize((96, 96)).save(file, "PNG")
    return file.getvalue()


def _picture(i: int, dice: random.Random) -> Case:
    return _case("picture", _pictured(i, dice, _png(i)))


def _broken(i: int, dice: random.Random) -> Case:
    return _case("broken picture", _pictured(i, dice, _png(i)[:120]), 400)


def _oversized(i: int, dice: random.Random) -> Case:
    return _case("oversized picture", _pictured(i, dice, bytes(OVERSIZED)), 400)


async def send(port: int, case: Case) -> Outcome:
    """Ask, and ask again after a 429, as the server says."""
    outcome, begin = Outcome(case), time.monotonic()
    try:
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(TRIES):
                outcome.status, outcome.text = await _once(port, case)
                if outcome.status != 429:
                    break
                outcome.refused += 1
                await asyncio.sleep(1)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, ValueError) as error:
        outcome.status, outcome.error = 0, repr(error)
    outcome.seconds = time.monotonic() - begin
    return outcome


async def _once(port: int, case: Case) -> tuple[int, str | None]:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        head = f"POST {case.path} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        writer.write(f"{head}content-length: {len(case.body)}\r\n\r\n".encode())
        for piece in _pieces(case.body, 5 if case.slow else 1):
            writer.write(piece)
            await writer.drain()
            if case.slow:
                await asyncio.sleep(0.2)
        if case.status == 0:
            await asyncio.sleep(0.1)
            return 0, None
        raw = await reader.read()
    finally:
        writer.close()
    head_bytes, _, body = raw.partition(b"\r\n\r\n")
    if not head_bytes.startswith(b"HTTP/1.1 "):
        raise ValueError(f"no answer but {raw[:60]!r}")
    status = int(head_bytes[9:12])
    chunked = b"transfer-encoding: chunked" in head_bytes.lower()
    return status, _said(_unchunked(body) if chunked else body) if status == 200 else None


def _pieces(body: bytes, count: int) -> list[bytes]:
    size = max(1, -(-len(body) // count))
    return [body[i : i + size] for i in range(0, len(body), size)]


def _unchunked(body: bytes) -> bytes:
    out = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return out
        out, body = out + rest[:length], rest[length + 2 :]
    raise ValueError("the answer was cut off")


def _said(body: bytes) -> str:
    if not body.startswith(b"data: "):
        return json.loads(body)["choices"][0]["message"]["content"]
    events = [line[6:] for line in body.split(b"\n\n") if line]
    if events[-1] != b"[DONE]":
        raise ValueError("the stream was cut off")
    return "".join(json.loads(event)["choices"][0]["delta"].get("content", "") for event in events[:-1])


class Offline:
    """The same target without a server: what each text must be."""

    def __init__(self, target: str, dtype: str | None) -> None:
        from paceline.targets import load_target

        self.target = load_target(target, dtype=dtype)

    def __call__(self, case: Case, text: str) -> str:
        """same, tie, or what is wrong."""
        from paceline.answer import answer_prompts
        from paceline.drafters import method
        from paceline.identity import compare
        from paceline.sampling import Sampling

        asked = case.offline or {}
        sampling = Sampling(asked["temperature"], seed=asked["seed"], max_new_tokens=asked["max_tokens"])
        prompt = self.target.encode(asked["messages"])
        [wanted] = answer_prompts(self.target, method("none")(), [prompt], sampling)
        if wanted.text == text:
            return "same"
        [drafted] = answer_prompts(self.target, method("lookup")(), [prompt] * 2, sampling)[:1]
        judged = compare(self.target, prompt, sampling, sampling.seed, drafted.token_ids, wanted.token_ids)
        return "tie" if judged.ties and drafted.text == text else f"{text[:40]!r} instead of {wanted.text[:40]!r}"


class Process:
    """A server in a process of its own, on a free port of loopback."""

    def __init__(self, target: str, drafter: str, dtype: str | None, rows: int, queue: int) -> None:
        command = [
            sys.executable, "-m", "paceline.cli", "serve", "--target", target, "--drafter", drafter, "--name", NAME,
            "--host", HOST, "--port", "0", "--rows", str(rows), "--queue", str(queue), "--max-picture-mib", "1",
            *(["--dtype", dtype] if dtype else []),
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        told = ""
        while not (found := re.search(r"http://127\.0\.0\.1:(\d+)", told)):
            line = self.process.stderr.readline()
            if not line:
                raise SystemExit(f"the server did not start: {told}")
            told += line
        self.port = int(found[1])

    @property
    def memory_mib(self) -> float:
        """Resident memory; NaN where /proc is not there."""
        status = Path(f"/proc/{self.process.pid}/status")
        found = re.search(r"VmRSS:\s+(\d+)", status.read_text()) if status.exists() else None
        return int(found[1]) / 1024 if found else float("nan")


async def _all(port: int, some: Sequence[Case]) -> list[Outcome]:
    return await asyncio.gather(*(send(port, case) for case in some))


async def _ended(server: Process, some: Sequence[Case]) -> tuple[list[Outcome], int]:
    """Outcomes of a wave in whose midst the server is told to end, and its exit code."""
    asks = [asyncio.ensure_future(send(server.port, case)) for case in some]
    await asyncio.sleep(0.5)
    server.process.send_signal(signal.SIGTERM)
    outcomes = await asyncio.gather(*asks)
    return outcomes, await asyncio.to_thread(server.process.wait, 120)


def main() -> int:
    """Run the load and print its figures as JSON; 1 where something was lost, wrong or did not end cleanly."""
    parser = argparse.ArgumentParser(prog="python -m paceline.serve.load", description=__doc__)
    parser.add_argument("--target", default="tiny-native")
    parser.add_argument("--drafter", default="lookup")
    parser.add_argument("--dtype", default=None)
    parser.add_argument("--requests", type=int, default=200, choices=range(1, 2001), metavar="1 … 2000")
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--queue", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    judge = Offline(given.target, given.dtype)
    server = Process(given.target, given.drafter, given.dtype, given.rows, given.queue)
    try:
        figures, memory = Figures(), [server.memory_mib]
        every = cases(given.requests, given.seed, judge.target.sees)
        begin = time.monotonic()
        for _ in range(2):  # the same again: what grows now leaks
            for outcome in asyncio.run(_all(server.port, every)):
                figures.add(outcome, judge)
            memory.append(server.memory_mib)
        spent = time.monotonic() - begin
        last, code = asyncio.run(_ended(server, [case for case in every if case.status == 200][:40]))
    finally:
        server.process.kill()
    ends = Counter(
        "cut off" if o.status == 0 and "Refused" not in o.error else str(o.status or "refused") for o in last
    )
    record = figures.document() | {
        "concurrent": len(every), "waves": 2, "seconds_with_checks": round(spent, 1),
        "memory_mib": [round(m, 1) for m in memory], "sigterm": {"answers": dict(ends), "exit_code": code},
    }  # fmt: skip
    print(json.dumps(record, indent=2))
    return int(bool(figures.lost or figures.wrong or ends["cut off"] or code))


if __name__ == "__main__":
    raise SystemExit(main())
