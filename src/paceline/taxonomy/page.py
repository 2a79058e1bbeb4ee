"""The taxonomy as one page of Markdown: tables by role, the gains as published, and the words axis by axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paceline.taxonomy import axes, methods
from paceline.taxonomy.record import AXES, Claim, Method

INTRO = """# Methods of speculative and parallel decoding

Written by `make docs` from `src/paceline/taxonomy/methods.toml`; `paceline methods --help` says how to query it.

{count} records, {published} of them published methods; {runs} run here. An empty cell is not known to us;
"none" says that there is none. Every record says on what it rests. Gains are the authors' own or come from whom the
claim names; with different windows, models and hardware they do not compare with each other. The fields are orthogonal:
a drafter's level says nothing of its tree, a tree nothing of the rule that verifies it.
"""
SHOWN = ("source", "injection", "amount")
HEADS = {
    "drafter": ("level", "kind", "dependence", *SHOWN, "structure", "verification", "guarantee"),
    "target": ("level", "kind", "dependence", "structure", "verification", "guarantee", "training"),
    "structure": ("structure", "verification", "guarantee"),
    "verification": ("structure", "verification", "guarantee", "training"),
    "objective": ("kind", "training"),
    "policy": ("structure", "amount", "verification", "guarantee", "training"),
}  # fmt: skip


def page() -> str:
    """Markdown of all records."""
    every = methods()
    count, published, runs = len(every), sum(m.published for m in every), sum(m.runnable for m in every)
    parts = [INTRO.format(count=count, published=published, runs=runs)]
    for role, meaning in axes()["role"].items():
        chosen = [m for m in every if m.role == role]
        parts += [f"## {role.capitalize()}: {meaning}", _records(chosen, HEADS[role])]
    parts += ["## Gains as published", _claims(every), "## Notes", _notes(every), "## The words", _words()]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def told(claim: Claim) -> str:
    """One claim as a phrase: 1.80× speedup (mean; Qwen2.5-VL-7B; e2e; code)."""
    numbers = " to ".join(f"{number:.2f}" for number in claim.gain)
    bonus = {True: "bonus counted", False: "bonus not counted", None: None}[claim.bonus]
    if claim.measure == "tau" and claim.against == "plain" and bonus is None:
        bonus = "bonus not stated"
    timed = claim.window or ("window not stated" if claim.measure in ("speedup", "throughput") else None)
    over = None if claim.against == "plain" else f"over {claim.against}"
    details = [word for word in (over, claim.of, claim.on, timed, bonus, claim.grade) if word]
    unit = "" if claim.measure == "tau" and claim.against == "plain" else "×"
    return f"{numbers}{unit} {claim.measure} ({'; '.join(details)})"


def reference(method: Method) -> str:
    """Where the method is described, as Markdown."""
    if method.arxiv:
        return f"[{method.arxiv}](https://arxiv.org/abs/{method.arxiv})"
    return method.paper or ""


def _records(chosen: Sequence[Method], heads: Sequence[str]) -> str:
    rows = [
        (
            f"**{m.title}** `{m.name}`" + (" (runs here)" if m.runnable else ""),
            *(", ".join(m.words(axis) or ()) for axis in heads),
            ", ".join(m.modality),
            reference(m),
            f"[{m.code}](https://github.com/{m.code})" if m.code else "",
            ", ".join(m.evidence),
        )
        for m in chosen
    ]
    return _table(("method", *heads, "modality", "paper", "code", "rests on"), rows)


def _claims(every: Iterable[Method]) -> str:
    return _table(("method", "gain"), [(f"`{m.name}`", told(claim)) for m in every for claim in m.claims])


def _notes(every: Iterable[Method]) -> str:
    return "\n".join(f"- `{m.name}`: {m.note}" for m in every if m.note)


def _words() -> str:
    parts = [f"**{axis.replace('_', ' ')}**\n\n" + _table(("word", "meaning"), axes()[axis].items()) for axis in AXES]
    return "\n\n".join(parts)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
