"""The nouns of speculative decoding, and the one loop that joins them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from paceline import law as laws
from paceline import tree
from paceline.clock import Clock, silent
from paceline.dice import DRAFTER, VERIFIER, Dice
from paceline.law import Law
from paceline.tree import Tree


@dataclass(frozen=True, slots=True)
class Draft:
    """Guesses hung under each row's root, parents first. A chain is a tree with one child a node."""

    tokens: Tensor  # [B, N] int64; -1 pads
    tree: Tree  # of N nodes, for all rows or one a row
    q: Law | None = None  # [B, N + 1]; the law that drew the children of each node. None: chosen, not drawn

    @property
    def parent(self) -> Tensor:
        """[B or 1, N]; 0 is the root, i + 1 is node i."""
        return self.tree.parent

    @staticmethod
    def chain(tokens: Tensor, q: Law | None = None) -> Draft:
        """Guesses one after the other. tokens: [B, N]; q, if drawn: [B, N + 1], its last column unread."""
        return Draft(tokens, tree.chain(tokens.shape[1], tokens.device), q)

    @staticmethod
    def none(root: Tensor) -> Draft:
        """No guess: plain decoding. root: [B]."""
        return Draft.chain(root.new_empty(root.shape[0], 0))


@dataclass(frozen=True, slots=True)
class Pass:
    """One target forward over each row's root and draft."""

    logits: Tensor  # [B, N + 1, V]; what follows the root, then what follows each node
    features: Tensor | None = None  # [B, N + 1, F]; the layers that the drafter asked for, side by side


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one round settled: all that the caller, the report and the drafter ever see."""

    draft: Draft
    path: Tensor  # [B, A] int64; committed columns, the root's 0 first; -1 pads
    tokens: Tensor  # [B, A] int64; emitted: the accepted guesses, then the target's own draw; -1 pads
    length: Tensor  # [B] int64; valid columns of path, and of tokens: accepted guesses + 1
    law: Law  # [B, N + 1]; the target's law at every node, rejected ones too
    drawn: Tensor  # [B, N + 1]; the outcome at every node
    features: Tensor | None  # [B, A, F]; along path
    dice: Dice  # the drafter's, standing at the first position not yet settled

    @property
    def root(self) -> Tensor:
        """[B]; the last token emitted: settled, but not yet read by the target."""
        return self.tokens.gather(1, self.length[:, None] - 1)[:, 0]

    @property
    def proposed(self) -> Tensor:
        """[B]; guesses one below the other that the draft offered: chain length, or depth of the tree."""
        return (
            torch.where(self.draft.tokens >= 0, self.draft.tree.depth[:, 1:], 0).amax(1)
            if (self.draft.tokens.shape[1])
            else torch.zeros_like(self.length)
        )

    def keep(self, rows: Tensor) -> Verdict:
        """The verdict of these rows, in this order. rows: [R] int64."""
        q = self.draft.q
        draft = Draft(self.draft.tokens[rows], self.draft.tree.keep(rows), None if q is None else q[rows])
        features = None if self.features is None else self.features[rows]
        return Verdict(
            draft,
            self.path[rows],
            self.tokens[rows],
            self.length[rows],
            self.law[rows],
            self.drawn[rows],
            features,
            self.dice.keep(rows),
        )

    def join(self, other: Verdict) -> Verdict:
        """The rows of both, these first. The narrower draft and path are padded: -1, and at nodes the last law again.

        Features are padded with zeros. A draft without guesses counts as drawn from the other's q, where it has one.
        """
        draft = _join_drafts(self.draft, other.draft)
        width, length = draft.tokens.shape[1] + 1, max(self.path.shape[1], other.path.shape[1])
        node, near, far = torch.arange(width, device=self.path.device), self.drawn.shape[1], other.drawn.shape[1]
        mine, theirs = node.clamp(max=near - 1), node.clamp(max=far - 1)
        features, more = self.features, other.features
        if features is not None and more is not None:
            features = torch.cat([_padded(features, length, 0), _padded(more, length, 0)])
        return Verdict(
            draft,
            torch.cat([_padded(self.path, length), _padded(other.path, length)]),
            torch.cat([_padded(self.tokens, length), _padded(other.tokens, length)]),
            torch.cat([self.length, other.length]),
            laws.cat([self.law[:, mine], other.law[:, theirs]]),
            torch.cat([self.drawn[:, mine], other.drawn[:, theirs]]),
            features,
            self.dice.join(other.dice),
        )


def _padded(columns: Tensor, width: int, value: int = -1) -> Tensor:
    """[B, width, ...]; the columns [B, A, ...] and then `value`."""
    more = width - columns.shape[1]
    return pad(columns, (*[0] * (2 * (columns.dim() - 2)), 0, more), value=value) if more else columns


def _join_drafts(mine: Draft, theirs: Draft) -> Draft:
    width = max(mine.tokens.shape[1], theirs.tokens.shape[1])
    tokens = torch.cat([_padded(mine.tokens, width), _padded(theirs.tokens, width)])
    shape = mine.tree.join(theirs.tree, len(mine.tokens), len(theirs.tokens))
    return Draft(tokens, shape, _join_laws(mine, theirs, width + 1))


def _join_laws(mine: Draft, theirs: Draft, width: int) -> Law | None:
    """[B, width]; the q of both; None where the guesses of one were chosen."""
    known = next((draft.q for draft in (mine, theirs) if draft.q is not None), None)
    if known is None or any(draft.q is None and draft.tokens.shape[1] for draft in (mine, theirs)):
        return None
    column = torch.arange(width, device=mine.tokens.device)
    first = torch.zeros(1, dtype=torch.long, device=column.device)
    given = [known[first.expand(len(draft.tokens))] if draft.q is None else draft.q for draft in (mine, theirs)]
    return laws.cat([q[:, column.clamp(max=q.shape[1] - 1)] for q in given])


@dataclass(frozen=True, slots=True)
class Prompt:
    """One conversation, ready for a target: ids after the processor's expansion, and what else its forward takes."""

    ids: Tensor  # [S] int64
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])  # of a batch of one: pixel values, grids …
    messages: Sequence[Mapping[str, Any]] = ()  # OpenAI-style, as given
    images: Sequence[object] = ()  # PIL pictures in order of appearance
    longest_edge: int | None = None  # pixels that pictures were scaled to; None: the checkpoint's own choice


