"""Foreign samplers: one round of somebody's drafting and verifying, tried on laws that are known exactly."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from paceline.audit.check import Check
from paceline.audit.laws import ALPHA
from paceline.audit.statistics import against, total_variation
from paceline.errors import UsageError
from paceline.sampling import Sampling

Logits = Callable[[Sequence[int]], Tensor]  # text -> logits of the next token, [V] float64
PROMPT = (1, 2, 1)
VOCAB, TOKENS = 5, 4


class Sampler(Protocol):
    """One round: the tokens that it appends to `text`, accepted guesses and then one more.

    `target` and `draft` give raw logits after any text; the temperature is the sampler's to apply, to both.
    Randomness comes from `generator` alone.
    """

    def __call__(
        self, target: Logits, draft: Logits, text: Sequence[int], temperature: float, generator: torch.Generator
    ) -> Sequence[int]: ...


def tables(seed: int) -> tuple[Logits, Logits]:
    """A target and a draft model whose next token depends on the last two; unlike enough to be refused often."""
    noise = torch.Generator().manual_seed(seed)
    target = 1.3 * torch.randn(VOCAB, VOCAB, VOCAB, generator=noise, dtype=torch.float64)
    other = 0.5 * target + 1.0 * torch.randn(VOCAB, VOCAB, VOCAB, generator=noise, dtype=torch.float64)
    return (lambda text: target[text[-2], text[-1]]), (lambda text: other[text[-2], text[-1]])


def chances(target: Logits, temperature: float) -> dict[Any, float]:
    """The exact chance of every word of TOKENS tokens behind the prompt."""
    law = Sampling(temperature=temperature).law
    found: dict[Any, float] = {}
    for word in itertools.product(range(VOCAB), repeat=TOKENS):
        text, chance = list(PROMPT), 1.0
        for token in word:
            chance *= float(law(target(text)).dense(VOCAB)[token])
            text.append(token)
        found[word] = chance
    return found


def sampler(run: Sampler, *, count: int = 6000, temperature: float = 0.6, seed: int = 0) -> Check:
    """Whether the joint law of a sampler's first tokens is the target's, by chi-square against exact chances.

    Raises UsageError where a round gives no tokens, or ids outside the vocabulary.
    """
    target, draft = tables(seed)
    generator = torch.Generator().manual_seed(seed)
    words: list[tuple[int, ...]] = []
    for _ in range(count):
        text = list(PROMPT)
        while len(text) < len(PROMPT) + TOKENS:
            more = [int(token) for token in run(target, draft, tuple(text), temperature, generator)]
            if not more or any(not 0 <= token < VOCAB for token in more):
                raise UsageError(f"the sampler gave {more!r:.80}; a round gives 1 or more ids of 0 to {VOCAB - 1}")
            text += more
        words.append(tuple(text[len(PROMPT) : len(PROMPT) + TOKENS]))
    exact = chances(target, temperature)
    fit = against(words, exact)
    figures = {
        "samples": count, "tokens": TOKENS, "temperature": temperature, "chi2": fit.statistic, "freedom": fit.freedom,
        "pvalue": fit.pvalue, "alpha": ALPHA, "total_variation": total_variation(words, exact),
    }  # fmt: skip
    if fit.pvalue < ALPHA:
        told = f"its tokens are not from the target's law (p = {fit.pvalue:.1e})"
        return Check("foreign sampler", "fail", told, figures)
    return Check("foreign sampler", "pass", f"its tokens follow the target's law (p = {fit.pvalue:.2f})", figures)


def load_sampler(reference: str) -> Sampler:
    """The callable of "package.module:name" or "path/file.py:name". Raises UsageError where there is none."""
    where, _, name = reference.rpartition(":")
    if not where or not name:
        raise UsageError(f"--sampler {reference}: give module:function or file.py:function")
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location("audited_sampler", Path(where))
            if spec is None or spec.loader is None or not Path(where).is_file():
                raise UsageError(f"--sampler {where}: no such file")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
    except ImportError as error:
        raise UsageError(f"--sampler {where}: {error}") from None
    found = getattr(module, name, None)
    if not callable(found):
        raise UsageError(f"--sampler {where} has no function {name!r}")
    return found
