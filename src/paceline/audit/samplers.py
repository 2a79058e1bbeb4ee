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
VOCAB, TOKENS = 4, 4
HARD = ((0.483, 0.167, 0.12, 0.23), (0.292, 0.606, 0.008, 0.093))  # p and q that noise shared by both moves farthest


class Sampler(Protocol):
    """One round: the tokens that it appends to `text`, accepted guesses and then one more.

    `target` and `draft` give raw logits after any text; the temperature is the sampler's to apply, to both.
    Randomness comes from `generator` alone.
    """

    def __call__(
        self, target: Logits, draft: Logits, text: Sequence[int], temperature: float, generator: torch.Generator
    ) -> Sequence[int]: ...


def tables(seed: int, temperature: float) -> tuple[Logits, Logits]:
    """A target and a draft model whose next token depends on the last two; unlike enough to be refused often.

    Right behind the prompt, their laws at this temperature are the hard ones.
    """
    noise = torch.Generator().manual_seed(seed)
    target = 1.3 * torch.randn(VOCAB, VOCAB, VOCAB, generator=noise, dtype=torch.float64)
    other = 0.5 * target + 1.0 * torch.randn(VOCAB, VOCAB, VOCAB, generator=noise, dtype=torch.float64)
    for table, probs in zip((target, other), HARD, strict=True):
        table[PROMPT[-2], PROMPT[-1]] = torch.tensor(probs, dtype=torch.float64).log() * temperature
    return (lambda text: target[text[-2], text[-1]]), (lambda text: other[text[-2], text[-1]])


def chances(target: Logits, temperature: float, length: int) -> dict[Any, float]:
    """The exact chance of every word of `length` tokens behind the prompt."""
    law = Sampling(temperature=temperature).law
    found: dict[Any, float] = {}
    for word in itertools.product(range(VOCAB), repeat=length):
        text: list[int] = list(PROMPT)
        chance = 1.0
        for token in word:
            chance *= float(law(target(text)).dense(VOCAB)[token])
            text.append(token)
        found[word] = chance
    return found


def sampler(run: Sampler, *, count: int = 6000, temperature: float = 0.6, seed: int = 0) -> Check:
    """Whether a sampler's tokens follow the target's law, by chi-square against exact chances.

    `count` rounds for the first token, and a third as many texts for the joint law of the first four. Raises
    UsageError where a round gives no tokens, or ids outside the vocabulary.
    """
    target, draft = tables(seed, temperature)
    generator = torch.Generator().manual_seed(seed)

    def word(length: int) -> tuple[int, ...]:
        text: list[int] = list(PROMPT)
        while len(text) < len(PROMPT) + length:
            more = [int(token) for token in run(target, draft, tuple(text), temperature, generator)]
            if not more or any(not 0 <= token < VOCAB for token in more):
                raise UsageError(f"the sampler gave {more!r:.80}; a round gives 1 or more ids of 0 to {VOCAB - 1}")
            text += more
        return tuple(text[len(PROMPT) : len(PROMPT) + length])

    fits: list[dict[str, Any]] = []
    for length, samples in ((1, count), (TOKENS, count // 3)):
        words, exact = [word(length) for _ in range(samples)], chances(target, temperature, length)
        fit = against(words, exact)
        apart = total_variation(words, exact)
        fits.append({
            "tokens": length, "samples": samples, "chi2": fit.statistic, "freedom": fit.freedom, "pvalue": fit.pvalue,
            "total_variation": apart,
        })  # fmt: skip
    pvalue = min(1.0, len(fits) * min(fit["pvalue"] for fit in fits))
    figures = {"temperature": temperature, "alpha": ALPHA, "pvalue": pvalue, "fits": fits}
    if pvalue < ALPHA:
        return Check("foreign sampler", "fail", f"its tokens are not from the target's law (p = {pvalue:.1e})", figures)
    return Check("foreign sampler", "pass", f"its tokens follow the target's law (p = {pvalue:.2f})", figures)


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
    found: Any = getattr(module, name, None)
    if not callable(found):
        raise UsageError(f"--sampler {where} has no function {name!r}")
    return found
