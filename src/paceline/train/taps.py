"""Online taps: what the frozen target makes of prompts and answers, read through its own sessions, as in decoding.

A talk's answers hang as branches under the tokens that their prompts share, so that pictures are read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from paceline import tree
from paceline.conditioning import Rows
from paceline.core import Context, Draft, Needs, Pass, Prompt, Shared
from paceline.drafters.directory import Trained
from paceline.drafters.lesson import Lesson
from paceline.tree import Tree


@dataclass(frozen=True, slots=True)
class Talk:
    """Prompts about the same pictures, each with the target's answer."""

    name: str  # for error messages
    prompts: tuple[Prompt, ...]
    answers: tuple[Tensor, ...]  # ids, the end token included where it was reached; at least one each

    @property
    def rows(self) -> int:
        """Tokens that the target reads: the shared ones, then each branch without its last answer token."""
        shared = shared_tokens(self.prompts)
        return shared + sum(len(p.ids) - shared + len(a) - 1 for p, a in zip(self.prompts, self.answers, strict=True))


@dataclass(frozen=True, slots=True)
class Taps:
    """All rows of a batch of talks, T a talk, with the layers of the target that were asked for."""

    name: str
    ids: Tensor  # [B, T] int64
    position: Tensor  # [B, T] int64
    valid: Tensor  # [B, T] bool; real rows first
    image: Tensor  # [B, T] bool
    owner: Tensor  # [B, T] int64; 0 shared, n the n-th branch, -1 no row
    before: Tensor  # [B, T] int64; the row of the token before, 0 for row 0
    begin: Tensor  # [B, T] int64; position of the first answer token of the row's branch
    labels: Tensor  # [B, T] int64; the answer token after the row's, -1: none
    at: Mapping[int, Tensor]  # layer -> [B, T, H]
    embeddings: Tensor | None  # [B, T, H]
    scores: Tensor | None  # [B, T]
    shared: Shared

    @property
    def see(self) -> Tensor:
        """[B, T, T] bool; a row sees the shared rows and its own branch, up to itself."""
        place = torch.arange(self.ids.shape[1], device=self.ids.device)
        own = (self.owner[:, None] == self.owner[..., None]) | (self.owner == 0)[:, None]
        return own & (place <= place[:, None]) & self.valid[:, None] & self.valid[..., None]


def needs_of(drafters: Sequence[Trained], shared: Shared) -> Needs:
    """What one pass of the target must hold for all of them to learn from it."""
    layers = {shared.depth}
    for drafter in drafters:
        layers |= {*drafter.needs.layers, *drafter.lesson_layers}
    return Needs(
        tuple(sorted(layers)),
        any(drafter.needs.embeddings for drafter in drafters),
        any(drafter.needs.scores for drafter in drafters),
    )


def tap(target: Any, talks: Sequence[Talk], needs: Needs) -> Taps:
    """Read talks side by side. Received attention belongs to a whole prompt: with scores, talks of one prompt only."""
    shared = target.shared
    kept = [len(t.prompts[0].ids) if len(t.prompts) == 1 else shared_tokens(t.prompts) for t in talks]
    if needs.scores and any(len(talk.prompts) > 1 for talk in talks):
        raise ValueError("received attention depends on the question: give talks of one prompt each")
    branches = [
        [torch.cat([p.ids[n:], a[:-1].to(p.ids)]) for p, a in zip(t.prompts, t.answers, strict=True)]
        for t, n in zip(talks, kept, strict=True)
    ]
    session, context, first = target.open([_head(t.prompts[0], n) for t, n in zip(talks, kept, strict=True)], needs)
    tokens = pad_sequence([torch.cat(b) for b in branches], batch_first=True, padding_value=-1).to(context.ids.device)
    if tokens.shape[1]:
        draft = Draft(tokens, _hung([[len(b) for b in row] for row in branches], tokens))
        root = torch.stack([t.prompts[0].ids[n - 1] for t, n in zip(talks, kept, strict=True)]).to(tokens.device)
        seen = session.forward(root, draft)
    else:
        seen = first
    return _laid(talks, kept, branches, context, seen, needs, shared)


def shared_tokens(prompts: Sequence[Prompt]) -> int:
    """How many tokens the prompts begin with alike, the last of the shortest left out."""
    least = min(len(p.ids) for p in prompts) - 1
    alike = torch.stack([p.ids[:least] == prompts[0].ids[:least] for p in prompts]).all(0)
    return max(int(alike.long().cumprod(0).sum()), 1)


