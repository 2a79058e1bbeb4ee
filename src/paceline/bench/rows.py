"""From cells to the JSON document: rows, references, summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.bench import measures
from paceline.bench.arms import Ours, Run
from paceline.bench.intervals import ENOUGH, draws, interval
from paceline.bench.measures import GEOMETRIC, MEASURES, RATIOS, Trio
from paceline.bench.run import Agreement, Cell, Plan
from paceline.trace import survival

HF = "hf-generate"  # the reference that speedup_vs_hf divides by
FOREIGN = {"plain_gain": None, "spec_gain": None, "plain_gain_ci": None, "spec_gain_ci": None}  # of our loop only
Ledgers = dict[str, NDArray[np.float64]]  # by arm


def document(plan: Plan, cells: Sequence[Cell], counted: Sequence[str], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a benchmark. counted: the tasks of the geometric mean."""
    shown = [plan.baseline, *plan.drafters]
    return {
        "meta": dict(meta),
        "rows": [row(arm, cell) for cell in cells for arm in shown],
        "references": [entry for cell in cells for entry in references(plan, cell)],
        "summary": summary(plan, cells, counted),
    }


def ledgers(cell: Cell) -> Ledgers:
    """Each arm's sums, prompt by prompt."""
    return {
        name: measures.ledger(runs, [ask.score(run.text) for ask, run in zip(cell.asks, runs, strict=True)])
        for name, runs in cell.runs.items()
    }


def row(arm: Ours, cell: Cell) -> dict[str, Any]:
    """One drafter on one task at one temperature."""
    return {
        "drafter": arm.name, "level": arm.level, "task": cell.task, "temperature": cell.sampling.temperature,
        **_told(cell, arm.name),
    }  # fmt: skip


def _told(cell: Cell, name: str) -> dict[str, Any]:
    """What rows and the oracle have in common."""
    runs = cell.runs[name]
    return {
        **measured(ledgers(cell), name),
        "survival": survival([r for run in runs for r in run.rounds]),
        "peak_mem_mb": max(run.peak_mem_mb for run in runs),
        **_agreement(cell.agreement.get(name)),
        **_counts(runs),
        "phases_ms": measures.phases_ms(runs),
    }


def _agreement(found: Agreement | None) -> dict[str, Any]:
    """Nulls where texts cannot be compared."""
    if found is None:
        return {"identical": None, "ties": None, "faults": None}
    return {"identical": found.identical, "ties": found.ties, "faults": found.faults}


def _counts(runs: Sequence[Run]) -> dict[str, int]:
    return {"n_prompts": len(runs), "n_tokens": sum(len(run.token_ids) for run in runs)}


def measured(lines: Ledgers, name: str) -> dict[str, Any]:
    """Each measure with its interval, which is null below eight prompts."""
    found: dict[str, Any] = {}
    whole, drawn = _trio(lines, name, None), None
    if len(lines[name]) >= ENOUGH:
        drawn = _trio(lines, name, draws(len(lines[name])))
    for key, measure in MEASURES.items():
        found[key] = _number(measure(whole))
        found[f"{key}_ci"] = interval(measure(drawn)) if drawn is not None else None
    return found


def _trio(lines: Ledgers, name: str, counts: NDArray[np.int64] | None) -> Trio:
    def sums(arm: str) -> measures.Sums:
        return measures.total(lines[arm]) if counts is None else measures.resampled(lines[arm], counts)

    return Trio(sums(name), sums("none"), sums(HF) if HF in lines else None)


def _number(value: Any) -> float | None:
    return float(value) if value is not None and np.isfinite(value) else None


def references(plan: Plan, cell: Cell) -> list[dict[str, Any]]:
    """The foreign loops and the oracle on one task at one temperature; null with a reason where one cannot."""
    names = [arm.name for arm in plan.references] + (["oracle"] if plan.oracle else [])
    found: list[dict[str, Any]] = []
    for name in names:
        entry: dict[str, Any] = {"name": name, "task": cell.task, "temperature": cell.sampling.temperature}
        if name in cell.unavailable:
            found.append({**entry, "tokens_per_s": None, "reason": cell.unavailable[name]})
        elif name == "oracle":
            found.append({**entry, "guesses": plan.oracle, **_told(cell, name), "reason": None})
        else:
            found.append({**entry, **_foreign(cell, name), "reason": None})
    return found