@dataclass(frozen=True, slots=True)
class Needs:
    """What a drafter reads of the target's insides. Nothing is captured that nobody asked for."""

    layers: tuple[int, ...] = ()  # k means hidden_states[k]: 0 the merged embeddings, L the final norm's output
    embeddings: bool = False  # merged input embeddings of the prompt
    scores: bool = False  # attention that each prompt row received in the last full-attention layer


@dataclass(frozen=True, slots=True)
class Context:
    """The prompt as the target has read it: one row a prompt, padded on the right."""

    prompts: Sequence[Prompt]
    ids: Tensor  # [B, S] int64; -1 pads
    valid: Tensor  # [B, S] bool
    image: Tensor  # [B, S] bool; rows that stand for pictures, by token id, fixed at prefill
    embeddings: Tensor | None = None  # [B, S, H]
    features: Tensor | None = None  # [B, S, F]; the asked-for layers side by side
    scores: Tensor | None = None  # [B, S]


@dataclass(frozen=True, slots=True)
class Shared:
    """What a trained drafter uses of its target at run time and never stores: embedding, head, sizes."""

    embed: Callable[[Tensor], Tensor]  # ids [...] -> [..., H]
    head: Callable[[Tensor], Tensor]  # final normed states [..., H] -> logits [..., V]
    width: int  # H
    depth: int  # L, decoder layers
    vocab_size: int  # V, rows of the head
    like: Tensor  # empty; of the device and precision that drafters compute in
    spare_id: int | None = None  # an id that no text holds, such as a padding token apart from the end token