def _head(prompt: Prompt, count: int) -> Prompt:
    """The first tokens of a prompt with all of its pictures."""
    whole = len(prompt.ids)
    inputs = {
        key: value[:, :count] if isinstance(value, Tensor) and value.shape[:2] == (1, whole) else value
        for key, value in prompt.inputs.items()
    }
    return replace(prompt, ids=prompt.ids[:count], inputs=inputs)


def _hung(lengths: Sequence[Sequence[int]], tokens: Tensor) -> Tree:
    """Chains under each row's root, padding under the root too. Nobody walks this tree: it has no list of children."""
    if all(len(row) == 1 for row in lengths):
        return tree.chain(tokens.shape[1], tokens.device)
    b, n = tokens.shape
    owner, depth = _places(lengths, n, tokens.device)
    place = torch.arange(n, device=tokens.device)
    parent = torch.where(depth > 1, place, 0)
    see = torch.zeros(b, n + 1, n + 1, dtype=torch.bool, device=tokens.device)
    see[:, :, 0] = True
    see[:, 1:, 1:] = (owner[:, None] == owner[..., None]) & (place <= place[:, None]) & (owner > 0)[:, None]
    see[:, 1:, 1:] |= torch.eye(n, dtype=torch.bool, device=tokens.device)
    deep = torch.nn.functional.pad(depth, (1, 0))
    return Tree(parent, see, deep, tokens.new_empty(b, n + 1, 0), int(deep.max()), False)


