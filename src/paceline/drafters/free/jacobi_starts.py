"""What a Jacobi window guesses at a place that it has never looked at, each with the law that it is told with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import torch
from torch import Tensor

from paceline import law as laws
from paceline.core import Coupling
from paceline.dice import DRAW, Dice
from paceline.errors import UsageError
from paceline.law import Dense, Law, Point, Sparse
from paceline.layout import Layout


@dataclass(frozen=True, slots=True)
class Sibling:
    """Finished tokens of a neighbouring result as a free start: an edited prompt, other guidance, the next clip."""

    tokens: tuple[tuple[int, ...], ...]  # one row a prompt, or one for all; offset 0 is the first generated token
    seeds: tuple[int, ...]  # that each was drawn with

    def __post_init__(self) -> None:
        if not self.tokens or not all(self.tokens) or len(self.tokens) != len(self.seeds):
            raise UsageError(
                f"a sibling needs one row of tokens or more, and a seed for each; got rows of "
                f"{[len(row) for row in self.tokens]} tokens and {len(self.seeds)} seeds"
            )

    def rows(self, count: int) -> tuple[Tensor, list[int]]:
        """([count, S] tokens, -1 pads; seeds). Raises UsageError unless there is one row, or `count` of them."""
        if len(self.tokens) not in (1, count):
            raise UsageError(f"{len(self.tokens)} sibling rows for {count} prompts: give one for all, or one for each")
        width = max(map(len, self.tokens))
        padded = torch.tensor([[*row, *[-1] * (width - len(row))] for row in self.tokens])
        each = count // len(self.tokens)
        return padded.repeat(each, 1), list(self.seeds) * each


@dataclass(frozen=True, slots=True)
class View:
    """What a start may read: settled text, guesses and laws left of the place that it fills, and free noise.

    All of it is fixed before the guess at that place is drawn, so any of it may shape the guess's law.
    """

    offset: Tensor  # [B, F] int64; the places to fill, counted from the end of the prompt
    dice: Dice  # the drafter's, at these places
    known: Law  # [B, K]; newest laws, of the offsets low … low + K - 1 of each row
    low: Tensor  # [B, 1] int64
    newest: Tensor  # [B, 1] int64; the last offset that has a law
    text: Tensor | None  # [B, N + 1] int64; newest token of each offset, -1: none yet
    sibling: Tensor | None  # [B, S] int64; finished tokens of neighbouring results, -1 pads
    codes: tuple[int, int] | None  # (first id, last id + 1)
    tables: Mapping[str, Tensor]  # of the layout, each [N]: forced, above, before

    def law_of(self, source: Tensor) -> Law:
        """[B, F]; the newest law at these offsets; the nearest to the left where an offset is negative or has none."""
        at = torch.where((source >= 0) & (source <= self.newest), source, self.newest) - self.low
        rows = torch.arange(len(at), device=at.device)[:, None]
        return self.known[rows, at]

    def looked_up(self, table: str) -> Tensor:
        """[B, F]; the layout's entry for each place, -1 past its end."""
        column = self.tables[table]
        return column[self.offset.clamp(max=len(column) - 1)].where(self.offset < len(column), -1)

    def law_at(self, table: str) -> Law:
        """[B, F]; the newest law where the table points to."""
        return self.law_of(self.looked_up(table))

    def left(self) -> Law:
        """[B, F]; the last law that is known left of the window's new places."""
        return self.law_of(torch.full_like(self.offset, -1))

    def any_code(self) -> Tensor:
        """[B, F]; a code a place, all equally likely, by noise of its own."""
        assert self.codes is not None
        low, high = self.codes
        u = self.dice.uniform(DRAW, torch.zeros(1, dtype=torch.long, device=self.offset.device))[..., 0]
        return (u * (high - low)).long().clamp_(max=high - low - 1) + low


@dataclass(frozen=True, slots=True)
class Start:
    """A way to begin: tokens that are chosen (their law: certainty), and the law that the others are drawn from."""

    chosen: Callable[[View], Tensor] | None = None  # [B, F]; -1: draw. None: draw all
    law: Callable[[View], Law] | None = View.left  # [B, F]. None: chosen everywhere
    table: str = ""  # of the layout, which it reads
    codes: bool = False  # needs the range of codes
    looks_back: bool = False  # for laws, to where its table points
    rereads: bool = False  # tokens of the text

    def reach(self, layout: Layout | None) -> int:
        """Offsets that it looks back for a law."""
        if not self.looks_back or layout is None:
            return 0
        source: tuple[int, ...] = getattr(layout, self.table)
        return max((offset - s for offset, s in enumerate(source) if s >= 0), default=0)


def even(view: View) -> Law:
    """Uniform over all codes; after top-k, over a comb of k of them: every n-th, the first one drawn beforehand.

    Given its comb, which nothing else depends on, this is the guess's exact law; and it is only k ids wide.
    """
    assert view.codes is not None
    low, high = view.codes
    if isinstance(view.known, Dense):
        probs = view.known.probs.new_zeros(view.known.probs.shape[-1])
        probs[low:high] = 1 / (high - low)
        return Dense(probs.expand(*view.offset.shape, -1))
    if isinstance(view.known, Point):
        return Point(view.any_code())
    k = min(view.known.ids.shape[-1], high - low)
    gap = -(-(high - low) // k)
    u = view.dice.uniform(DRAW + 1, torch.zeros(1, dtype=torch.long, device=view.offset.device))
    ids = low + (u * gap).long().clamp_(max=gap - 1) + gap * torch.arange(k, device=view.offset.device)
    probs = (ids < high).to(view.known.probs.dtype)
    return Sparse(ids, probs / probs.sum(-1, keepdim=True))


def frame_before(view: View) -> Tensor:
    """[B, F]; the token at this place in the frame before, settled or guessed."""
    assert view.text is not None
    source = view.looked_up("before")
    return view.text.gather(1, source.clamp(min=0)).where(source >= 0, -1)


def of_sibling(view: View) -> Tensor:
    """[B, F]; the neighbouring result's token at this place."""
    assert view.sibling is not None
    width = view.sibling.shape[1]
    return view.sibling.gather(1, view.offset.clamp(max=width - 1)).where(view.offset < width, -1)


STARTS: Mapping[str, Start] = MappingProxyType({
    "random": Start(chosen=View.any_code, law=None, codes=True),
    "uniform": Start(law=even, codes=True),
    "left": Start(),
    "above": Start(law=partial(View.law_at, table="above"), table="above", looks_back=True),
    "previous-frame": Start(chosen=frame_before, table="before", rereads=True),
    "previous-frame-law": Start(law=partial(View.law_at, table="before"), table="before", looks_back=True),
    "sibling": Start(chosen=of_sibling),
})  # fmt: skip


def begin(start: Start, view: View, coupling: Coupling) -> tuple[Tensor, Law]:
    """Guesses for the places of the view, [B, F], and the law that drew each; a forced token is guessed as forced."""
    chosen = torch.full_like(view.offset, -1) if start.chosen is None else start.chosen(view)
    if "forced" in view.tables:
        forced = view.looked_up("forced")
        chosen = forced.where(forced >= 0, chosen)
    if start.law is None:
        return chosen, laws.certain(chosen, view.known)
    law = start.law(view)
    tokens = chosen.where(chosen >= 0, coupling.propose(law, 1, view.dice)[..., 0])
    if start.chosen is None and "forced" not in view.tables:
        return tokens, law
    return tokens, laws.where(chosen >= 0, laws.certain(chosen, law), law)