class Target(Protocol):
    """A model that can be asked for logits over drafts. Read-only: all state lives in its sessions."""

    @property
    def vocab_size(self) -> int: ...

    def open(
        self, prompts: Sequence[Prompt], needs: Needs = ..., *, clock: Clock = ...
    ) -> tuple[TargetSession, Context, Pass]:
        """Read the prompts. Each row's last token stays uncommitted as the first root, and Pass is what follows it."""
        ...


class TargetSession(Protocol):
    """A batch of conversations: cache, positions, images, guidance. The loop never looks inside."""

    @property
    def length(self) -> Tensor:
        """[B] int64; tokens committed."""
        ...

    def forward(self, root: Tensor, draft: Draft, start: int = 0) -> Pass:
        """Read root and draft behind what is committed. root: [B].

        With `start` = m > 0 the first m columns (the root is column 0) were read by the last forward of this round and
        stand unchanged; only the others are computed, and the Pass holds only them.
        """
        ...

    def commit(self, path: Tensor, length: Tensor) -> None:
        """Keep these columns of the block, in order, and forget the rest. path: [B, A]; length: [B], 0 allowed."""
        ...

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these. Between commit and forward only."""
        ...

    def join(self, other: Self) -> None:
        """Append the rows of another session of the same target. Between commit and forward only."""
        ...


class Drafter(Protocol):
    """A method of guessing. Read-only like the target."""

    @property
    def needs(self) -> Needs: ...

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = ...) -> DraftSession: ...


class DraftSession(Protocol):
    """What a drafter remembers of a batch of conversations."""

    def propose(self, verdict: Verdict) -> Draft: ...
    def keep(self, rows: Tensor) -> None: ...
    def join(self, other: Self) -> None: ...


class Coupling(Protocol):
    """A joint law of guesses x ~ q and outcome y ~ p. Lossless means: y's marginal is p, whatever x."""

    @property
    def exact(self) -> bool:
        """False for relaxed rules, which every table labels."""
        ...

    def propose(self, q: Law, width: int, dice: Dice) -> Tensor:
        """Guesses [..., width] for places [...]; -1 pads where the law has fewer."""
        ...

    def outcome_law(self, p: Law, x: Tensor, q: Law | None) -> Outcome:
        """The law of the outcome given the guesses x, [..., W]; q None: chosen, not drawn."""
        ...

    def settle(self, p: Law, x: Tensor, q: Law | None, dice: Dice) -> Tensor:
        """[...]; outcomes, drawn from `outcome_law`."""
        ...


class Outcome(Protocol):
    """A law of outcomes that can be drawn from and, for exact enumeration, written out."""

    def dense(self, vocab: int) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class Rule:
    """How logits become a law, and how guesses are coupled to it: shared by drafter and verifier."""

    law: Callable[[Tensor], Law]  # logits [..., V] -> law [...]; guidance, temperature, top-k, top-p, grammar: once
    coupling: Coupling


