"""The grid on a target of exact answers: who answers when, what is compared, what the document says."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from laws.families import FAMILIES
from paceline.bench import rows
from paceline.bench.arms import Ours, Run, Unavailable
from paceline.bench.benchmark import all_names
from paceline.bench.memory import PeakMemory
from paceline.bench.run import Cell, Plan, measure
from paceline.bench.traffic import Ask
from paceline.cli.output import plain as jsonable
from paceline.drafters.ar.lm import SmallLM
from paceline.sampling import Sampling
from unit.bench.spelled import TARGET, Spelled, asks, ours

TEXTS = ("abc", "bcd", "cda", "dab", "acb", "bda", "cab", "dbc")
KEYS = set(
    "drafter level task temperature tau tau_eff survival speedup_decode speedup_e2e speedup_vs_hf plain_gain spec_gain "
    "efficiency overhead_share tokens_per_s peak_mem_mb identical ties faults n_prompts n_tokens accuracy "
    "phases_ms".split()
)
GREEDY, WARM = Sampling(max_new_tokens=12), Sampling(temperature=1, seed=3, max_new_tokens=12)


@dataclass
class Foreign:
    """A loop that is not ours: says what it is told to say, and notes when it was asked."""

    name: str
    says: Any  # (ask, sampling) -> ids
    asked: list[tuple[str, int, int]] = field(default_factory=list)

    def answer(self, ask: Ask, sampling: Sampling) -> Run:
        self.asked.append((ask.messages[0]["content"][-1]["text"], sampling.seed, sampling.max_new_tokens))
        ids = self.says(ask, sampling)
        return Run(ids, TARGET.decode(ids), 1.0, 0.5, 10.0)


def truth(ask: Ask, sampling: Sampling) -> tuple[int, ...]:
    return ours("none", FAMILIES["none"]).answer(ask, sampling).token_ids


def plan(*drafters: str, references: Any = (), coupling: str = "gumbel", oracle: int = 3) -> Plan:
    arms = [ours(name, FAMILIES[name], coupling) for name in drafters]
    return Plan(TARGET, ours("none", FAMILIES["none"], coupling), arms, references, coupling, oracle=oracle)


def run(plan: Plan, sampling: Sampling, *texts: str) -> Cell:
    return measure(plan, "mmt", asks(*(texts or TEXTS)), sampling, lambda *told: None)


@pytest.mark.parametrize("sampling", [GREEDY, WARM])
def test_every_drafter_writes_the_baselines_text(sampling: Sampling) -> None:
    cell = run(plan("lookup", "lm", "chosen-tree"), sampling)
    assert {told.identical for told in cell.agreement.values()} == {True}
    assert set(cell.agreement) == {"none", "lookup", "lm", "chosen-tree", "oracle"}
    assert len({r.token_ids for r in cell.runs["none"]}) > 1


def test_a_wrong_text_is_a_fault() -> None:
    """A small model posing as the target's drafter is harmless; one posing as the target is found out."""
    liar = Ours("liar", Spelled(TARGET.table.flip(0)), FAMILIES["none"])
    found = run(replace(plan(), drafters=[liar]), GREEDY).agreement["liar"]
    assert not found.identical
    assert found.faults > 0
    document = rows.document(
        replace(plan(), drafters=[liar]), [run(replace(plan(), drafters=[liar]), GREEDY)], ["mmt"], {}
    )
    assert document["summary"]["faults"] == found.faults


def test_a_tie_is_not_a_fault() -> None:
    """Two ids of equal score: either may win, and the report says so."""
    table = torch.zeros(4, 4, 4, dtype=torch.float64)
    tied = replace(TARGET, table=table)
    other = Ours("other", replace(TARGET, table=table.index_fill(2, torch.tensor([2]), 1e-300)), FAMILIES["none"])
    cell = run(Plan(tied, Ours("none", tied, FAMILIES["none"]), [other], oracle=0), GREEDY, "ab")
    assert cell.runs["other"][0].token_ids != cell.runs["none"][0].token_ids
    assert (cell.agreement["other"].ties, cell.agreement["other"].faults) == (1, 0)


