"""Jacobi decoding: the target's own last outcomes as guesses (SJD, Teng et al. 2025; SCD, So et al. 2026)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor

from paceline import law as laws
from paceline.clock import Clock, silent
from paceline.core import Context, Coupling, Draft, Drafter, Needs, Rule, Target, TargetSession, Verdict
from paceline.couplings import COUPLINGS, Gumbel, Maximal
from paceline.dice import Dice
from paceline.drafters.free.jacobi_starts import STARTS, Sibling, Start, View, begin
from paceline.drafters.free.none import NoDraft
from paceline.errors import UsageError, unknown
from paceline.law import Law, Point
from paceline.layout import Layout

LONGEST = 128  # inputs of one forward
CALM = 1 / 8  # weight of the last round in the running mean of settled tokens


@dataclass(frozen=True, slots=True)
class Method:
    """A name of the literature as two choices: what becomes of guesses that were not settled, and who verifies."""

    refresh: type[Coupling] | None  # redraws them from their newest law; None: the verdict's outcome there is kept
    coupling: str  # of the verifier


METHODS: Mapping[str, Method] = MappingProxyType({
    "sjd": Method(Maximal, "maximal"),  # an independent redraw every round
    "scd-maximal": Method(None, "maximal"),  # the outcome of the maximal coupling is the next guess
    "scd-gumbel": Method(Gumbel, "maximal"),  # one race a position for guesses, fresh noise for verification
    "scd-exact": Method(None, "gumbel"),  # the race verifies too: tokens equal plain decoding with that seed
})  # fmt: skip
PLAIN = "ar"


@dataclass(frozen=True, slots=True)
class Jacobi:
    """Guesses a window of tokens and lets every round improve them, with the target's laws at every place.

    A guess that is not settled is told with the law of the newest forward, whether it agreed or not: that makes it
    lossless (proof: docs/decisions/0009-q-is-the-newest-p.md). `method` says how guesses live on; the coupling that
    goes with it is the caller's to use, and `pair` gives both. Raises UsageError for a window outside 1 … 128, an
    unknown name, a start without its layout, and a sibling without its start.
    """

    method: str = "scd-exact"
    window: int = 32  # L: inputs of one forward, so L - 1 guesses; 1 is plain decoding, more than is left is clipped
    start: str = "left"
    layout: Layout | None = None  # None: text without a known end
    sibling: Sibling | None = None
    adaptive: float = 0.0  # guesses = so many times the running mean of settled tokens; 0: always L - 1

    level: ClassVar[int] = 0
    trained: ClassVar[bool] = False
    needs: ClassVar[Needs] = Needs()

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise unknown("Jacobi method", self.method, METHODS)
        if not 1 <= self.window <= LONGEST:
            raise UsageError(f"window is {self.window}; it must be in 1 … {LONGEST}")
        if self.start not in STARTS:
            raise unknown("start", self.start, STARTS)
        if self.adaptive < 0:
            raise UsageError(f"adaptive is {self.adaptive}; it must be 0 (a fixed window) or more")
        how = STARTS[self.start]
        if self.layout is None and (how.table or how.codes):
            raise UsageError(f"start {self.start!r} needs a layout: it reads the grid or the range of codes")
        if (self.start == "sibling") != (self.sibling is not None):
            raise UsageError("start 'sibling' and the argument sibling belong together: give both or neither")

    @classmethod
    def tiny(cls, model: Target) -> Jacobi:
        """An instance for the law tests."""
        return cls(window=4)

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> JacobiSession:
        return JacobiSession(self, rule, len(context.prompts), context.ids.device)


class JacobiSession:
    """The window of a batch: how far each row is, and what the start looks back to. Guesses come from the verdict."""

    def __init__(self, how: Jacobi, rule: Rule, rows: int, device: torch.device) -> None:
        self.how, self.rule = how, rule
        refresh = METHODS[how.method].refresh
        self.refresh = None if refresh is None else refresh()
        self.starts: Start = STARTS[how.start]
        self.size = None if how.layout is None else how.layout.size
        self.done, self.guessed = [0] * rows, [0] * rows  # on the host: they decide on shapes
        self.pace = [(how.window - 1) / (how.adaptive or 1)] * rows  # so that the first window is a full one
        self.tables = {} if how.layout is None else _tables(how.layout, self.starts, device)
        self.reach = self.starts.reach(how.layout)
        self.recent: Law | None = None  # [B, reach]; newest laws of the last settled offsets
        self.text = (
            torch.full((rows, self.size + 1), -1, device=device)
            if how.start == "previous-frame" and self.size
            else None
        )
        self.sibling, self.seeds = (None, None) if how.sibling is None else how.sibling.rows(rows)
        self.sibling = None if self.sibling is None else self.sibling.to(device)
        self.checked, self.alone = self.seeds is None, rows == 1

    def propose(self, verdict: Verdict) -> Draft:
        """A chain a row, [B, N]: outcomes that were not settled, then new places; -1 past the row's own window."""
        self._refuse_twins(verdict)
        settled = self._settled(verdict)
        known, low = self._known(verdict, settled)
        newest = [done + guessed for done, guessed in zip(self.done, self.guessed, strict=True)]
        held = [max(g + 1 - n, 0) for g, n in zip(self.guessed, settled, strict=True)]
        self.done = [done + n for done, n in zip(self.done, settled, strict=True)]
        wanted = [self._wanted(row, n) for row, n in enumerate(settled)]
        self.guessed, held = wanted, [min(pair) for pair in zip(held, wanted, strict=True)]
        width = max(wanted)
        self._write(verdict.tokens, [done - n for done, n in zip(self.done, settled, strict=True)])
        if width == 0:
            return Draft.none(verdict.root)
        tokens, law = self._window(verdict, held, width, known, low, newest)
        slot = torch.arange(width, device=tokens.device)
        tokens = tokens.where(slot < _column(wanted, tokens.device), -1)
        self._write(tokens, self.done)
        return Draft.chain(tokens, law)

    def refreshed(self, verdict: Verdict, source: Tensor, dice: Dice) -> tuple[Tensor, Law]:
        """Guesses that live on, [B, n], and the law each is told with: always that of the newest forward, q := p.

        source: [B, n]; their columns in the verdict.
        """
        rows = torch.arange(len(source), device=source.device)[:, None]
        law = verdict.law[rows, source]
        if self.refresh is None:
            return verdict.drawn.gather(1, source), law
        return self.refresh.propose(law, 1, dice)[..., 0], law

    def _window(
        self, verdict: Verdict, held: list[int], width: int, known: Law, low: Tensor, newest: list[int]
    ) -> tuple[Tensor, Law | None]:
        """Tokens [B, width] and, unless greedy, their laws [B, width + 1]: the held ones of each row, then new ones."""
        device, first, most = verdict.drawn.device, min(held), max(held)
        slot = torch.arange(width, device=device)
        at = replace(verdict.dice, position=verdict.dice.position[:, None] + slot)
        parts: list[tuple[Tensor, Law]] = []
        if most:
            source = (verdict.length[:, None] + slot[:most]).clamp(max=verdict.drawn.shape[1] - 1)
            parts.append(self.refreshed(verdict, source, replace(at, position=at.position[:, :most])))
            self._write(parts[0][0].where(slot[:most] < _column(held, device), -1), self.done)
        if first < width:
            view = View(
                _column(self.done, device) + slot[first:],
                replace(at, position=at.position[:, first:]),
                known,
                low,
                _column(newest, device),
                self.text,
                self.sibling,
                None if self.how.layout is None else self.how.layout.codes,
                self.tables,
            )
            parts.append(begin(self.starts, view, self.refresh or self.rule.coupling))
        return _merged(parts, slot < _column(held, device), first, most)

    def _wanted(self, row: int, settled: int) -> int:
        """Guesses for a row: decided by how many tokens were settled in each round so far, and by nothing else.

        These counts are fixed by what stands left of every guess; a law further right has read the guess itself.
        """
        self.pace[row] += CALM * (settled - self.pace[row])
        most = self.how.window - 1
        if self.how.adaptive:
            most = min(most, max(round(self.how.adaptive * self.pace[row]), 1))
        return most if self.size is None else max(min(most, self.size - self.done[row] - 1), 0)

    def _known(self, verdict: Verdict, settled: list[int]) -> tuple[Law, Tensor]:
        """Laws of the offsets from `low` on, [B, K] and [B, 1]; remembers those that the next rounds look back to."""
        device = verdict.drawn.device
        low = _column([done - self.reach for done in self.done], device)
        if not self.reach:
            return verdict.law, low
        first = (
            verdict.law[:, torch.zeros(self.reach, dtype=torch.long, device=device)]
            if self.recent is None
            else self.recent
        )
        known = laws.cat([first, verdict.law], 1)
        rows = torch.arange(len(settled), device=device)[:, None]
        self.recent = known[rows, _column(settled, device) + torch.arange(self.reach, device=device)]
        return known, low

    def _settled(self, verdict: Verdict) -> list[int]:
        """Tokens that each row settled; of a row that was alone the shape tells, without waiting for the device."""
        alone, self.alone = self.alone, len(self.done) == 1
        return [verdict.path.shape[1]] if alone else verdict.length.tolist()

    def _write(self, tokens: Tensor, first: Sequence[int]) -> None:
        """Remember tokens [B, n] from these offsets on, where the start reads them again."""
        if self.text is not None and self.size is not None:
            at = _column(first, tokens.device) + torch.arange(tokens.shape[1], device=tokens.device)
            self.text.scatter_(1, at.where(tokens >= 0, self.size).clamp(max=self.size), tokens)

    def _refuse_twins(self, verdict: Verdict) -> None:
        """Noise that made a sibling may not verify it, unless the outcome ignores guesses altogether."""
        if self.checked or self.seeds is None:
            return
        self.checked = True
        twins = [seed for seed, other in zip(verdict.dice.seed.tolist(), self.seeds, strict=True) if seed == other]
        if twins and not isinstance(self.rule.coupling, Gumbel):
            raise UsageError(
                f"the sibling was drawn with the same seed ({twins[0]}): that biases this method; "
                "take another seed, or scd-exact, which may share it"
            )

    def keep(self, rows: Tensor) -> None:
        index, self.alone = rows.tolist(), False
        self.done, self.guessed, self.pace = (
            [self.done[i] for i in index],
            [self.guessed[i] for i in index],
            [self.pace[i] for i in index],
        )
        self.seeds = None if self.seeds is None else [self.seeds[i] for i in index]
        self.recent = None if self.recent is None else self.recent[rows]
        self.text = None if self.text is None else self.text[rows]
        self.sibling = None if self.sibling is None else self.sibling[rows]

    def _looked_back(self, other: JacobiSession) -> Law:
        """`recent`; of rows that have not begun, anything of the right shape: they look back to nothing yet."""
        if self.recent is not None:
            return self.recent
        assert other.recent is not None
        return other.recent[torch.zeros(len(self.done), dtype=torch.long)]

    def join(self, other: JacobiSession) -> None:
        """Append the rows of another session of the same drafter."""
        self.alone = False
        if self.recent is not None or other.recent is not None:
            self.recent = laws.cat([one._looked_back(two) for one, two in ((self, other), (other, self))])
        self.done, self.guessed, self.pace = (
            self.done + other.done,
            self.guessed + other.guessed,
            self.pace + other.pace,
        )
        if self.text is not None and other.text is not None:
            self.text = torch.cat([self.text, other.text])
        if self.sibling is not None and other.sibling is not None and self.seeds is not None:
            self.sibling, self.seeds = torch.cat([self.sibling, other.sibling]), self.seeds + (other.seeds or [])
            self.checked = self.checked and other.checked


