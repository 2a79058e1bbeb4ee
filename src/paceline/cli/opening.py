"""From option values to the objects of the Python API."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.errors import UsageError, unknown


def sampling_of(
    *,
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    seed: int,
    max_new_tokens: int,
    stop: Sequence[str] = (),
) -> Any:
    """The `Sampling` of these values. Raises UsageError for one out of range."""
    from paceline.sampling import Sampling

    try:
        return Sampling(temperature, top_k, top_p, min_p, seed, max_new_tokens, stop_strings=tuple(stop))
    except ValueError as error:
        raise UsageError(str(error)) from error


def known_coupling(name: str) -> str:
    """The name itself. Raises UsageError when there is no such coupling."""
    from paceline.couplings import COUPLINGS

    if name not in COUPLINGS:
        raise unknown("coupling", name, COUPLINGS)
    return name


def open_target(name: str, *, device: str, dtype: str | None, threads: int | None, quiet: bool) -> Any:
    """The target of that name, path or hub id. Raises UsageError for what cannot be opened."""
    from transformers.utils import logging

    from paceline.targets import load_target

    if quiet or not sys.stderr.isatty():
        logging.disable_progress_bar()
    return load_target(name, device=device, dtype=dtype, threads=threads)


def open_visual(
    name: str, size: str | None, *, device: str, dtype: str | None, threads: int | None, quiet: bool
) -> Any:
    """The target that draws, of that name, path or hub id, for pictures of this size ("WIDTHxHEIGHT" in pixels).

    Raises UsageError for what draws nothing or cannot be opened, and for a size that its layout does not allow.
    """
    import re

    from transformers.utils import logging

    sides = re.fullmatch(r"(\d{1,5})x(\d{1,5})", (size or "1x1").strip().lower())
    if sides is None:
        raise UsageError(f"--size {size!r}: give WIDTHxHEIGHT in pixels, such as 64x64")
    from paceline.targets import load_visual

    if quiet or not sys.stderr.isatty():
        logging.disable_progress_bar()
    wanted = None if size is None else (int(sides[1]), int(sides[2]))
    return load_visual(name, size=wanted, device=device, dtype=dtype, threads=threads)


def message_of(prompt: str, images: Sequence[object]) -> list[dict[str, Any]]:
    """One user message, pictures first. Raises UsageError for a prompt without any character."""
    if not prompt.strip():
        raise UsageError("--prompt is empty; ask something")
    parts = [{"type": "image", "image": str(image) if isinstance(image, Path) else image} for image in images]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": prompt}]}]
