"""One thread that decodes: rows of all requests share the loop's ragged batch, and join and leave between rounds."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from paceline.answer import Answer, Piece, Row, guessed, rule_of
from paceline.core import Decoding, Drafter, Prompt, Rule, Verdict, decode
from paceline.drafters import method
from paceline.errors import UsageError
from paceline.sampling import Sampling
from paceline.serve.refusal import Refusal, bad, broken
from paceline.trace import Round

LOG = logging.getLogger("paceline.serve")


@dataclass(frozen=True, slots=True)
class Step:
    """What one round added to one answer."""

    text: str
    guessed: str  # the part of the text that accepted guesses spell; the target wrote the rest
    tokens: int
    round: Round | None  # None: the token that prefill settled
    ms: float  # of the round, which all rows of its batch shared


@dataclass(frozen=True, slots=True)
class Ended:
    """The whole answer."""

    answer: Answer
    reason: str  # stop or length
    choice: int


Event = Step | Ended | Refusal


@dataclass(eq=False)
class Job:
    """One answer that is wanted. `tell` is called in the engine's thread: it must return at once."""

    prompt: Prompt
    sampling: Sampling  # its seed is this answer's own
    plain: bool  # without the drafter
    tell: Callable[[Job, Event], None]
    choice: int = 0
    since: float = field(default_factory=time.monotonic)
    cancelled: bool = False


class Observer(Protocol):
    """What counts; called in the engine's thread."""

    def load(self, running: int, waiting: int) -> None: ...
    def first(self, seconds: float) -> None: ...
    def round(self, done: Round) -> None: ...
    def ended(self, reason: str, seconds: float, prompt: int, tokens: int) -> None: ...


@dataclass(eq=False)
class Running:
    """A row of a batch."""

    job: Job
    row: Row
    shown: int = 0  # characters


@dataclass(eq=False)
class Batch:
    """Rows under one rule and one drafter."""

    rule: Rule
    rounds: Decoding
    rows: list[Running]