@pytest.mark.parametrize("sampling", [GREEDY, WARM])
def test_the_oracle_is_the_ceiling(sampling: Sampling) -> None:
    cell = run(plan("lm", oracle=3), sampling)
    for answer in cell.runs["oracle"]:
        assert [r.accepted for r in answer.rounds[:-1]] == [3] * (len(answer.rounds) - 1)
    taus = {name: rows.measured(rows.ledgers(cell), name)["tau"] for name in cell.runs}
    assert taus["none"] == 1 < taus["lm"] < taus["oracle"] <= 4


def test_the_oracle_declines_where_the_text_is_not_known_beforehand() -> None:
    cell = run(plan("lm", coupling="maximal"), WARM)
    assert "maximal" in cell.unavailable["oracle"]
    assert "oracle" not in cell.runs
    assert cell.agreement == {}  # texts differ by design: nothing to compare
    assert run(plan("lm", coupling="maximal"), GREEDY).agreement["lm"].identical


def test_arms_take_turns_and_share_prompts_and_seeds() -> None:
    first, second = Foreign("first", truth), Foreign("second", truth)
    order: list[str] = []
    grid = plan(references=[first, second], oracle=0)
    measure(grid, "mmt", asks(*TEXTS[:3]), replace(WARM, seed=10), lambda arm, task, t: order.append(arm))
    assert order == ["none", "first", "second", "first", "second", "none", "second", "none", "first"]
    warm, *timed = first.asked
    assert warm == (TEXTS[0], 10, 4)
    assert timed == second.asked[1:] == [(text, 10 + i, 12) for i, text in enumerate(TEXTS[:3])]
    assert grid.answers(3) == len(order)


def test_an_arm_that_cannot_is_named_with_its_reason() -> None:
    def refuse(ask: Ask, sampling: Sampling) -> tuple[int, ...]:
        if sampling.max_new_tokens > 4 and sampling.seed > 0:  # neither in the warm-up nor at first
            raise Unavailable("not today")
        return (0,)

    cell = run(plan(references=[Foreign("sometimes", refuse)]), GREEDY)
    assert cell.unavailable == {"sometimes": "not today"}
    assert "sometimes" not in cell.runs
    [entry] = [
        e for e in rows.references(plan(references=[Foreign("sometimes", refuse)]), cell) if e["name"] == "sometimes"
    ]
    assert entry == {
        "name": "sometimes",
        "task": "mmt",
        "temperature": 0.0,
        "tokens_per_s": None,
        "reason": "not today",
    }


def test_the_median_of_repeats_counts() -> None:
    spans = iter([9.0, 1.0, 5.0, 3.0] * 2)

    @dataclass
    class Slow:
        name: str = "slow"

        def answer(self, ask: Ask, sampling: Sampling) -> Run:
            return Run((0,), "a", next(spans), 0.0, 0.0)

    cell = run(replace(plan(references=[Slow()]), repeats=3), replace(GREEDY, max_new_tokens=1), "ab")
    assert cell.runs["slow"][0].seconds == 3.0  # of 1, 5, 3; the 9 was the warm-up


def test_foreign_loops_are_compared_when_greedy_only() -> None:
    liar = Foreign("liar", lambda ask, sampling: tuple(3 - i for i in truth(ask, sampling)))
    greedy, warm = run(plan(references=[liar]), GREEDY), run(plan(references=[liar]), WARM)
    assert greedy.agreement["liar"].faults == len(TEXTS)
    assert "liar" not in warm.agreement


