"""Who draws in the visual benchmark: methods by window, biased and lossy references, and a copier of frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from paceline.bench import stale
from paceline.clock import Clock, silent
from paceline.core import Context, Coupling, Draft, Needs, Rule, TargetSession, Verdict
from paceline.couplings import Maximal
from paceline.drafters.free.jacobi import METHODS, PLAIN, Jacobi, pair
from paceline.errors import UsageError, unknown
from paceline.layout import Layout
from paceline.pictures.codebook import Codebook
from paceline.relaxed import Grouped, Pooled, nearest

Kind = Literal["exact", "biased", "lossy"]  # biased: meant to be exact, and is not
COPY = "copy-frame"  # the floor of a clip: the frame before, guessed as it is
STALE = stale.NAME.split()[0]
GSD, LANTERN = "gsd", "lantern"  # relaxed acceptance over SJD: another law than the target's
GROUP, NEAR, DELTA = 10, 16, 0.2
WINDOWS = (8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Arm:
    """A method with its window and start; `build` makes it for a layout."""

    method: str
    window: int  # 1 for plain decoding
    start: str
    kind: Kind
    build: Callable[[Layout], tuple[Any, Coupling]]  # a Drafter and who verifies it

    @property
    def name(self) -> str:
        return self.method if self.method == PLAIN else f"{self.method} L={self.window} {self.start}"


def plain() -> Arm:
    """One token a forward, by the Gumbel race."""
    return Arm(PLAIN, 1, "–", "exact", lambda layout: pair(PLAIN))


def default_start(layout: Layout) -> str:
    """What new places are guessed from unless one says otherwise."""
    return "previous-frame-law" if layout.frames > 1 else "left"


def arms(
    methods: Sequence[str],
    windows: Sequence[int],
    starts: Sequence[str],
    layout: Layout,
    codebook: Codebook | None = None,
) -> list[Arm]:
    """Plain decoding, then each method at each window from each start. "all": every method, and the references.

    codebook: of the codes, for rules that pool codes that look alike. Raises UsageError for a name that is unknown.
    """
    offered = [*METHODS, STALE, *([COPY] if layout.frames > 1 else []), GSD, *([LANTERN] if codebook else [])]
    for name in methods:
        if name not in (*offered, PLAIN, "all"):
            raise unknown("method", name, [*offered, PLAIN, "all"])
    wanted = offered if "all" in methods else [name for name in dict.fromkeys(methods) if name != PLAIN]
    near = None if codebook is None or LANTERN not in wanted else _look_alikes(codebook, layout)
    found = [plain()]
    for window in windows:
        for method in wanted:
            own = ["previous-frame"] if method == COPY else list(starts) or [default_start(layout)]
            found += [_arm(method, window, start, near) for start in own]
    for arm in found:
        arm.build(layout)  # a bad window or start is told now
    return found


def _arm(method: str, window: int, start: str, near: Tensor | None) -> Arm:
    def told(name: str, kind: Kind, build: Callable[[Layout], tuple[Any, Coupling]]) -> Arm:
        return Arm(name, window, start, kind, build)

    def redrawn(layout: Layout) -> Any:
        return Jacobi("sjd", window, start, layout)

    def biased(layout: Layout) -> Any:
        return stale.Stale(window=window, start=start, layout=layout)

    if method == COPY:
        return told(COPY, "exact", lambda layout: (CopyFrame(window, layout), Maximal()))
    if method == STALE:
        return told(stale.NAME, "biased", lambda layout: (biased(layout), Maximal()))
    if method == GSD:
        return told(f"{GSD} (groups of {GROUP})", "lossy", lambda layout: (redrawn(layout), Grouped(GROUP)))
    if method == LANTERN:
        assert near is not None
        return told(f"{LANTERN} (k={NEAR}, δ={DELTA})", "lossy", lambda layout: (redrawn(layout), Pooled(near, DELTA)))
    return told(method, "exact", lambda layout: pair(method, window=window, start=start, layout=layout))


def _look_alikes(codebook: Codebook, layout: Layout) -> Tensor:
    """[V, NEAR]; see `relaxed.nearest`."""
    return nearest(torch.from_numpy(codebook.table), min(NEAR, len(codebook.table) - 1), layout.codes[0])


@dataclass(frozen=True, slots=True)
class CopyFrame:
    """Guesses the codes of the frame before at the same places, chosen, not drawn; nothing is ever improved."""

    window: int  # L: inputs of one forward
    layout: Layout

    level: ClassVar[int] = 0
    needs: ClassVar[Needs] = Needs()

    def __post_init__(self) -> None:
        if self.window < 1:
            raise UsageError(f"window is {self.window}; it must be 1 or more")

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> CopySession:
        return CopySession(self, len(context.prompts))


class CopySession:
    """The settled tokens of each row."""

    def __init__(self, how: CopyFrame, rows: int) -> None:
        self.how, self.text = how, [list[int]() for _ in range(rows)]

    def propose(self, verdict: Verdict) -> Draft:
        """[B, N]; -1 past what the frame before can tell, and past the layout's end."""
        for text, row, length in zip(self.text, verdict.tokens.tolist(), verdict.length.tolist(), strict=True):
            text += row[:length]
        guesses = [self._row(text) for text in self.text]
        width = max(map(len, guesses))
        padded = [row + [-1] * (width - len(row)) for row in guesses]
        return Draft.chain(torch.tensor(padded, dtype=torch.long, device=verdict.root.device).view(len(padded), width))

    def _row(self, text: list[int]) -> list[int]:
        """Guesses behind the last settled token, which the verifier draws itself."""
        layout, done = self.how.layout, len(text)
        found: list[int] = []
        for offset in range(done, min(done + self.how.window - 1, layout.size - 1)):
            forced, source = layout.forced[offset], layout.before[offset]
            if forced < 0 and not 0 <= source < done:
                break
            found.append(forced if forced >= 0 else text[source])
        return found

    def keep(self, rows: Tensor) -> None:
        self.text = [self.text[i] for i in rows.tolist()]

    def join(self, other: CopySession) -> None:
        self.text += other.text
