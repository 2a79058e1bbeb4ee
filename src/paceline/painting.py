"""From captions to grids of codes: the loop over a layout, row by row recorded and cut where the layout ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from paceline import trace
from paceline.clock import Clock, Phase, Stopwatch, silent
from paceline.core import Coupling, Drafter, Prompt, Rule, Target, Verdict, decode
from paceline.law import Law
from paceline.layout import Layout
from paceline.sampling import Sampling
from paceline.trace import Round, Trace


class VisualTarget(Target, Protocol):
    """A target that turns a caption into a grid of codes, and codes into frames."""

    @property
    def layout(self) -> Layout: ...
    @property
    def device(self) -> torch.device: ...
    def encode_caption(self, caption: str) -> Prompt: ...
    def guided(self, scale: float) -> Self:
        """The target under classifier-free guidance of this scale; 1 is none."""
        ...

    def rule_law(self, sampling: Sampling) -> Callable[[Tensor], Law]:
        """Logits to laws: the row grammar, then `sampling`."""
        ...

    def frames(self, tokens: Sequence[int]) -> list[Any]:
        """PIL pictures of a row's generated tokens, one a frame; -1: not yet drawn."""
        ...


@dataclass(slots=True)
class Canvas:
    """One row while it fills: what is settled, what is guessed behind that, and in which round each token settled."""

    size: int  # N, tokens of the layout
    seed: int
    prompt_length: int
    tokens: list[int] = field(default_factory=list[int])  # settled
    guessed: list[int] = field(default_factory=list[int])  # the newest outcomes behind them
    settled_in: list[int] = field(default_factory=list[int])  # round of each settled token; 0: prefill
    rounds: list[Round] = field(default_factory=list[Round])

    @property
    def finished(self) -> bool:
        return len(self.tokens) >= self.size

    def take(self, outcomes: list[int], settled: int, proposed: int, number: int) -> None:
        """Append a round: outcomes at all places of the window, of which the first `settled` are final."""
        kept = min(settled, self.size - len(self.tokens))
        self.tokens += outcomes[:kept]
        self.settled_in += [number] * kept
        self.guessed = [] if self.finished else outcomes[kept : kept + self.size - len(self.tokens)]
        if number:
            self.rounds.append(Round(proposed, settled - 1, kept))

    def shown(self, *, guesses: bool = True) -> list[int]:
        """[N]; settled tokens, then guesses if wanted, then -1."""
        known = self.tokens + (self.guessed if guesses else [])
        return known + [-1] * (self.size - len(known))

    def trace(self) -> Trace:
        """The record of a finished row."""
        return Trace(self.prompt_length, self.seed, tuple(self.tokens), tuple(self.rounds))

    @property
    def nfe(self) -> int:
        """Target forwards so far: prefill and one a round; a guided pair counts as one."""
        return 1 + len(self.rounds)

    @property
    def tau(self) -> float:
        return trace.tau(self.rounds)


@dataclass(frozen=True, slots=True)
class Stroke:
    """What one round did to the rows that are still being filled."""

    number: int  # 0: what prefill settled
    alive: tuple[int, ...]  # which canvas each row of the verdict belongs to
    verdict: Verdict
    canvases: tuple[Canvas, ...]  # all of them, this round included


def strokes(
    target: Target,
    drafter: Drafter,
    rule: Rule,
    prompts: Sequence[Prompt],
    seeds: Sequence[int],
    size: int,
    *,
    device: torch.device,
    clock: Clock = silent,
) -> Iterator[Stroke]:
    """Fill `size` places of each row side by side, a round at a time; rows that are full leave the batch at once."""
    canvases = tuple(Canvas(size, seed, len(p.ids)) for seed, p in zip(seeds, prompts, strict=True))
    rounds = decode(target, drafter, rule, prompts, torch.tensor(list(seeds), device=device), clock=clock)
    alive = list(range(len(canvases)))
    for number, verdict in enumerate(rounds):
        columns = zip(alive, _outcomes(verdict), verdict.length.tolist(), verdict.proposed.tolist(), strict=True)
        for row, outcomes, settled, proposed in columns:
            canvases[row].take(outcomes, settled, proposed, number)
        yield Stroke(number, tuple(alive), verdict, canvases)
        stay = [i for i, row in enumerate(alive) if not canvases[row].finished]
        if not stay:
            return
        if len(stay) < len(alive):
            rounds.keep(torch.tensor(stay, device=device))
            alive = [alive[i] for i in stay]


def _outcomes(verdict: Verdict) -> list[list[int]]:
    """Outcomes at the root and along the chain of each row, up to its own last guess."""
    drawn: Tensor = verdict.drawn
    guesses = (verdict.draft.tokens >= 0).sum(1).tolist()
    return [row[: count + 1] for row, count in zip(drawn.tolist(), guesses, strict=True)]


@dataclass(frozen=True, slots=True)
class Commission:
    """What is to be drawn, and from which laws. Row i is drawn with seed + i."""

    target: VisualTarget
    captions: tuple[str, ...]
    sampling: Sampling
    guidance: float = 1.0

    @property
    def seeds(self) -> list[int]:
        return [self.sampling.seed + i for i in range(len(self.captions))]


@dataclass(frozen=True, slots=True)
class Painting:
    """Finished rows, and what they took. The viewer's own time is in none of the phases."""

    canvases: tuple[Canvas, ...]
    phases: Mapping[Phase, float]  # seconds

    @property
    def nfe(self) -> float:
        """Target forwards a row, prefill included."""
        return sum(canvas.nfe for canvas in self.canvases) / len(self.canvases)

    @property
    def nfe_ratio(self) -> float:
        """Forwards of plain decoding, one a token, over ours."""
        return self.canvases[0].size / self.nfe

    @property
    def tau(self) -> float:
        return trace.tau([r for canvas in self.canvases for r in canvas.rounds])

    @property
    def wall(self) -> float:
        """Seconds from caption to the last code."""
        return sum(self.phases.values())


def paint(
    commission: Commission, drafter: Drafter, coupling: Coupling, watch: Callable[[Stroke], None] | None = None
) -> Painting:
    """Draw all rows side by side; `watch` sees every stroke. Raises UsageError for what the target cannot draw."""
    target = commission.target.guided(commission.guidance)
    clock = Stopwatch(target.device.type)
    with torch.inference_mode():
        with clock("preprocess"):
            prompts = [target.encode_caption(caption) for caption in commission.captions]
        rule = Rule(target.rule_law(commission.sampling), coupling)
        done: tuple[Canvas, ...] = ()
        for stroke in strokes(
            target, drafter, rule, prompts, commission.seeds, target.layout.size, device=target.device, clock=clock
        ):
            done = stroke.canvases
            if watch is not None:
                watch(stroke)
    return Painting(done, dict(clock.seconds))