def pair(
    method: str,
    *,
    window: int = 32,
    start: str = "left",
    layout: Layout | None = None,
    sibling: Sibling | None = None,
    adaptive: float = 0.0,
) -> tuple[Drafter, Coupling]:
    """The drafter of a method, and the coupling that verifies it; "ar" is plain decoding by the Gumbel race.

    Raises UsageError as `Jacobi` does, for an unknown method with the nearest one.
    """
    if method not in (PLAIN, *METHODS):
        raise unknown("method", method, [PLAIN, *METHODS])
    window_of: Any = Jacobi("scd-exact" if method == PLAIN else method, window, start, layout, sibling, adaptive)
    plain: Any = NoDraft()
    if method == PLAIN:
        return plain, Gumbel()
    return window_of, COUPLINGS[METHODS[method].coupling]()


def _tables(layout: Layout, start: Start, device: torch.device) -> dict[str, Tensor]:
    """The layout's entries that the start looks up, as tensors [N]."""
    names = [start.table] * bool(start.table) + ["forced"] * any(token >= 0 for token in layout.forced)
    return {name: torch.tensor(getattr(layout, name), device=device) for name in names}


def _column(values: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(values, device=device)[:, None]


def _merged(parts: list[tuple[Tensor, Law]], held: Tensor, first: int, most: int) -> tuple[Tensor, Law | None]:
    """Held guesses of columns 0 … most - 1 and new ones from column `first` on, as one window; held: [B, N] bool."""
    tokens, given = [parts[0][0]], [parts[0][1]]
    if len(parts) == 2:
        (kept, q), (new, q0) = parts
        both, shared = held[:, first:most], most - first
        tokens = [kept[:, :first], kept[:, first:].where(both, new[:, :shared]), new[:, shared:]]
        given = [q[:, :first], laws.where(both, q[:, first:], q0[:, :shared]), q0[:, shared:]]
    if isinstance(given[0], Point):
        return torch.cat(tokens, 1), None
    return torch.cat(tokens, 1), laws.cat([*given, parts[-1][1][:, -1:]], 1)  # nothing hangs under the last node
