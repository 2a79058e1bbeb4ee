"""Texts that must be one: plain against plain, drafted against plain, greedy or by the Gumbel race."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from paceline.answer import Answer, answer_prompts
from paceline.audit.check import Check, Divergence, Outcome
from paceline.core import Drafter, Prompt
from paceline.drafters import method
from paceline.identity import compare, scores
from paceline.sampling import Sampling

CONTEXT = 12  # tokens shown before a divergence
Texts = Sequence[Sequence[int]]


def ids_of(answers: Sequence[Answer]) -> list[tuple[int, ...]]:
    """Their tokens."""
    return [answer.token_ids for answer in answers]


def alone(target: Any, drafter: Drafter, prompts: Sequence[Prompt], sampling: Sampling) -> list[Answer]:
    """Each prompt answered by itself; prompt i with seed + i."""
    return [
        answer_prompts(target, drafter, [prompt], replace(sampling, seed=sampling.seed + i))[0]
        for i, prompt in enumerate(prompts)
    ]


def divergences(
    target: Any, prompts: Sequence[Prompt], sampling: Sampling, ours: Texts, reference: Texts
) -> list[Divergence]:
    """The first divergence of each text from its reference, judged in float64; prompt i was drawn with seed + i."""
    found: list[Divergence] = []
    for i, (prompt, mine, theirs) in enumerate(zip(prompts, ours, reference, strict=True)):
        if list(mine) == list(theirs):
            continue
        judged = compare(target, prompt, sampling, sampling.seed + i, mine, theirs)
        at = judged.first or 0
        here = scores(target, prompt, mine[:at], sampling, sampling.seed + i)
        best = here.topk(min(2, len(here))).values
        found.append(Divergence(
            i, at, target.decode(mine[max(0, at - CONTEXT) : at]), _spelled(target, mine[at : at + 1]),
            _spelled(target, theirs[at : at + 1]), "tie" if judged.ties else "fault", judged.margin, judged.noise,
            float(best[0] - best[-1]),
        ))  # fmt: skip
    return found


def _spelled(target: Any, ids: Sequence[int]) -> str:
    """The token as text and number; nothing where the text has ended."""
    return f"{target.decode(ids)} [{ids[0]}]" if ids else "(end)"


def judged(
    name: str, target: Any, prompts: Sequence[Prompt], sampling: Sampling, ours: Texts, reference: Texts
) -> Check:
    """A check that texts are identical: it fails by faults, not by ties."""
    found = divergences(target, prompts, sampling, ours, reference)
    faults = sum(each.kind == "fault" for each in found)
    tokens = sum(map(len, ours))
    outcome: Outcome = "fail" if faults else "pass"
    told = (
        "identical"
        if not found
        else f"{len(found)} of {len(prompts)} texts diverge: {faults} faults, " + (f"{len(found) - faults} ties")
    )
    figures = {
        "identical": not found, "prompts": len(prompts), "tokens": tokens, "faults": faults,
        "ties": len(found) - faults, "margins": [each.margin for each in found],
        "dtype": str(getattr(target, "dtype", "")).removeprefix("torch."),
    }  # fmt: skip
    return Check(name, outcome, f"{told} ({tokens} tokens)", figures, found)


def greedy(target: Any, drafter: Drafter, prompts: Sequence[Prompt], budget: int, label: str) -> list[Check]:
    """Greedy identity in the target's precision, and the control: does plain decoding agree with itself in a batch?"""
    sampling, plain = Sampling(max_new_tokens=budget), method("none")()
    reference = ids_of(alone(target, plain, prompts, sampling))
    again = ids_of(answer_prompts(target, plain, prompts, sampling))
    control = judged(f"plain = plain, {label}", target, prompts, sampling, again, reference)
    ours = ids_of(alone(target, drafter, prompts, sampling))
    drafted = judged(f"greedy identity, {label}", target, prompts, sampling, ours, reference)
    if control.outcome == "fail":
        told = f"plain decoding alone and in a batch are two texts already: {control.says}"
        control = replace(control, outcome="undecided", says=told)
        drafted = replace(drafted, outcome="undecided" if drafted.outcome == "fail" else drafted.outcome)
    return [control, drafted]


def race(target: Any, drafter: Drafter, prompts: Sequence[Prompt], sampling: Sampling) -> Check:
    """Token equality at T > 0: under the Gumbel race drafted texts are plain ones with the same seeds."""
    ours = ids_of(alone(target, drafter, prompts, sampling))
    reference = ids_of(alone(target, method("none")(), prompts, sampling))
    return judged(f"Gumbel token equality, T = {sampling.temperature:g}", target, prompts, sampling, ours, reference)
