"""From cells to the JSON document of the visual benchmark: rows, lossy rows, slots, settling rounds, summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from paceline.bench.visual.arms import Arm
from paceline.bench.visual.measure import Cell, Drawn, measures
from paceline.bench.visual.mechanism import Slots
from paceline.clock import Phase
from paceline.drafters.free.jacobi import PLAIN
from paceline.painting import VisualTarget

ALL = "all"


def document(cells: Sequence[Cell], targets: Mapping[str, VisualTarget], meta: Mapping[str, Any]) -> dict[str, Any]:
    """The report of a benchmark. targets: by task. Lossy arms stand apart from those that are meant to be exact."""
    told = [row(cell, arm, part) for cell in cells for arm in cell.arms for part in _parts(cell)]
    return {
        "meta": {**meta, "layouts": {task: _shape(target) for task, target in targets.items()}},
        "rows": [r for r in told if r["kind"] != "lossy"],
        "lossy": [r for r in told if r["kind"] == "lossy"],
        "slots": [slots(cell, arm) for cell in cells for arm in cell.arms if arm.method != PLAIN],
        "settled": [settled(cell, arm) for cell in cells for arm in cell.arms],
        "summary": summary(told),
    }


def _parts(cell: Cell) -> list[str]:
    """All captions, then those seen in training and those not, where captions say so."""
    named = list(dict.fromkeys(caption.part for caption in cell.captions if caption.part))
    return [ALL, *named] if len(named) > 1 else [ALL]


def _of(cell: Cell, arm: Arm, part: str) -> list[Drawn]:
    drawn = zip(cell.captions, cell.drawn[arm.name], strict=True)
    return [run for caption, run in drawn if part in (ALL, caption.part)]


def row(cell: Cell, arm: Arm, part: str) -> dict[str, Any]:
    """One arm on the captions of one part of a task at one temperature."""
    ours, plain = _of(cell, arm, part), _of(cell, cell.arms[0], part)
    added = reduce(Slots.__add__, (run.slots for run in ours))
    return {
        "task": cell.task, "temperature": cell.sampling.temperature, "guidance": cell.guidance, "part": part,
        "method": arm.method, "window": arm.window, "start": arm.start, "kind": arm.kind,
        **measures(ours, plain), **added.rates(), **_identity(cell, arm, part),
        "n_captions": len(ours), "n_tokens": sum(len(run.tokens) for run in ours), "phases_ms": _phases_ms(ours),
    }  # fmt: skip


def _identity(cell: Cell, arm: Arm, part: str) -> dict[str, Any]:
    """Whether the tokens are plain decoding's; null for methods whose law is equal, but not their noise."""
    if arm.name not in cell.likeness:
        return {"identical": None, "ties": None, "faults": None}
    pairs = zip(cell.captions, cell.likeness[arm.name], strict=True)
    found = [told for caption, told in pairs if part in (ALL, caption.part)]
    return {
        "identical": all(told.identical for told in found),
        "ties": sum(told.ties for told in found),
        "faults": sum(told.faults for told in found),
    }


def _phases_ms(runs: Sequence[Drawn]) -> dict[Phase, float]:
    names: dict[Phase, None] = dict.fromkeys(phase for run in runs for phase in run.phases)
    return {name: 1000 * sum(run.phases.get(name, 0.0) for run in runs) / len(runs) for name in names}


def slots(cell: Cell, arm: Arm) -> dict[str, Any]:
    """The mechanism by slot, over all captions."""
    added = reduce(Slots.__add__, (run.slots for run in cell.drawn[arm.name]))
    return {**_key(cell, arm), "slots": added.by_slot()}


def settled(cell: Cell, arm: Arm) -> dict[str, Any]:
    """The first caption's grid: in which round each of its tokens was settled, in the order of generation."""
    return {**_key(cell, arm), "caption": cell.captions[0].text, "rounds": list(cell.drawn[arm.name][0].settled_in)}


def _key(cell: Cell, arm: Arm) -> dict[str, Any]:
    return {
        "task": cell.task, "temperature": cell.sampling.temperature, "method": arm.method, "window": arm.window,
        "start": arm.start, "kind": arm.kind,
    }  # fmt: skip


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the method is claimed for, read off the rows: gain over SJD and over the biased rule, at each window."""
    whole = [r for r in rows if r["part"] == ALL]
    found = []
    for r in whole:
        if r["kind"] != "exact" or r["method"] in (PLAIN, "sjd"):
            continue
        sjd, biased = (_beside(whole, r, rule) for rule in (_is_sjd, _is_biased))
        found.append(
            {
                **{key: r[key] for key in ("task", "temperature", "method", "window", "start", "nfe_ratio")},
                "over_sjd": r["nfe_ratio"] / sjd["nfe_ratio"] if sjd else None,
                "fewer_than_biased": 1 - r["nfe"] / biased["nfe"] if biased else None,
            }
        )
    told = {key: sum(r[key] or 0 for r in whole) for key in ("ties", "faults")}
    return {"gains": found, **told, "compared": sum(r["n_captions"] for r in whole if r["identical"] is not None)}


def _is_sjd(r: Mapping[str, Any]) -> bool:
    return r["method"] == "sjd"


def _is_biased(r: Mapping[str, Any]) -> bool:
    return r["kind"] == "biased"


def _beside(
    rows: Sequence[Mapping[str, Any]], r: Mapping[str, Any], rule: Callable[[Mapping[str, Any]], bool]
) -> Mapping[str, Any] | None:
    """The row of another method in the same setting."""
    same = ("task", "temperature", "window", "start")
    return next((o for o in rows if rule(o) and all(o[key] == r[key] for key in same)), None)


def _shape(target: VisualTarget) -> list[int]:
    layout = target.layout
    return [layout.frames, layout.height, layout.width]