@pytest.mark.parametrize("prompts", [3, 8])
def test_the_document_has_every_key(prompts: int) -> None:
    grid = plan("lookup", "lm", references=[Foreign(rows.HF, truth)])
    cells = [run(grid, sampling, *TEXTS[:prompts]) for sampling in (GREEDY, WARM)]
    document = jsonable(rows.document(grid, cells, ["mmt"], {"command": "here"}))
    json.dumps(document, allow_nan=False)
    assert [(r["drafter"], r["temperature"]) for r in document["rows"]] == [
        (name, t) for t in (0.0, 1.0) for name in ("none", "lookup", "lm")
    ]
    for row in document["rows"]:
        assert set(row) >= KEYS
        assert row["n_prompts"] == prompts
        assert row["faults"] == 0
        assert row["speedup_vs_hf"] == pytest.approx(row["plain_gain"] * row["spec_gain"])
        assert row["tau"] == pytest.approx(1 + sum(row["survival"]))
        for key in ("tau", "speedup_decode", "speedup_e2e", "speedup_vs_hf", "efficiency", "accuracy"):
            span = row[f"{key}_ci"]
            assert span is None if prompts < 8 else span[0] <= row[key] <= span[1]
    assert {(e["name"], e["reason"]) for e in document["references"]} == {(rows.HF, None), ("oracle", None)}
    assert document["summary"]["faults"] == 0
    assert document["summary"]["compared"] == prompts * (2 * 3 + 1)  # lookup, lm, oracle twice; the foreign loop greedy


def test_the_summary_is_a_geometric_mean_over_the_counted_tasks() -> None:
    grid = plan("lm")
    cells = [replace(run(grid, GREEDY), task=task) for task in ("mmt", "seed", "long")]
    document = rows.document(grid, cells, ["mmt", "seed"], {})
    per_task = {r["task"]: r["speedup_decode"] for r in document["rows"] if r["drafter"] == "lm"}
    [mean] = [m for m in document["summary"]["means"] if m["drafter"] == "lm"]
    assert mean["speedup_decode"] == pytest.approx((per_task["mmt"] * per_task["seed"]) ** 0.5)
    assert document["summary"]["tasks"] == ["mmt", "seed"]
    low, high = mean["speedup_decode_ci"]
    assert low <= mean["speedup_decode"] <= high


def test_accuracy_is_the_suites() -> None:
    cell = run(plan(), GREEDY)
    expected = sum("a" in run.text for run in cell.runs["none"]) / len(TEXTS)
    assert rows.row(plan().baseline, cell)["accuracy"] != expected  # "a" must stand as a word, not as a letter
    assert rows.row(plan().baseline, cell)["accuracy"] == sum(run.text == "a" for run in cell.runs["none"]) / len(TEXTS)


def test_times_add_up() -> None:
    """What is not a phase stays small, and decode is what lies behind prefill."""
    answer = ours("lm", FAMILIES["lm"]).answer(asks("abc")[0], replace(WARM, max_new_tokens=200))
    before = sum(answer.phases.get(phase, 0.0) for phase in ("preprocess", "vision", "prefill"))
    assert answer.decode == pytest.approx(answer.seconds - before)
    assert 0.7 * answer.seconds < sum(answer.phases.values()) <= answer.seconds


def test_levels_come_from_the_drafters() -> None:
    assert ours("lm", FAMILIES["lm"]).level == SmallLM.level == 1
    assert ours("none", FAMILIES["none"]).level == 0


def test_what_assumes_the_answer_is_not_among_all() -> None:
    names = all_names(SimpleNamespace(name=""))
    assert "lookup" in names
    assert "synthetic" not in names


def test_peak_memory_is_seen_and_forgotten() -> None:
    cpu = torch.device("cpu")
    with PeakMemory(cpu) as quiet:
        pass
    with PeakMemory(cpu) as loud:
        bytearray(200 * 2**20)
    with PeakMemory(cpu) as again:
        pass
    assert loud.mb > quiet.mb + 150
    assert again.mb < loud.mb - 150
