"""Public benchmarks as traffic: MMT-Bench, SEED-Bench, ScienceQA, OCRBench, ChartQA, MathVista, MMSpec."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from paceline.bench.public.benchmark import Benchmark, Question
from paceline.bench.public.reading import FORMS, rows
from paceline.bench.traffic import Ask, message
from paceline.errors import UsageError, unknown

SUITES: Mapping[str, str] = MappingProxyType({
    "mmt-bench": "paceline.bench.public.mmt:MMT",
    "seed-bench": "paceline.bench.public.seed:SEED",
    "scienceqa": "paceline.bench.public.science:SCIENCE",
    "ocrbench": "paceline.bench.public.ocrbench:OCRBENCH",
    "chartqa": "paceline.bench.public.chartqa:CHARTQA",
    "mathvista": "paceline.bench.public.mathvista:MATHVISTA",
    "mmspec": "paceline.bench.public.mmspec:MMSPEC",
})  # fmt: skip
LONG = "-explain"  # ending of the task that asks for a long answer
EXPLAIN = "Explain your answer in at least 150 words: describe what you see and how it leads to the answer."


def benchmark(name: str) -> Benchmark:
    """The benchmark of this name, imported on use. Raises UsageError for an unknown one, with the nearest."""
    if name not in SUITES:
        raise unknown("public benchmark", name, SUITES)
    module, _, attribute = SUITES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def asks_of(
    name: str, data: str | None, wanted: Sequence[str], limit: int, longest_edge: int | None = None
) -> dict[str, list[Ask]]:
    """The first `limit` questions of each task, by task. A task is a part of the benchmark, asked for its natural
    length, or that part with `-explain`, the same questions asked for a long answer; "all" means each of both.

    data: a local copy or a hub id; None: the published table. Raises UsageError for data that is missing or of
    another schema, which names file, line and column, and for unknown tasks.
    """
    chosen = benchmark(name)
    if chosen.parts is not None:
        _known(name, wanted, chosen.parts)
    source = data or chosen.hub
    if not source:
        raise UsageError(f"{chosen.title} is published as files: say with --data where they are ({FORMS})")
    found = _questions(chosen, source, _parts(wanted, chosen.parts), limit)
    tasks = _known(name, wanted, tuple(found))
    return {task: [_ask(task, question, longest_edge) for question in found[_part(task)]] for task in tasks}


def _known(name: str, wanted: Sequence[str], parts: Sequence[str]) -> list[str]:
    offered = [*parts, *(part + LONG for part in parts)]
    for task in wanted:
        if task != "all" and task not in offered:
            raise unknown(f"task of the suite {name}", task, [*offered, "all"])
    return offered if "all" in wanted or not wanted else list(dict.fromkeys(wanted))


def _part(task: str) -> str:
    return task.removesuffix(LONG)


def _parts(wanted: Sequence[str], parts: Sequence[str] | None) -> set[str] | None:
    """The parts that are needed; None: all that turn up."""
    if "all" in wanted or not wanted:
        return None if parts is None else set(parts)
    return {_part(task) for task in wanted} if parts is not None else None


def _questions(chosen: Benchmark, source: str, parts: set[str] | None, limit: int) -> dict[str, list[Question]]:
    """Up to `limit` questions a part, in the order of the rows; reads on until every part that is needed is full."""
    found: dict[str, list[Question]] = {part: [] for part in chosen.parts or ()}
    count = 0
    for row in rows(source, chosen.config, chosen.splits):
        row.require(chosen.columns, chosen.title)
        count += 1
        some = found.setdefault(chosen.part(row), [])
        if len(some) < limit:
            some.append(chosen.question(row))
        if parts is not None and all(len(found[part]) >= limit for part in parts):
            break
    if not count:
        raise UsageError(f"--data {source} holds no rows")
    empty = sorted(part for part in parts or () if not found[part])
    if empty:
        raise UsageError(f"--data {source} holds no questions of {', '.join(empty)} among its {count} rows")
    return found


def _ask(task: str, question: Question, longest_edge: int | None) -> Ask:
    ending = EXPLAIN if task.endswith(LONG) else question.brief
    prompt = "\n".join(filter(None, (question.prompt, ending)))
    return Ask(task, message(prompt, question.pictures), longest_edge, right=question.right)