class Engine:
    """Decodes jobs in the order in which they came, at most `rows` side by side.

    Rows that are drawn by the same rule share a forward; batches under different rules take turns, a round each.
    Under the Gumbel coupling an answer depends on its prompt, sampling and seed alone.
    """

    def __init__(
        self, target: Any, drafter: Drafter, *, rows: int, queue: int, observer: Observer, coupling: str = "gumbel"
    ) -> None:
        """target: an HFTarget. Raises UsageError for an unknown coupling."""
        rule_of(Sampling(), coupling)
        self.target, self.drafter, self.coupling = target, drafter, coupling
        self.rows, self.queue, self.observer = rows, queue, observer
        self.spelling = threading.Lock()  # a tokenizer must not spell and read at the same time
        self._plain = method("none")()
        self._waiting = deque[Job]()
        self._batches: dict[object, Batch] = {}
        self._entering = False  # a job has left the queue and not joined its batch yet
        self._change = threading.Condition()
        self._open, self._alive = True, True
        self._thread = threading.Thread(target=self._run, name="paceline-engine", daemon=True)
        self._thread.start()

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queue all of these, or none. Raises Refusal: 429 where they do not fit, 503 once retired."""
        with self._change:
            if not self._open:
                raise closing()
            if len(self._waiting) + len(jobs) > self.queue + max(0, self.rows - self.running):
                raise Refusal(429, f"{len(self._waiting)} answers wait already; come again", None, "queue_full", 1)
            self._waiting.extend(jobs)
            self._change.notify()

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Nobody waits for these any more: they leave before the next round."""
        with self._change:
            for job in jobs:
                job.cancelled = True
            self._change.notify()

    @property
    def running(self) -> int:
        """Rows that are being decoded, the one whose prompt is being read included."""
        return sum(len(batch.rows) for batch in self._batches.values()) + self._entering

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def alive(self) -> bool:
        """Whether the thread runs and takes jobs."""
        return self._open and self._thread.is_alive()

    def retire(self) -> None:
        """Take no more jobs and refuse those that wait; running answers go on. Safe in a signal handler."""
        self._open = False

    def close(self, grace_s: float) -> None:
        """Retire, give running answers this many seconds, then refuse them; returns when the thread has ended."""
        self._open = False
        until = time.monotonic() + grace_s
        while self._thread.is_alive() and (self.running or self._waiting) and time.monotonic() < until:
            time.sleep(0.02)
        with self._change:
            self._alive = False
            self._change.notify()
        self._thread.join(timeout=30)

    def _run(self) -> None:
        with torch.inference_mode():
            while True:
                with self._change:
                    self._change.wait_for(self._wanted, timeout=0.5)
                    refused = self._turned_away()
                    newcomer = self._next() if self._alive else None
                    self._entering = newcomer is not None
                    ends = not self._alive
                for job in refused:
                    self._tell(job, closing())
                if ends:
                    return
                if newcomer is not None:
                    self._admit(newcomer)
                    self._entering = False
                for key in list(self._batches):
                    self._advance(key)
                self.observer.load(self.running, len(self._waiting))

    def _wanted(self) -> bool:
        return bool(self._waiting or self._batches or not self._alive)

    def _turned_away(self) -> list[Job]:
        """Jobs that will not be finished, taken out of where they were. The lock is held."""
        away = list[Job]()
        if not self._open:
            away += [job for job in self._waiting if not job.cancelled]
            self._waiting.clear()
        if not self._alive:
            away += [each.job for batch in self._batches.values() for each in batch.rows if not each.job.cancelled]
            self._batches.clear()
        return away

    def _next(self) -> Job | None:
        """The longest waiting job, if there is room for it. The lock is held."""
        while self._waiting and self.running < self.rows:
            job = self._waiting.popleft()
            if not job.cancelled:
                return job
        return None

    def _admit(self, job: Job) -> None:
        """Read a prompt, settle its first token and let the row join its batch."""
        key = _key(job)
        batch = self._batches.get(key)
        rule = rule_of(job.sampling, self.coupling) if batch is None else batch.rule
        try:
            running = Running(job, Row(self.target, job.prompt, job.sampling, job.sampling.seed))
            seed = torch.tensor([job.sampling.seed], device=self.target.device)
            begin = time.perf_counter()
            fresh = decode(self.target, self._plain if job.plain else self.drafter, rule, [job.prompt], seed)
            newcomer = Batch(rule, fresh, [running])
            self._hear(newcomer, next(fresh), begin, prefill=True)
            self.observer.first(time.monotonic() - job.since)
            self._leave(newcomer)
            if not newcomer.rows:
                return
            if batch is None:
                self._batches[key] = newcomer
            else:
                batch.rounds.join(newcomer.rounds)
                batch.rows += newcomer.rows
        except Exception as error:  # noqa: BLE001 - whatever it is, one request fails and the others go on
            if batch is not None and len(batch.rounds.session.length) != len(batch.rows):
                self._fail(key, error)  # half joined
            self._tell(job, _refusal(error))

    def _advance(self, key: object) -> None:
        """One round of a batch."""
        batch = self._batches[key]
        try:
            self._leave(batch)
            if batch.rows:
                begin = time.perf_counter()
                self._hear(batch, next(batch.rounds), begin, prefill=False)
                self._leave(batch)
            if not batch.rows:
                del self._batches[key]
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(key, error)

    def _hear(self, batch: Batch, verdict: Verdict, begin: float, *, prefill: bool) -> None:
        """Give each row its tokens of a round, and each job its news."""
        tokens, length, proposed = verdict.tokens.tolist(), verdict.length.tolist(), verdict.proposed.tolist()
        ms = 1000 * (time.perf_counter() - begin)
        for each, line, n, g in zip(batch.rows, tokens, length, proposed, strict=True):
            row = each.row
            with self.spelling:
                kept, text = row.take(line[:n], int(g), prefill=prefill)
                piece = Piece(0, text, tuple(line[:kept]), tuple(row.accepted[-kept:]), row.finished)
                drafted = guessed(self.target, row, piece, each.shown)[0]
            each.shown += len(text)
            done = None if prefill else row.rounds[-1]
            if done is not None:
                self.observer.round(done)
            self._tell(each.job, Step(text, drafted, kept, done, ms))

    def _leave(self, batch: Batch) -> None:
        """Take finished and cancelled rows out of a batch."""
        stay = [i for i, each in enumerate(batch.rows) if not each.row.finished and not each.job.cancelled]
        if len(stay) == len(batch.rows):
            return
        for each in batch.rows:
            if each.row.finished or each.job.cancelled:
                row, reason = each.row, "abort" if each.job.cancelled else each.row.reason
                seconds = time.monotonic() - each.job.since
                self.observer.ended(reason, seconds, len(each.job.prompt.ids), len(row.tokens))
                self._tell(each.job, Ended(row.answer({}), reason, each.job.choice))
        batch.rows = [batch.rows[i] for i in stay]
        if stay:
            batch.rounds.keep(torch.tensor(stay, device=self.target.device))

    def _fail(self, key: object, error: Exception) -> None:
        """Something broke in a batch: its rows fail, the engine goes on."""
        batch = self._batches.pop(key)
        for each in batch.rows:
            self._tell(each.job, _refusal(error))

    @staticmethod
    def _tell(job: Job, event: Event) -> None:
        if job.cancelled:
            return
        try:
            job.tell(job, event)
        except RuntimeError:  # the event loop that wanted it has ended
            job.cancelled = True


def closing() -> Refusal:
    """The 503 of a server that is about to end."""
    return Refusal(503, "the server is shutting down", None, "shutting_down", 5)


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, UsageError):
        return bad(None, str(error))
    LOG.error("a round failed", exc_info=error)
    return broken()


def _key(job: Job) -> tuple[bool, Sampling]:
    """What rows must have in common to share a batch: the drafter and the law."""
    law = replace(job.sampling, seed=0, max_new_tokens=1, stop_ids=None, stop_strings=())
    greedy = law.temperature == 0
    return job.plain, replace(law, top_k=0, top_p=1.0, min_p=0.0) if greedy else law
