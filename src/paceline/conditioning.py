"""What a drafter is shown: conditioners turn the rows of a prompt into those that a drafter reads.

The same objects work in training and in decoding. Rows that stay keep their original positions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from paceline.core import Context, Verdict
from paceline.dice import mix
from paceline.errors import UsageError, unknown


@dataclass(frozen=True, slots=True)
class Rows:
    """One row a token. Paired rows put a token beside the features of the token before it, plain rows beside its own.

    Paired rows are what feature-level drafters step through: (h_i, y_{i+1}), at the position of y_{i+1}. Row 0 of a
    text has no predecessor and is left out. Plain rows are what block drafters attend to.
    """

    ids: Tensor  # [B, R] int64
    position: Tensor  # [B, R] int64; of the row's token, from the start of the prompt, kept when other rows are dropped
    valid: Tensor  # [B, R] bool; real rows come first
    image: Tensor  # [B, R] bool; the token stands for a picture
    features: Tensor  # [B, R, F]
    embeddings: Tensor | None = None  # [B, R, H]; the target's merged input embeddings. None: embed the ids
    scores: Tensor | None = None  # [B, R]; attention that the token received at prefill
    index: Tensor | None = None  # [B, R] int64; number of the row before rows were dropped. None: none were

    @property
    def count(self) -> Tensor:
        """[B] int64; real rows."""
        return self.valid.sum(1)

    def take(self, index: Tensor, valid: Tensor) -> Rows:
        """These rows, in this order. index: [B, R'] int64; valid: [B, R'] bool, a prefix of each row."""
        old = index if self.index is None else self.index.gather(1, index)
        wide = index[..., None]
        return Rows(
            self.ids.gather(1, index),
            self.position.gather(1, index),
            valid & self.valid.gather(1, index),
            self.image.gather(1, index),
            self.features.gather(1, wide.expand(-1, -1, self.features.shape[2])),
            None
            if self.embeddings is None
            else self.embeddings.gather(1, wide.expand(-1, -1, self.embeddings.shape[2])),
            None if self.scores is None else self.scores.gather(1, index),
            old,
        )

    def only(self, wanted: Tensor) -> Rows:
        """The rows of this mask, closed up to the left, positions unchanged. wanted: [B, R] bool."""
        wanted = wanted & self.valid
        count = wanted.sum(1)
        width = int(count.max())
        order = wanted.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :width]
        return self.take(order, torch.arange(width, device=order.device) < count[:, None])


def of_prompt(context: Context, paired: bool) -> Rows:
    """All rows of the prompts but the one that round 0 brings: S - 1 of S. Features nobody asked for are 0 wide."""
    own = slice(1, None) if paired else slice(0, -1)
    place = torch.arange(context.ids.shape[1], device=context.ids.device).expand_as(context.ids)
    return Rows(
        context.ids[:, own].clamp(min=0),
        place[:, own],
        context.valid[:, 1:],
        context.image[:, own] & context.valid[:, 1:],
        _wide(context.features, context.ids)[:, :-1],
        None if context.embeddings is None else context.embeddings[:, own],
        None if context.scores is None else context.scores[:, own],
    )


def of_verdict(verdict: Verdict, paired: bool, root: Tensor) -> Rows:
    """The rows that a round settled, `verdict.length` of them. root: [B]; the token that stood before its first.

    Paired: each emitted token beside the features of the one before. Plain: each token that the target has read.
    """
    width = verdict.tokens.shape[1]
    first = verdict.dice.position - verdict.length - (0 if paired else 1)
    ids = verdict.tokens if paired else torch.cat([root[:, None], verdict.tokens[:, :-1]], 1)
    column = torch.arange(width, device=ids.device)
    valid = column < verdict.length[:, None]
    return Rows(
        ids.clamp(min=0),
        first[:, None] + column,
        valid,
        torch.zeros_like(valid),
        _wide(verdict.features, ids)[:, :width],
    )


def _wide(features: Tensor | None, ids: Tensor) -> Tensor:
    return torch.zeros(*ids.shape, 0, device=ids.device) if features is None else features


class Conditioning(Protocol):
    """What one conditioner shows of a batch of conversations."""

    @property
    def prompt(self) -> Rows:
        """What is there to read when the session opens."""
        ...

    def rows(self, verdict: Verdict) -> Rows:
        """What a round adds. Called once a round, with every verdict, round 0's first."""
        ...

    def keep(self, rows: Tensor) -> None: ...
    def join(self, other: Self) -> None: ...


