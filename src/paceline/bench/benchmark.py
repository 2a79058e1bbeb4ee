"""The benchmark as one call: who answers, what is asked, the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.bench import rows
from paceline.bench.arms import Arm, Ours
from paceline.bench.hf import Reference, small_model_of, untouched
from paceline.bench.meta import meta_of
from paceline.bench.run import Plan, Step, measure
from paceline.bench.traffic import Ask, in_geomean
from paceline.drafters import METHODS, method
from paceline.loading import load_drafter
from paceline.sampling import Sampling

LOOKUP = 8  # tokens that transformers' prompt lookup guesses: as many as ours at most


def plan_of(
    target: Any, drafters: Sequence[str], *, coupling: str = "gumbel", repeats: int = 1, hf: bool = True
) -> Plan:
    """The arms for these drafter names ("all": every one that can be loaded for this target) and references.

    Raises UsageError for a drafter that is unknown or does not fit the target.
    """
    wanted = all_names(target) if "all" in drafters else dict.fromkeys(drafters)
    named = [name for name in wanted if name != "none"]
    ours = [Ours(name, target, load_drafter(name, target), coupling) for name in named]
    baseline = Ours("none", target, load_drafter("none", target), coupling)
    return Plan(target, baseline, ours, references_of(target, ours) if hf else (), coupling, repeats)


def all_names(target: Any) -> list[str]:
    """Methods that need no weights and assume nothing, then the drafters that are bundled with the target."""
    from paceline import zoo

    kinds = {name: method(name) for name in METHODS}
    free = [name for name, kind in kinds.items() if not kind.trained and not getattr(kind, "assumed", False)]
    return [*free, *(zoo.drafters(target.name) if target.name else ())]


def references_of(target: Any, ours: Sequence[Ours]) -> list[Arm]:
    """Hugging Face `generate`: plain, with prompt lookup, and with each drafter that is a language model."""
    model = untouched(target)
    found: list[Arm] = [Reference(rows.HF, target, model), Reference("hf-lookup", target, model, lookup=LOOKUP)]
    for arm in ours:
        small = small_model_of(arm.drafter)
        if small is not None:
            found.append(Reference(f"hf-assistant-{Path(arm.name).name}", target, model, assistant=untouched(small)))
    return found


def benchmark(
    plan: Plan,
    asks: Mapping[str, Sequence[Ask]],
    samplings: Sequence[Sampling],
    *,
    suite: str = "m6",
    step: Step = lambda arm, task, temperature: None,
    settings: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Measure all tasks (name -> questions) at all settings; the document of design section 8.

    `settings` are further entries of its `meta`.
    """
    told = {
        "drafters": [arm.name for arm in (plan.baseline, *plan.drafters)], "tasks": list(asks),
        "temperatures": [sampling.temperature for sampling in samplings], **(settings or {}),
    }  # fmt: skip
    meta = meta_of(plan.target, told)
    cells = [measure(plan, task, some, sampling, step) for sampling in samplings for task, some in asks.items()]
    return rows.document(plan, cells, [task for task in asks if in_geomean(suite, task)], meta)
