"""Logits become a law as transformers' own warpers make it, in all three forms."""

from __future__ import annotations

import pytest
import torch
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from paceline.law import Dense, Point, Sparse
from paceline.sampling import Sampling

LOGITS = torch.randn(3, 4, 3000, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2


def reference(sampling: Sampling, logits: torch.Tensor) -> torch.Tensor:
    """[..., V]; the law of transformers, in its order."""
    steps = LogitsProcessorList([TemperatureLogitsWarper(float(sampling.temperature))])
    if sampling.top_k:
        steps.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        steps.append(TopPLogitsWarper(sampling.top_p))
    if sampling.min_p:
        steps.append(MinPLogitsWarper(sampling.min_p))
    flat = logits.reshape(-1, logits.shape[-1])
    return steps(torch.zeros(len(flat), 1, dtype=torch.long), flat).softmax(-1).view_as(logits)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1),
        Sampling(temperature=0.6),
        Sampling(temperature=1, top_k=1),
        Sampling(temperature=1, top_k=50),
        Sampling(temperature=1, top_k=5000),
        Sampling(temperature=0.7, top_p=0.9),
        Sampling(temperature=3, top_p=0.999),  # a support wider than the first look
        Sampling(temperature=1.3, top_k=40, top_p=0.8),
        Sampling(temperature=1, top_p=1e-6),
        Sampling(temperature=1, min_p=0.05),
        Sampling(temperature=2, top_k=200, top_p=0.95, min_p=0.1),
    ],
    ids=str,
)
def test_law_equals_transformers_warpers(sampling: Sampling) -> None:
    got = sampling.law(LOGITS).dense(LOGITS.shape[-1])
    torch.testing.assert_close(got, reference(sampling, LOGITS), rtol=0, atol=1e-12)


def test_forms_are_as_dear_as_they_must_be() -> None:
    assert isinstance(Sampling().law(LOGITS), Point)
    assert isinstance(Sampling(temperature=1).law(LOGITS), Dense)
    short = Sampling(temperature=1, top_k=50, top_p=0.5).law(LOGITS)
    assert isinstance(short, Sparse)
    assert short.ids.shape[-1] <= 50
    assert (short.ids.diff(dim=-1) > 0).all()


def test_a_bfloat16_row_becomes_a_float32_law() -> None:
    law = Sampling(temperature=1).law(LOGITS.bfloat16())
    assert isinstance(law, Dense)
    assert law.probs.dtype == torch.float32


def test_a_row_does_not_see_its_batch_mates() -> None:
    sampling = Sampling(temperature=2, top_p=0.99)
    together = sampling.law(LOGITS).dense(3000)
    alone = torch.stack([sampling.law(row[None])[0].dense(3000) for row in LOGITS])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("temperature", -0.1, "0 or more"),
        ("temperature", float("nan"), "0 or more"),
        ("temperature", float("inf"), "0 or more"),
        ("top_p", 0.0, r"in \(0, 1\]"),
        ("top_p", 1.01, r"in \(0, 1\]"),
        ("top_k", -1, "0 .all ids. or more"),
        ("min_p", 1.5, r"in \[0, 1\]"),
        ("max_new_tokens", 0, "1 or more"),
    ],
)
def test_values_out_of_range_are_refused_with_what_is_allowed(field: str, value: float, allowed: str) -> None:
    with pytest.raises(ValueError, match=f"{field} is .*{allowed}"):
        Sampling(**{field: value})


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="empty string"):
        Sampling(stop_strings=("",))
