"""The load: a small one passes on a sound server, and each of its findings can be found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from paceline.answer import generate
from paceline.drafters import method
from paceline.sampling import Sampling
from paceline.serve.load import NAME, Case, Figures, Outcome, _said, _unchunked, cases, send
from unit.serve.conftest import Live


def test_a_small_load(start: Callable[..., Live], target: Any) -> None:
    live = start(name=NAME, rows=3, queue=40, picture_bytes=2**20)
    every = cases(22, 0, sees=True)

    async def at_once() -> list[Outcome]:
        return await asyncio.gather(*(send(live.port, case) for case in every))

    def judge(case: Case, text: str) -> str:
        asked = case.offline or {}
        sampling = Sampling(asked["temperature"], seed=asked["seed"], max_new_tokens=asked["max_tokens"])
        wanted = generate(target, method("none")(), asked["messages"], sampling).text
        return "same" if text == wanted else f"{text!r} instead of {wanted!r}"

    figures = Figures()
    for outcome in asyncio.run(at_once()):
        figures.add(outcome, judge)
    told = figures.document()
    assert (told["lost"], told["wrong"], told["requests"]) == ([], [], 22)
    assert len(told["kinds"]) == 9
    assert told["p50_s"] <= told["p99_s"]
    assert live.idle()


def test_what_is_lost_or_wrong_is_told() -> None:
    case = Case("chat", "/", b"", 200, {"seed": 1})
    good = Outcome(case, 200, "text", 1.0)

    def found(outcome: Outcome, verdict: str = "same") -> tuple[int, int]:
        figures = Figures()
        figures.add(outcome, lambda case, text: verdict)
        return len(figures.lost), len(figures.wrong)

    assert found(good) == (0, 0)
    assert found(good, "tie") == (0, 0)
    assert found(good, "another text") == (0, 1)
    assert found(replace(good, status=500)) == (0, 1)
    assert found(replace(good, status=0, error="reset")) == (1, 0)
    whole = b'{"choices": [{"message": {"content": "whole"}}]}'
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (whole[:7], whole[7:])) + b"0\r\n\r\n"
    assert _said(_unchunked(chunked)) == "whole"
    with pytest.raises(ValueError, match="cut off"):
        _unchunked(b"3\r\nabc\r\n")
    with pytest.raises(ValueError, match="cut off"):
        _said(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n')
