"""Laws that must be one at T > 0: drafted samples against plain samples, and against the laws themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from paceline.answer import Row, follow
from paceline.audit.check import Check
from paceline.audit.statistics import ChiSquare, Ranks, pooled, ranks_of, two_samples
from paceline.clock import Stopwatch
from paceline.core import Coupling, Draft, Drafter, Prompt, Rule
from paceline.couplings import Gumbel
from paceline.drafters import method
from paceline.sampling import Sampling

ALPHA = 1e-4  # a sound sampler fails a check once in 10,000 audits
BATCH = 32  # rows side by side
APART = 1_000_003  # between the seeds of both samples


def samples(
    target: Any, drafter: Drafter, coupling: Coupling, prompt: Prompt, sampling: Sampling, count: int
) -> list[tuple[int, ...]]:
    """`count` texts of one prompt, with seeds from sampling.seed on."""
    texts: list[tuple[int, ...]] = []
    for begin in range(0, count, BATCH):
        seeds = range(sampling.seed + begin, sampling.seed + min(begin + BATCH, count))
        rows = [Row(target, prompt, sampling, seed, spelled=False) for seed in seeds]
        for _ in follow(target, drafter, rows, Rule(sampling.law, coupling), Stopwatch()):
            pass
        texts += [tuple(row.tokens) for row in rows]
    return texts


def laws_along(target: Any, prompt: Prompt, said: Sequence[int], sampling: Sampling) -> Tensor:
    """[n, V]; the law of each of these tokens behind the prompt and those before it."""
    with torch.inference_mode():
        session, context, seen = target.open([prompt])
        logits = seen.logits[0]
        if len(said) > 1:
            root = context.ids[:, len(prompt.ids) - 1]
            behind = session.forward(root, Draft.chain(torch.tensor([list(said[:-1])], device=root.device)))
            logits = torch.cat([logits, behind.logits[0, 1:]])
        return sampling.law(logits).dense(logits.shape[-1])


def maximal(
    target: Any, drafter: Drafter, prompts: Sequence[Prompt], sampling: Sampling, coupling: Coupling, count: int
) -> Check:
    """Samples under a coupling against plain ones on the first tokens of each prompt, and against the laws themselves.

    The first token is settled by prefill, without a draft; the words compared are of `max_new_tokens` tokens.
    """
    lengths = sorted({2, sampling.max_new_tokens})
    words, parts = {length: ChiSquare() for length in lengths}, list[Ranks]()
    generator = torch.Generator().manual_seed(sampling.seed)
    for i, prompt in enumerate(prompts):
        here = replace(sampling, seed=sampling.seed + i * count)
        ours = samples(target, drafter, coupling, prompt, here, count)
        plain = samples(target, method("none")(), Gumbel(), prompt, replace(here, seed=here.seed + APART), count)
        for length in lengths:
            words[length] += two_samples([text[:length] for text in ours], [text[:length] for text in plain])
        known: dict[tuple[int, ...], Tensor] = {}
        for text in ours:
            laws = known.get(text)
            if laws is None:
                laws = known[text] = laws_along(target, prompt, text, sampling)
            parts.append(ranks_of(laws[1:], text[1:], generator))
    return _told(sampling, count, len(prompts), words, pooled(parts))


def _told(sampling: Sampling, count: int, prompts: int, words: Mapping[int, ChiSquare], ranks: Ranks) -> Check:
    pvalues = [each.pvalue for each in words.values()] + [ranks.pvalue]
    pvalue = min(1.0, len(pvalues) * min(pvalues))
    figures = {
        "samples": count, "prompts": prompts, "tokens": sampling.max_new_tokens, "alpha": ALPHA, "pvalue": pvalue,
        "two_sample": [
            {"tokens": n, "chi2": each.statistic, "freedom": each.freedom, "pvalue": each.pvalue}
            for n, each in words.items()
        ],
        "ranks": {"tokens": len(ranks.ranks), "z": ranks.z, "pvalue": ranks.pvalue, "impossible": ranks.impossible},
    }  # fmt: skip
    name = f"Maximal law, T = {sampling.temperature:g}"
    if not any(each.freedom for each in words.values()) and len(ranks.ranks) < 50:
        return Check(name, "undecided", "the laws of these prompts are nearly points: nothing can be told", figures)
    if pvalue < ALPHA:
        return Check(name, "fail", f"drafted samples are not from the target's law (p = {pvalue:.1e})", figures)
    return Check(name, "pass", f"drafted and plain samples agree (p = {pvalue:.2f})", figures)
