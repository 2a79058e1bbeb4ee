"""The grid: task by task and temperature by temperature, all arms answer the same prompts in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from paceline.bench.arms import Arm, Ours, Run, Unavailable, encode
from paceline.bench.traffic import Ask
from paceline.drafters.free.synthetic import Synthetic
from paceline.sampling import Sampling

WARM = 4  # tokens that each arm writes before its first timed answer of a task
Step = Callable[[str, str, float], None]  # (arm, task, temperature): one answer is done


@dataclass(frozen=True, slots=True)
class Agreement:
    """Prompts on which an arm's ids differ from plain decoding's, and why."""

    identical: bool
    ties: int
    faults: int


@dataclass(frozen=True, slots=True)
class Cell:
    """All answers to one task at one temperature: a run a prompt, in the order of the prompts."""

    task: str
    sampling: Sampling
    asks: Sequence[Ask]
    runs: Mapping[str, list[Run]]  # by arm; "none" is plain decoding
    unavailable: Mapping[str, str]  # arm -> reason
    agreement: Mapping[str, Agreement]  # by arm; absent where texts cannot be compared


@dataclass(frozen=True, slots=True)
class Plan:
    """Who answers. The baseline is the arm called "none", plain decoding in our loop."""

    target: Any  # an HFTarget
    baseline: Ours
    drafters: Sequence[Ours]
    references: Sequence[Arm] = ()
    coupling: str = "gumbel"
    repeats: int = 1  # of each answer; the one of median time counts
    oracle: int = 8  # guesses a round of the drafter that knows the answer; 0: no oracle

    @property
    def arms(self) -> list[Arm]:
        """All but the oracle, the baseline first."""
        return [self.baseline, *self.drafters, *self.references]

    def answers(self, asks: int) -> int:
        """Timed answers that so many prompts cause."""
        return asks * (len(self.arms) + (self.oracle > 0))


def measure(plan: Plan, task: str, asks: Sequence[Ask], sampling: Sampling, step: Step) -> Cell:
    """Let all arms answer; all draw prompt i with seed + i. An arm that cannot is named with its reason."""
    runs: dict[str, list[Run]] = {arm.name: [] for arm in plan.arms}
    unavailable = {arm.name: reason for arm in plan.arms if (reason := _warm(arm, asks[0], sampling))}
    comparable = plan.coupling == "gumbel" or sampling.temperature == 0
    if plan.oracle and not comparable:
        unavailable["oracle"] = "under maximal above temperature 0 the text is not known beforehand"
    for i, ask in enumerate(asks):
        drawn = replace(sampling, seed=sampling.seed + i)
        for arm in _rotated(plan.arms, i):
            if arm.name not in unavailable:
                _answer(arm, ask, drawn, plan.repeats, runs, unavailable)
            step(arm.name, task, sampling.temperature)
        if plan.oracle:
            if "oracle" not in unavailable:
                knows = Synthetic((runs["none"][-1].token_ids,), guesses=plan.oracle)
                oracle = Ours("oracle", plan.target, knows, plan.coupling)
                _answer(oracle, ask, drawn, plan.repeats, runs, unavailable)
            step("oracle", task, sampling.temperature)
    done = {name: told for name, told in runs.items() if name not in unavailable}
    return Cell(task, sampling, asks, done, unavailable, _agreements(plan, asks, sampling, done, comparable))


def _rotated(arms: Sequence[Arm], turn: int) -> list[Arm]:
    """Nobody always goes first, and nobody always follows the same arm's caches."""
    at = turn % len(arms)
    return [*arms[at:], *arms[:at]]


def _warm(arm: Arm, ask: Ask, sampling: Sampling) -> str:
    try:
        arm.answer(ask, replace(sampling, max_new_tokens=min(WARM, sampling.max_new_tokens)))
    except Unavailable as reason:
        return str(reason)
    return ""


def _answer(
    arm: Arm, ask: Ask, sampling: Sampling, repeats: int, runs: dict[str, list[Run]], unavailable: dict[str, str]
) -> None:
    try:
        tries = sorted((arm.answer(ask, sampling) for _ in range(repeats)), key=lambda run: run.seconds)
    except Unavailable as reason:
        unavailable[arm.name] = str(reason)
        return
    runs.setdefault(arm.name, []).append(tries[(len(tries) - 1) // 2])


def _agreements(
    plan: Plan, asks: Sequence[Ask], sampling: Sampling, runs: Mapping[str, list[Run]], comparable: bool
) -> dict[str, Agreement]:
    """Each arm of ours against the baseline; foreign loops only when greedy, since they draw with other noise."""
    ours = {plan.baseline.name, *(arm.name for arm in plan.drafters), "oracle"}
    greedy = sampling.temperature == 0
    return {
        name: _agreement(plan.target, asks, sampling, told, runs["none"])
        for name, told in runs.items()
        if greedy or (comparable and name in ours)
    }


def _agreement(
    target: Any, asks: Sequence[Ask], sampling: Sampling, told: Sequence[Run], plain: Sequence[Run]
) -> Agreement:
    from paceline.identity import compare

    ties = faults = differ = 0
    for i, (ask, run, base) in enumerate(zip(asks, told, plain, strict=True)):
        if run.token_ids != base.token_ids:
            differ, seed = differ + 1, sampling.seed + i
            found = compare(target, encode(target, ask), sampling, seed, run.token_ids, base.token_ids)
            ties, faults = ties + found.ties, faults + found.faults
    return Agreement(differ == 0, ties, faults)
