"""Where a run is shown beside its log.jsonl: TensorBoard or trackio, if they are installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from paceline.errors import UsageError

Tracker = Literal["none", "tensorboard", "trackio"]
Track = Callable[[int, Mapping[str, Any]], None]


@contextmanager
def open_tracker(kind: Tracker, directory: Path) -> Iterator[Track]:
    """A function (step, record) that shows every number of the record. Raises UsageError for one not installed."""
    if kind == "none":
        yield lambda step, record: None
        return
    if importlib.util.find_spec(kind) is None:
        raise UsageError(f"tracker {kind!r} is not installed: pip install {kind}, or leave tracker out")
    if kind == "tensorboard":
        from torch.utils.tensorboard import SummaryWriter

        with SummaryWriter(str(directory / "tensorboard")) as writer:

            def scalars(step: int, record: Mapping[str, Any]) -> None:
                for key, value in numbers(record).items():
                    writer.add_scalar(key, value, step)

            yield scalars
        return
    trackio = importlib.import_module(kind)
    trackio.init(project="paceline", name=directory.parent.name)
    try:
        yield lambda step, record: trackio.log(numbers(record), step=step)
    finally:
        trackio.finish()


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The record without its step and what is no number."""
    return {k: float(v) for k, v in record.items() if k != "step" and isinstance(v, int | float)}
