"""Where the time goes: exclusive phases of a decode."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Literal, Protocol

Phase = Literal["preprocess", "vision", "prefill", "condition", "draft", "target", "settle", "commit", "detokenize"]
DECODE: tuple[Phase, ...] = ("condition", "draft", "target", "settle", "commit")  # what a round is made of


class Clock(Protocol):
    """Anything that times a phase while it is entered."""

    def __call__(self, phase: Phase, /) -> AbstractContextManager[object]: ...


_NOTHING = nullcontext()


def silent(phase: Phase, /) -> AbstractContextManager[object]:
    """The clock that does not look."""
    return _NOTHING


class Stopwatch:
    """Adds up wall seconds a phase. A phase inside another is taken out of the outer one, so that phases add up.

    On CUDA both ends of a phase wait for the device.
    """

    def __init__(self, device: str = "cpu") -> None:
        self.seconds: dict[Phase, float] = {}
        self._cuda = device.startswith("cuda")
        self._inner: list[float] = []

    @contextmanager
    def __call__(self, phase: Phase, /) -> Generator[None]:
        begin = self._now()
        self._inner.append(0.0)
        try:
            yield
        finally:
            spent = self._now() - begin
            self.seconds[phase] = self.seconds.get(phase, 0.0) + spent - self._inner.pop()
            if self._inner:
                self._inner[-1] += spent

    def _now(self) -> float:
        if self._cuda:
            import torch

            torch.cuda.synchronize()
        return time.perf_counter()
