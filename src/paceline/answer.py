"""From messages to text: stopping, budgets and streaming around the loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, overload

import torch
from torch import Tensor

from paceline import trace
from paceline.clock import Phase, Stopwatch
from paceline.core import Drafter, Prompt, Rule, Target, Verdict, decode
from paceline.couplings import COUPLINGS
from paceline.errors import UsageError, unknown
from paceline.sampling import GREEDY, Sampling
from paceline.spelling import BROKEN, Text
from paceline.trace import Round, Trace

Message = Mapping[str, Any]  # OpenAI-style: {"role": …, "content": text or parts}


class TextTarget(Target, Protocol):
    """A target that also reads messages and spells tokens."""

    @property
    def end_ids(self) -> tuple[int, ...]: ...
    @property
    def max_length(self) -> int: ...
    @property
    def device(self) -> torch.device: ...
    def encode(self, messages: Sequence[Message], *, longest_edge: int | None = None) -> Prompt: ...
    def decode(self, ids: Sequence[int]) -> str: ...


@dataclass(frozen=True, slots=True)
class Piece:
    """What one round added to one row."""

    row: int
    text: str  # whole characters only; the rest of a cut one comes with the next piece
    token_ids: tuple[int, ...]
    accepted: tuple[bool, ...]  # which of the tokens were guesses of the drafter
    finished: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """One row's text with the record of how it came about."""

    text: str
    trace: Trace
    accepted: tuple[bool, ...]  # which tokens were guesses of the drafter
    phases_ms: Mapping[Phase, float]  # means over the rows that were decoded together

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Emitted ids, the stop token included when it was reached."""
        return self.trace.token_ids

    @property
    def n_tokens(self) -> int:
        return len(self.trace.token_ids)

    @property
    def rounds(self) -> int:
        """Verifications, prefill not counted."""
        return len(self.trace.rounds)

    @property
    def tau(self) -> float:
        return trace.tau(self.trace.rounds)

    @property
    def tau_eff(self) -> float:
        return trace.tau_eff(self.trace.rounds)


class Row:
    """The text of one row while it grows: cuts exactly at the budget, an end id or a stop string."""

    def __init__(
        self, target: TextTarget, prompt: Prompt, sampling: Sampling, seed: int, *, spelled: bool = True
    ) -> None:
        """`spelled` False: ids only, for targets without a tokenizer."""
        self.prompt, self.seed = prompt, seed
        self.budget = min(sampling.max_new_tokens, target.max_length - len(prompt.ids))
        self.ends = frozenset(target.end_ids if sampling.stop_ids is None else sampling.stop_ids)
        self.tokens, self.accepted, self.rounds = list[int](), list[bool](), list[Round]()
        self.text = Text(target.decode if spelled else lambda ids: "", sampling.stop_strings)
        self.finished = False

    def take(self, tokens: list[int], proposed: int, *, prefill: bool) -> tuple[int, str]:
        """Append one round; how many of its tokens were kept, and the text that may be shown since."""
        kept = 0
        while kept < len(tokens) and not self.finished:
            token = tokens[kept]
            kept += 1
            self.tokens.append(token)
            self.accepted.append(kept < len(tokens))
            ended = token in self.ends
            self.finished = ended or len(self.tokens) >= self.budget
            if self.text.stops and not ended:
                self.finished |= self.text.push([token])
        if not self.text.stops:
            self.text.push([t for t in tokens[:kept] if t not in self.ends])
        if not prefill:
            self.rounds.append(Round(proposed, len(tokens) - 1, kept))
        return kept, self.text.show(final=self.finished)

    @property
    def reason(self) -> Literal["stop", "length"]:
        """Why it ended: an end id or a stop string, or the budget."""
        return "stop" if self.text.stopped or self.tokens[-1] in self.ends else "length"

    def answer(self, phases_ms: Mapping[Phase, float]) -> Answer:
        record = Trace(len(self.prompt.ids), self.seed, tuple(self.tokens), tuple(self.rounds))
        return Answer(self.text.shown, record, tuple(self.accepted), phases_ms)


def guessed(target: TextTarget, row: Row, piece: Piece, shown: int) -> tuple[str, str]:
    """The piece's text in two: what its accepted guesses spell, and what the target added. shown: characters before."""
    own = sum(not accepted for accepted in piece.accepted)
    if own == len(piece.accepted):
        return "", piece.text
    before = target.decode(row.tokens[: len(row.tokens) - own]).rstrip(BROKEN)
    cut = max(0, min(len(piece.text), len(before) - shown))
    return piece.text[:cut], piece.text[cut:]


