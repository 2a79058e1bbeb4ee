"""Draw each caption with every arm in turn, and add up what that took."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline import identity
from paceline.bench.intervals import ENOUGH, draws, interval
from paceline.bench.visual.arms import Arm
from paceline.bench.visual.mechanism import Observer, Slots
from paceline.bench.visual.prompts import Caption
from paceline.clock import DECODE, Phase
from paceline.couplings import Gumbel
from paceline.identity import Comparison
from paceline.painting import Commission, VisualTarget, paint
from paceline.sampling import Sampling

Step = Callable[[str, str, float], None]  # arm, task, temperature


@dataclass(frozen=True, slots=True)
class Drawn:
    """One caption drawn by one arm, batch 1."""

    tokens: tuple[int, ...]
    settled_in: tuple[int, ...]
    accepted: tuple[int, ...]  # guesses that each round took
    phases: Mapping[Phase, float]  # seconds
    entropy: float  # nats, summed over tokens
    slots: Slots

    @property
    def nfe(self) -> int:
        return 1 + len(self.accepted)

    @property
    def decode(self) -> float:
        """Seconds behind prefill."""
        return sum(self.phases.get(phase, 0.0) for phase in DECODE)


@dataclass(frozen=True, slots=True)
class Cell:
    """All arms on the captions of one task at one temperature."""

    task: str
    sampling: Sampling
    guidance: float
    captions: tuple[Caption, ...]
    arms: tuple[Arm, ...]  # plain decoding first
    drawn: Mapping[str, Sequence[Drawn]]  # by arm, caption by caption
    likeness: Mapping[str, Sequence[Comparison]]  # the same with plain decoding, for arms that share its race


def draw(target: VisualTarget, arm: Arm, caption: str, sampling: Sampling, guidance: float) -> Drawn:
    """Draw one caption and watch."""
    watch = Observer.fresh()
    painted = paint(Commission(target, (caption,), sampling, guidance), *arm.build(target.layout), watch.see)
    [row] = painted.canvases
    accepted = tuple(r.accepted for r in row.rounds)
    return Drawn(tuple(row.tokens), tuple(row.settled_in), accepted, painted.phases, watch.entropy, watch.slots)


def measure(
    target: VisualTarget,
    task: str,
    arms: Sequence[Arm],
    captions: Sequence[Caption],
    sampling: Sampling,
    guidance: float,
    step: Step = lambda arm, task, temperature: None,
) -> Cell:
    """Each caption by every arm in turn, nobody always first; caption i is drawn with seed + i. The first is drawn
    twice, the first time to warm up."""
    drawn: dict[str, list[Drawn]] = {arm.name: [] for arm in arms}
    for arm in arms:
        draw(target, arm, captions[0].text, sampling, guidance)
    for i, caption in enumerate(captions):
        turn = i % len(arms)
        gc.collect()
        for arm in [*arms[turn:], *arms[:turn]]:
            this = replace(sampling, seed=sampling.seed + i)
            drawn[arm.name].append(draw(target, arm, caption.text, this, guidance))
            step(arm.name, task, sampling.temperature)
    plain, raced = drawn[arms[0].name], [arm for arm in arms if isinstance(arm.build(target.layout)[1], Gumbel)]
    likeness = {
        arm.name: [
            compare(target, caption.text, replace(sampling, seed=sampling.seed + i), guidance, ours.tokens, base.tokens)
            for i, (caption, ours, base) in enumerate(zip(captions, drawn[arm.name], plain, strict=True))
        ]
        for arm in raced
    }
    return Cell(task, sampling, guidance, tuple(captions), tuple(arms), drawn, likeness)


def compare(
    target: Any, caption: str, sampling: Sampling, guidance: float, ours: Sequence[int], plain: Sequence[int]
) -> Comparison:
    """Tokens drawn by the race beside plain decoding's with the same seed: identical, a tie of the floats, a fault."""
    if tuple(ours) == tuple(plain):
        return Comparison(True, 0, 0)
    guided = target.guided(guidance)
    law: Any = _Lawful(guided.rule_law(sampling))
    return identity.compare(guided, guided.encode_caption(caption), law, sampling.seed, ours, plain)


@dataclass(frozen=True, slots=True)
class _Lawful:
    """What `identity.compare` reads of a sampling: here with the row grammar before it."""

    law: Any


FIELDS = (
    "captions", "tokens", "nfe", "decode", "wall", "forward", "coupling", "rounds", "accepted", "squared", "entropy",
)  # fmt: skip


def ledger(runs: Sequence[Drawn]) -> NDArray[np.float64]:
    """[captions, fields]; one line a caption."""
    lines = []
    for run in runs:
        a, spent = np.array(run.accepted, dtype=float), run.phases
        forward = spent.get("target", 0.0)
        coupling = spent.get("settle", 0.0) + spent.get("draft", 0.0) + spent.get("commit", 0.0)
        lines.append(
            [
                1, len(run.tokens), run.nfe, run.decode, sum(spent.values()), forward, coupling, len(a), a.sum(),
                (a**2).sum(), run.entropy,
            ]
        )  # fmt: skip
    return np.array(lines, dtype=np.float64).reshape(len(runs), len(FIELDS))


def ratios(ours: NDArray[np.float64], plain: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """Measures from sums [..., fields] of an arm and of plain decoding."""
    o, p = ({name: sums[..., i] for i, name in enumerate(FIELDS)} for sums in (ours, plain))
    with np.errstate(divide="ignore", invalid="ignore"):
        t1, tL = p["forward"] / p["rounds"], o["forward"] / o["rounds"]
        nfe_ratio, wall_ratio = p["nfe"] / o["nfe"], p["decode"] / o["decode"]
        mean = o["accepted"] / o["rounds"]
        return {
            "nfe": o["nfe"] / o["captions"],
            "nfe_ratio": nfe_ratio,
            "wall_ms": 1000 * o["wall"] / o["captions"],
            "wall_ratio": wall_ratio,
            "forward_ms": 1000 * tL,
            "wall_share": wall_ratio / (nfe_ratio * t1 / tL),
            "coupling_share": o["coupling"] / o["forward"],
            "tau": 1 + mean,
            "accepted_variance": o["squared"] / o["rounds"] - mean**2,
            "entropy": o["entropy"] / o["tokens"],
        }


def measures(ours: Sequence[Drawn], plain: Sequence[Drawn]) -> dict[str, float | list[float] | None]:
    """Each measure with its interval over captions, which is null below eight of them."""
    mine, base = ledger(ours), ledger(plain)
    found: dict[str, float | list[float] | None] = {
        key: float(value) if np.isfinite(value) else None for key, value in ratios(mine.sum(0), base.sum(0)).items()
    }
    counts = draws(len(ours)) if len(ours) >= ENOUGH else None
    spread = {} if counts is None else ratios(counts @ mine, counts @ base)
    for key in list(found):
        found[f"{key}_ci"] = interval(spread.get(key))
    return found