def _places(lengths: Sequence[Sequence[int]], width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Branch number, 0 for padding, and place in its branch from 1 on, both [B, width]."""
    owner = torch.zeros(len(lengths), width, dtype=torch.long)
    depth = torch.ones_like(owner)
    for row, sizes in enumerate(lengths):
        at = 0
        for number, size in enumerate(sizes, start=1):
            owner[row, at : at + size] = number
            depth[row, at : at + size] = torch.arange(1, size + 1)
            at += size
    return owner.to(device), depth.to(device)


def _laid(
    talks: Sequence[Talk], kept: Sequence[int], branches: Sequence[Sequence[Tensor]], context: Context, seen: Pass,
    needs: Needs, shared: Shared,
) -> Taps:  # fmt: skip
    """Prompt rows and branch rows in one table, closed up to the left."""
    device = context.ids.device
    heads = torch.tensor(kept, device=device)[:, None]
    lengths = [[len(b) for b in row] for row in branches]
    width = max(n + sum(row) for n, row in zip(kept, lengths, strict=True))
    owner, depth = _places(lengths, max(width, 1), device)
    place = torch.arange(width, device=device).expand(len(talks), -1)
    prompt = place < heads
    behind = (place - heads).clamp(min=0)
    owner = owner.gather(1, behind).masked_fill(prompt, 0)
    valid = prompt | (owner > 0)
    deep = depth.gather(1, behind)
    source = torch.where(prompt, place, context.ids.shape[1] + behind + 1).where(valid, 0)

    def joined(of_prompt: Tensor, of_branch: Tensor) -> Tensor:
        both = torch.cat([of_prompt, of_branch], 1).clone()  # outside inference mode: gradients may pass by
        return both.gather(1, source.view(*source.shape, *[1] * (both.dim() - 2)).expand(-1, -1, *both.shape[2:]))

    assert context.features is not None and seen.features is not None  # noqa: PT018
    wide = joined(context.features, seen.features)
    at = dict(zip(needs.layers, wide.split(shared.width, -1), strict=True))
    tokens = pad_sequence([torch.cat(row) for row in branches], batch_first=True).to(device)
    ids = joined(context.ids.clamp(min=0), torch.nn.functional.pad(tokens, (1, 0)))
    own = torch.where(owner > 0, owner, 0)
    labels, begin = _answers(talks, kept, own, deep)
    alone = torch.tensor([len(row) == 1 for row in lengths], device=device)[:, None] & (place == heads - 1)
    owner = owner.masked_fill(alone, 1)  # the last row of a prompt that is not shared says an answer token too
    labels = torch.where(alone, torch.stack([talk.answers[0][0] for talk in talks]).to(labels)[:, None], labels)
    return Taps(
        "; ".join(talk.name for talk in talks),
        ids,
        torch.where(prompt, place, heads - 1 + deep).where(valid, 0),
        valid,
        torch.nn.functional.pad(context.image, (0, seen.features.shape[1])).gather(1, source) & valid,
        owner.masked_fill(~valid, -1),
        torch.where(prompt | (deep > 1), place - 1, heads - 1).clamp(min=0),
        begin,
        labels.where(valid, -1),
        at,
        None if context.embeddings is None else joined(context.embeddings, shared.embed(_behind(ids, heads, seen))),
        None if context.scores is None else joined(context.scores, context.scores.new_zeros(seen.features.shape[:2])),
        shared,
    )


def _behind(ids: Tensor, heads: Tensor, seen: Pass) -> Tensor:
    """[B, N + 1]; the ids of root and branches."""
    assert seen.features is not None
    column = torch.arange(seen.features.shape[1], device=ids.device)
    return ids.gather(1, (heads - 1 + column).clamp(max=ids.shape[1] - 1))


def _answers(talks: Sequence[Talk], kept: Sequence[int], owner: Tensor, deep: Tensor) -> tuple[Tensor, Tensor]:
    """Labels and the position of the first answer token, both [B, T]: the shared rows have neither."""
    labels, begin = torch.full_like(owner, -1), torch.zeros_like(owner)
    for row, (talk, n) in enumerate(zip(talks, kept, strict=True)):
        for number, (prompt, answer) in enumerate(zip(talk.prompts, talk.answers, strict=True), start=1):
            mine = owner[row] == number
            begin[row, mine] = len(prompt.ids)
            step = n + deep[row, mine] - len(prompt.ids)  # of the answer token that follows each row
            known = answer.to(owner.device)
            labels[row, mine] = known[step.clamp(min=0)].where(step >= 0, -1)
        if len(talk.prompts) == 1:
            begin[row] = len(talk.prompts[0].ids)
    return labels, begin


def lesson(taps: Taps, drafter: Trained) -> Lesson:
    """The rows of this drafter, conditioned as it will see them, with what it shall learn."""
    rows = _rows(taps, drafter)
    shown = drafter.conditioner.edit(rows)
    index = rows_of(shown)
    first = 1 if drafter.paired else 0
    whole = index + first

    def kept(values: Tensor) -> Tensor:
        return values.gather(1, whole.view(*whole.shape, *[1] * (values.dim() - 2)).expand(-1, -1, *values.shape[2:]))

    see = kept(taps.see).gather(2, whole[:, None].expand(-1, whole.shape[1], -1))
    see = see & shown.valid[:, None] & shown.valid[..., None]
    owner = kept(taps.owner).masked_fill(~shown.valid, -1)
    if (window := drafter.conditioner.window) is not None:
        see = see & _in_view(shown, kept(taps.begin), window)
    wanted = {*drafter.needs.layers, *drafter.lesson_layers, taps.shared.depth}
    return Lesson(
        taps.name,
        shown,
        see,
        owner,
        kept(taps.labels).masked_fill(~shown.valid, -1),
        {k: kept(taps.at[k]) for k in sorted(wanted)},
        taps.shared,
    )


def rows_of(shown: Rows) -> Tensor:
    """[B, R] int64; the rows' numbers before a conditioner edited them."""
    if shown.index is not None:
        return shown.index
    return torch.arange(shown.ids.shape[1], device=shown.ids.device).expand_as(shown.ids)


def _rows(taps: Taps, drafter: Trained) -> Rows:
    """All rows, paired or plain."""
    layers = drafter.needs.layers
    last = taps.at[taps.shared.depth]
    features = torch.cat([taps.at[k] for k in layers], -1) if layers else last[..., :0]
    if drafter.paired:
        features = features.gather(1, taps.before[..., None].expand_as(features))
    own = slice(1, None) if drafter.paired else slice(None)
    merged = taps.embeddings if drafter.needs.embeddings else None
    return Rows(
        taps.ids[:, own],
        taps.position[:, own],
        taps.valid[:, own],
        taps.image[:, own],
        features[:, own],
        None if merged is None else merged[:, own],
        None if taps.scores is None else taps.scores[:, own],
    )


def _in_view(rows: Rows, begin: Tensor, window: int) -> Tensor:
    """[B, R, R] bool; rows of the prompt no more than `window` before the answer of the row that looks, and itself."""
    near = rows.position[:, None] >= begin[..., None] - window
    return near | torch.eye(rows.ids.shape[1], dtype=torch.bool, device=near.device)