class Conditioner(Protocol):
    """A choice of what drafters see. `edit` works on pictures' rows alone, so that prompts may share them."""

    @property
    def spec(self) -> str:
        """The text from which `parse` makes it again."""
        ...

    @property
    def scores(self) -> bool:
        """Whether it reads received attention, which the target must then be asked for."""
        ...

    @property
    def window(self) -> int | None:
        """Rows of the prompt in view, counted back from the first token of the answer. None: all."""
        ...

    def edit(self, rows: Rows) -> Rows: ...
    def open(self, context: Context, paired: bool) -> Conditioning: ...


class Shown:
    """The session of a conditioner that edits the prompt once and adds every settled row."""

    def __init__(self, how: Conditioner, context: Context, paired: bool) -> None:
        self.paired = paired
        last = context.valid.sum(1, keepdim=True) - 1
        self.root = context.ids.gather(1, last)[:, 0]
        self.prompt = how.edit(of_prompt(context, paired))
        if how.window is not None:
            self.prompt = self.prompt.only(self.prompt.position > last - how.window)

    def rows(self, verdict: Verdict) -> Rows:
        """What a round adds: all that it settled."""
        added = of_verdict(verdict, self.paired, self.root)
        self.root = verdict.root
        return added

    def keep(self, rows: Tensor) -> None:
        self.root = self.root[rows]

    def join(self, other: Shown) -> None:
        self.root = torch.cat([self.root, other.root])


@dataclass(frozen=True, slots=True)
class Full:
    """Everything that the target read."""

    scores: ClassVar[bool] = False
    window: ClassVar[int | None] = None
    spec: ClassVar[str] = "full"

    def edit(self, rows: Rows) -> Rows:
        return rows

    def open(self, context: Context, paired: bool) -> Shown:
        return Shown(self, context, paired)


@dataclass(frozen=True, slots=True)
class TextOnly:
    """No rows of pictures; the rest where it was."""

    scores: ClassVar[bool] = False
    window: ClassVar[int | None] = None
    spec: ClassVar[str] = "text-only"

    def edit(self, rows: Rows) -> Rows:
        return rows.only(~rows.image)

    def open(self, context: Context, paired: bool) -> Shown:
        return Shown(self, context, paired)


By = Literal["attention", "norm", "uniform", "random"]


@dataclass(frozen=True, slots=True)
class Prune:
    """The share `keep` of the pictures' rows, rounded down: those that received most attention, or by another order."""

    keep: float  # 0 … 1
    by: By = "attention"

    window: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if not 0 <= self.keep <= 1:
            raise UsageError(f"prune keeps {self.keep}; it must be a share from 0 to 1")
        if self.by not in ("attention", "norm", "uniform", "random"):
            raise unknown("order of pruning", self.by, ["attention", "norm", "uniform", "random"])

    @property
    def scores(self) -> bool:
        return self.by == "attention"

    @property
    def spec(self) -> str:
        return f"prune:{self.keep:g}:{self.by}"

    def edit(self, rows: Rows) -> Rows:
        worth = self._worth(rows).double().masked_fill(~rows.image, -torch.inf)
        rank = worth.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        count = (rows.image.sum(1) * self.keep + 1e-9).long()
        return rows.only(~rows.image | (rank < count[:, None]))

    def _worth(self, rows: Rows) -> Tensor:
        """[B, R]; the higher, the longer a picture's row stays."""
        if self.by == "attention":
            if rows.scores is None:
                raise ValueError("pruning by attention needs the scores of the prompt")
            return rows.scores
        if self.by == "norm":
            return rows.features.norm(dim=-1)
        if self.by == "random":
            return mix(rows.position) >> 11
        number = rows.image.cumsum(1) - 1  # evenly: row n is worth the share by which floor((n + 1) keep) steps up
        kept = (((number + 1) * self.keep).floor() > (number * self.keep).floor()).double()
        return kept - number / (1e9 + number.shape[1])

    def open(self, context: Context, paired: bool) -> Shown:
        return Shown(self, context, paired)