def follow(target: TextTarget, drafter: Drafter, rows: Sequence[Row], rule: Rule, clock: Stopwatch) -> Iterator[Piece]:
    """Decode rows side by side until each has finished; finished rows leave the batch at once."""
    seeds = torch.tensor([row.seed for row in rows], device=target.device)
    rounds = decode(target, drafter, rule, [row.prompt for row in rows], seeds, clock=clock)
    alive = list(range(len(rows)))
    for number, verdict in enumerate(rounds):
        with clock("detokenize"):
            pieces = _advance(verdict, rows, alive, prefill=number == 0)
        yield from pieces
        stay = [i for i, row in enumerate(alive) if not rows[row].finished]
        if not stay:
            return
        if len(stay) < len(alive):
            rounds.keep(torch.tensor(stay, device=target.device))
            alive = [alive[i] for i in stay]


def _advance(verdict: Verdict, rows: Sequence[Row], alive: Sequence[int], *, prefill: bool) -> list[Piece]:
    pieces = list[Piece]()
    columns = zip(alive, verdict.tokens.tolist(), verdict.length.tolist(), _list(verdict.proposed), strict=True)
    for row, tokens, length, proposed in columns:
        kept, text = rows[row].take(tokens[:length], proposed, prefill=prefill)
        accepted = rows[row].accepted
        pieces.append(Piece(row, text, tuple(tokens[:kept]), tuple(accepted[-kept:]), rows[row].finished))
    return pieces


def _list(column: Tensor) -> list[int]:
    return [int(value) for value in column.tolist()]


def rule_of(sampling: Sampling, coupling: str = "gumbel") -> Rule:
    """The rule for these settings. Raises UsageError for an unknown coupling."""
    if coupling not in COUPLINGS:
        raise unknown("coupling", coupling, COUPLINGS)
    return Rule(sampling.law, COUPLINGS[coupling]())


def stream(
    target: TextTarget,
    drafter: Drafter,
    messages: Sequence[Message],
    sampling: Sampling = GREEDY,
    *,
    coupling: str = "gumbel",
    longest_edge: int | None = None,
) -> Iterator[Piece]:
    """Answer one conversation piece by piece, one piece a round. Leaving the iterator early leaves nothing behind."""
    clock = Stopwatch(target.device.type)
    row = Row(target, target.encode(messages, longest_edge=longest_edge), sampling, sampling.seed)
    yield from follow(target, drafter, [row], rule_of(sampling, coupling), clock)


@overload
def generate(
    target: TextTarget,
    drafter: Drafter,
    messages: Sequence[Message],
    sampling: Sampling = ...,
    *,
    coupling: str = ...,
    longest_edge: int | None = ...,
) -> Answer: ...
@overload
def generate(
    target: TextTarget,
    drafter: Drafter,
    messages: Sequence[Sequence[Message]],
    sampling: Sampling = ...,
    *,
    coupling: str = ...,
    longest_edge: int | None = ...,
) -> list[Answer]: ...
def generate(
    target: TextTarget,
    drafter: Drafter,
    messages: Sequence[Message] | Sequence[Sequence[Message]],
    sampling: Sampling = GREEDY,
    *,
    coupling: str = "gumbel",
    longest_edge: int | None = None,
) -> Answer | list[Answer]:
    """Answer one conversation, or several side by side; row i of several is drawn with seed + i.

    With the default coupling each text equals plain decoding with the same seed, token for token, in any batch.
    Raises UsageError for empty messages, a prompt longer than the target takes, or an unknown coupling.
    """
    if not messages:
        raise UsageError("messages is empty: give at least one, such as {'role': 'user', 'content': 'Hello'}")
    single = isinstance(messages[0], Mapping)
    conversations: Any = [messages] if single else messages
    clock = Stopwatch(target.device.type)
    with clock("preprocess"):
        prompts = [target.encode(talk, longest_edge=longest_edge) for talk in conversations]
    answers = answer_prompts(target, drafter, prompts, sampling, coupling=coupling, clock=clock)
    return answers[0] if single else answers


def answer_prompts(
    target: TextTarget,
    drafter: Drafter,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    *,
    coupling: str = "gumbel",
    clock: Stopwatch | None = None,
) -> list[Answer]:
    """Answers to prompts that are encoded already, decoded side by side; row i is drawn with seed + i."""
    clock = clock or Stopwatch(target.device.type)
    rows = [Row(target, prompt, sampling, sampling.seed + i) for i, prompt in enumerate(prompts)]
    for _ in follow(target, drafter, rows, rule_of(sampling, coupling), clock):
        pass
    phases: dict[Phase, float] = {phase: 1000 * seconds / len(rows) for phase, seconds in clock.seconds.items()}
    return [row.answer(phases) for row in rows]