def _foreign(cell: Cell, name: str) -> dict[str, Any]:
    """What can be seen of a loop that is not ours: times, texts, and its speed beside its own plain loop."""
    lines, runs = ledgers(cell), cell.runs[name]
    ours, hf = measures.total(lines[name]), lines.get(HF)
    gain = measures.speedup_e2e(ours, measures.total(hf)) if hf is not None else None
    return {
        "tokens_per_s": _number(measures.tokens_per_s(ours)),
        "tokens_per_s_e2e": _number(measures.tokens_per_s_e2e(ours)),
        "e2e_ms": 1000 * float(ours.seconds) / len(runs),
        "speedup_vs_hf": _number(gain),
        "accuracy": _number(measures.accuracy(ours)),
        "peak_mem_mb": max(run.peak_mem_mb for run in runs),
        **_agreement(cell.agreement.get(name)),
        **_counts(runs),
    }


def summary(plan: Plan, cells: Sequence[Cell], counted: Sequence[str]) -> dict[str, Any]:
    """Means over the counted tasks, drafter by drafter and reference by reference; ties and faults of all tasks."""
    drafters = [arm.name for arm in (plan.baseline, *plan.drafters)]
    references = [*(arm.name for arm in plan.references), "oracle"]
    of_task: dict[float, list[Cell]] = {}
    for cell in cells:
        of_task.setdefault(cell.sampling.temperature, []).extend([cell] if cell.task in counted else [])
    agreements = [found for cell in cells for found in cell.agreement.values()]
    return {
        "tasks": [task for task in dict.fromkeys(cell.task for cell in cells) if task in counted],
        "means": [{"drafter": name, **means(some, name)} for some in of_task.values() for name in drafters if some],
        "references": [
            {"name": name, **means(some, name), **({} if name == "oracle" else FOREIGN)}
            for some in of_task.values()
            for name in references
            if some and all(name in cell.runs for cell in some)
        ],
        "faults": sum(found.faults for found in agreements),
        "ties": sum(found.ties for found in agreements),
        "compared": sum(len(cell.asks) for cell in cells for arm in cell.agreement if arm != plan.baseline.name),
    }


def means(cells: Sequence[Cell], name: str) -> dict[str, Any]:
    """One arm over cells of one temperature: geometric means of ratios and speeds, arithmetic means of the rest."""
    found: dict[str, Any] = {"temperature": cells[0].sampling.temperature}
    lines = [ledgers(cell) for cell in cells]
    counts = [draws(len(some[name]), seed=i) for i, some in enumerate(lines)]  # tasks are drawn independently
    enough = min(len(some[name]) for some in lines) >= ENOUGH
    wholes = [_trio(some, name, None) for some in lines]
    drawn = [_trio(some, name, count) for some, count in zip(lines, counts, strict=True)] if enough else []
    for key in (*RATIOS, "tau", "tau_eff", "tokens_per_s", "tokens_per_s_e2e", "accuracy"):
        found[key] = _number(_mean(key, wholes))
        found[f"{key}_ci"] = interval(_mean(key, drawn)) if drawn and found[key] is not None else None
    agreed = [cell.agreement[name] for cell in cells if name in cell.agreement]
    pooled = Agreement(all(a.identical for a in agreed), sum(a.ties for a in agreed), sum(a.faults for a in agreed))
    return found | _agreement(pooled if agreed else None)


def _mean(key: str, trios: Sequence[Trio]) -> Any:
    values = [value for trio in trios if (value := MEASURES[key](trio)) is not None]
    if len(values) < len(trios):
        return None
    return measures.geometric(values) if key in GEOMETRIC else _arithmetic(values)


def _arithmetic(values: Sequence[Any]) -> Any:
    return np.mean(np.array(values, dtype=np.float64), axis=0)
