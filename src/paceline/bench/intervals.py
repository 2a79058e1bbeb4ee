"""Paired bootstrap over prompts: every arm is resampled with the same prompts, so that hard prompts cancel out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ENOUGH = 8  # prompts below which an interval would only look like one
DRAWS = 2000
INSIDE = (2.5, 97.5)  # percentiles


def draws(prompts: int, *, seed: int = 0, size: int = DRAWS) -> NDArray[np.int64]:
    """[size, prompts]; how often each prompt is drawn. Equal arguments give equal draws, which pairs the arms."""
    even = np.full(prompts, 1 / prompts)
    return np.random.default_rng((seed, prompts)).multinomial(prompts, even, size=size)


def interval(values: object) -> list[float] | None:
    """[lo, hi], the middle 95 % of what the draws gave; None where they gave no number."""
    if values is None:
        return None
    found = np.asarray(values, dtype=np.float64)
    found = found[np.isfinite(found)]
    if not found.size:
        return None
    lo, hi = np.percentile(found, INSIDE)
    return [float(lo), float(hi)]