class Decoding(Iterator[Verdict]):
    """Rounds of drafting and verifying without end; the caller owns stopping, streaming and text."""

    def __init__(
        self,
        target: Target,
        drafter: Drafter,
        rule: Rule,
        prompts: Sequence[Prompt],
        seed: Tensor,
        *,
        clock: Clock = silent,
    ) -> None:
        self.rule, self.clock = rule, clock
        with clock("prefill"):
            self.session, self.context, self._first = target.open(prompts, drafter.needs, clock=clock)
        with clock("condition"):
            self.guesser = drafter.open(self.session, self.context, rule, clock=clock)
        self._dice = Dice(seed, self.session.length + 1, torch.zeros_like(seed))
        self._verdict: Verdict | None = None

    def __next__(self) -> Verdict:
        """One round: draft, verify, settle, commit. The first settles what follows the prompt, without a draft."""
        if self._verdict is None:
            draft, seen, dice = Draft.none(self._dice.seed), self._first, self._dice
        else:
            with self.clock("draft"):
                draft = self.guesser.propose(self._verdict)
            with self.clock("target"):
                seen = self.session.forward(self._verdict.root, draft)
            dice = replace(self._verdict.dice, actor=VERIFIER)
        with self.clock("settle"):
            self._verdict = verdict = settle(draft, seen, self.rule, dice)
        with self.clock("commit"):
            self.session.commit(verdict.path, verdict.length)
        return verdict

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows only, in this order. rows: [R] int64. Raises RuntimeError before the first round."""
        if self._verdict is None:
            raise RuntimeError("keep() needs a first round: nothing has been settled yet")
        self.session.keep(rows)
        self.guesser.keep(rows)
        self._verdict = self._verdict.keep(rows)

    def join(self, other: Decoding) -> None:
        """Take in the rows of another decoding of this target, drafter and rule, behind our own; it ends here.

        Its rows may be older or younger: each goes on as it would have alone. Raises RuntimeError before the first
        round of either, and ValueError for another rule.
        """
        if self._verdict is None or other._verdict is None:
            raise RuntimeError("join() needs a first round of both: nothing has been settled yet")
        if other.rule is not self.rule:
            raise ValueError("only rows under one and the same rule can be joined: their laws are drawn alike")
        self.session.join(other.session)
        self.guesser.join(other.guesser)
        self._verdict = self._verdict.join(other._verdict)


def decode(
    target: Target, drafter: Drafter, rule: Rule, prompts: Sequence[Prompt], seed: Tensor, *, clock: Clock = silent
) -> Decoding:
    """Decode prompts side by side, one verdict a round. seed: [B] int64, one a row."""
    return Decoding(target, drafter, rule, prompts, seed, clock=clock)


def settle(draft: Draft, seen: Pass, rule: Rule, dice: Dice) -> Verdict:
    """Draw an outcome at every node, then walk from the root for as long as a child guessed it."""
    law = rule.law(seen.logits)
    shape = draft.tree
    guesses = _guesses(draft)
    at = replace(dice, position=dice.position[:, None] + shape.depth)
    drawn = rule.coupling.settle(law, guesses, draft.q, at)
    path, length = _walk(shape, guesses == drawn[..., None])
    tokens = drawn.gather(1, path.clamp(min=0)).where(path >= 0, -1)
    features = seen.features
    if features is not None:
        features = features.gather(1, path.clamp(min=0)[..., None].expand(-1, -1, features.shape[2]))
    ahead = Dice(dice.seed, dice.position + length, dice.turn + 1, DRAFTER)
    return Verdict(draft, path, tokens, length, law, drawn, features, ahead)


def _guesses(draft: Draft) -> Tensor:
    """[B, N + 1, W]; the tokens of each node's children, -1 where there are fewer."""
    kids = draft.tree.kids
    if draft.tree.is_chain:
        return (
            pad(draft.tokens, (0, 1), value=-1)[..., None]
            if kids.shape[2]
            else draft.tokens.new_empty(draft.tokens.shape[0], 1, 0)
        )
    tokens = pad(draft.tokens, (1, 0), value=-1)
    b, n, w = tokens.shape[0], kids.shape[1], kids.shape[2]
    return tokens.gather(1, kids.expand(b, -1, -1).reshape(b, n * w)).view(b, n, w)


def _walk(shape: Tree, hit: Tensor) -> tuple[Tensor, Tensor]:
    """Path [B, A] and length [B] of the branch that guessed each outcome. hit: [B, N + 1, W] bool."""
    if shape.is_chain:
        length = hit[:, :-1, 0].long().cumprod(1).sum(1) + 1 if hit.shape[2] else torch.ones_like(hit[:, 0].sum(1))
        column = torch.arange(int(length.max()), device=hit.device)
        return column.where(column < length[:, None], -1), length
    step = torch.where(hit, shape.kids, 0).amax(2)
    here = torch.zeros_like(step[:, :1])
    path = [here]
    for _ in range(shape.height):
        onward = step.gather(1, here.clamp(min=0))
        here = onward.where((here >= 0) & (onward > 0), -1)
        path.append(here)
    walked = torch.cat(path, 1)
    length = (walked >= 0).sum(1)
    return walked[:, : int(length.max())], length