@dataclass(frozen=True, slots=True)
class Pool:
    """Means of `size` neighbouring rows of a picture, each where the last of them stood."""

    size: int

    scores: ClassVar[bool] = False
    window: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError(f"pool takes {self.size} rows together; it must be 1 or more")

    @property
    def spec(self) -> str:
        return f"pool:{self.size}"

    def edit(self, rows: Rows) -> Rows:
        place = torch.arange(rows.ids.shape[1], device=rows.ids.device).expand_as(rows.ids)
        follows = pad(rows.image[:, :-1] & (rows.position.diff(dim=1) == 1), (1, 0))
        starts = rows.image & ~follows
        nth = place - place.where(starts, 0).cummax(1).values  # of its run
        group = (starts | ~rows.image | (nth % self.size == 0)).cumsum(1) - 1
        last = pad(group[:, 1:] > group[:, :-1], (0, 1), value=True)
        pooled = replace(
            rows,
            features=_mean(rows.features, group),
            embeddings=None if rows.embeddings is None else _mean(rows.embeddings, group),
        )
        return pooled.only(last)

    def open(self, context: Context, paired: bool) -> Shown:
        return Shown(self, context, paired)


@dataclass(frozen=True, slots=True)
class Recent:
    """The last `size` rows of the prompt, and the whole answer."""

    size: int

    scores: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UsageError(f"recent keeps {self.size} rows; it must be 1 or more")

    @property
    def window(self) -> int:
        return self.size

    @property
    def spec(self) -> str:
        return f"recent:{self.size}"

    def edit(self, rows: Rows) -> Rows:
        return rows

    def open(self, context: Context, paired: bool) -> Shown:
        return Shown(self, context, paired)


def parse(spec: str) -> Conditioner:
    """The conditioner of this text: full, text-only, prune:SHARE[:ORDER], pool:SIZE, recent:SIZE. Raises UsageError."""
    kind, *given = spec.split(":")
    try:
        match kind, given:
            case "full", []:
                return Full()
            case "text-only", []:
                return TextOnly()
            case "prune", [share]:
                return Prune(float(share))
            case "prune", [share, by]:
                return Prune(float(share), by)  # type: ignore[arg-type]
            case "pool", [size]:
                return Pool(int(size))
            case "recent", [size]:
                return Recent(int(size))
    except UsageError:
        raise
    except ValueError:
        raise UsageError(f"conditioner {spec!r} holds no number where one is expected") from None
    if kind in ("full", "text-only", "prune", "pool", "recent"):
        raise UsageError(f"conditioner {spec!r} is not complete: prune:SHARE[:ORDER], pool:SIZE, recent:SIZE")
    raise unknown("conditioner", kind, ["full", "text-only", "prune", "pool", "recent"])


def _mean(values: Tensor, group: Tensor) -> Tensor:
    """[B, R, H]; at every row the mean over its group. group: [B, R] int64."""
    sums = torch.zeros_like(values).scatter_add_(1, group[..., None].expand_as(values), values)
    sizes = torch.zeros_like(group).scatter_add_(1, group, torch.ones_like(group))
    return (sums / sizes.clamp(min=1)[..., None]).gather(1, group[..., None].expand_as(values))
