"""Rows of one engine: each text is the offline one, places are bounded, leavers leave, a failure stays with its own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from laws.families import FAMILIES, TABLE
from paceline.answer import generate
from paceline.sampling import Sampling
from paceline.serve.engine import Ended, Engine, Job, Step
from paceline.serve.refusal import Refusal
from paceline.trace import Round
from unit.test_answer import Spelled

TARGET = Spelled(TABLE, end_ids=(3,), max_length=100_000)
ENDLESS = Sampling(temperature=1, max_new_tokens=50_000, stop_ids=())


class Ledger:
    """The observer that writes down."""

    def __init__(self) -> None:
        self.rounds, self.reasons, self.most = list[Round](), list[str](), 0

    def load(self, running: int, waiting: int) -> None:
        self.most = max(self.most, running)

    def first(self, seconds: float) -> None:
        assert seconds >= 0

    def round(self, done: Round) -> None:
        self.rounds.append(done)

    def ended(self, reason: str, seconds: float, prompt: int, tokens: int) -> None:
        self.reasons.append(reason)


class Asker:
    """A client of an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.news: dict[int, list[Any]] = {}

    def ask(self, text: str, sampling: Sampling, *, plain: bool = False) -> Job:
        job = Job(
            TARGET.encode([{"content": text}]), sampling, plain, lambda job, news: self.news[id(job)].append(news)
        )
        self.news[id(job)] = []
        self.engine.submit([job])
        return job

    def last(self, job: Job, seconds: float = 20) -> Any:
        """What a job ended with."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.news[id(job)] and isinstance(self.news[id(job)][-1], Ended | Refusal):
                return self.news[id(job)][-1]
            time.sleep(0.005)
        raise AssertionError("no end")

    def begun(self, job: Job) -> None:
        while not self.news[id(job)]:
            time.sleep(0.005)


@pytest.fixture(params=["lookup", "lm"])
def asker(request: pytest.FixtureRequest) -> Iterator[Asker]:
    engine = Engine(TARGET, FAMILIES[request.param], rows=3, queue=4, observer=Ledger())
    yield Asker(engine)
    engine.close(0)


def test_texts_are_the_offline_ones_whatever_shares_their_batch(asker: Asker) -> None:
    samplings = [
        Sampling(0.0), Sampling(1.0, top_k=3), Sampling(1.0), Sampling(0.7, top_p=0.8),
        Sampling(1.0, stop_strings=("ab",)),
    ]  # fmt: skip
    cases = [
        (
            word,
            Sampling(s.temperature, s.top_k, s.top_p, 0.0, seed, 15 + seed, stop_strings=s.stop_strings),
            seed % 3 == 0,
        )
        for seed, (word, s) in enumerate((w, s) for w in ("ab", "cdbba", "dd") for s in samplings)
    ]
    for some in (cases[:7], cases[7:14], cases[14:]):
        jobs = [asker.ask(word, sampling, plain=plain) for word, sampling, plain in some]
        for job, (word, sampling, _) in zip(jobs, some, strict=True):
            ended = asker.last(job)
            wanted = generate(TARGET, FAMILIES["none"], [{"content": word}], sampling)
            assert (ended.answer.text, ended.answer.token_ids) == (wanted.text, wanted.token_ids)
            steps = [each for each in asker.news[id(job)] if isinstance(each, Step)]
            assert "".join(step.text for step in steps) == wanted.text
            assert all(step.text.startswith(step.guessed) for step in steps)
            whole = wanted.n_tokens == sampling.max_new_tokens and wanted.token_ids[-1] != 3
            assert ended.reason == ("length" if whole else "stop")
    assert asker.engine.observer.most <= 3


def test_places_are_bounded(asker: Asker) -> None:
    running = [asker.ask("ab", ENDLESS) for _ in range(3)]
    for job in running:
        asker.begun(job)
    waiting = [asker.ask("ab", Sampling(max_new_tokens=3)) for _ in range(4)]
    with pytest.raises(Refusal) as caught:
        asker.ask("ab", Sampling())
    assert (caught.value.status, caught.value.headers) == (429, {"retry-after": "1"})
    asker.engine.cancel(running[:1])
    assert all(isinstance(asker.last(job), Ended) for job in waiting)
    asker.engine.cancel(running)
    until = time.monotonic() + 5
    while asker.engine.running and time.monotonic() < until:
        time.sleep(0.005)
    assert asker.engine.running == 0
    assert asker.engine.observer.reasons.count("abort") == 3
    heard = len(asker.news[id(running[0])])
    time.sleep(0.05)
    assert len(asker.news[id(running[0])]) == heard, "nobody listens any more"


def test_a_retired_engine_finishes_what_runs_and_refuses_what_waits(asker: Asker) -> None:
    running = [asker.ask("ab", Sampling(temperature=1, max_new_tokens=300, stop_ids=())) for _ in range(3)]
    waiting = asker.ask("ab", Sampling())
    for job in running:
        asker.begun(job)
    asker.engine.retire()
    assert asker.last(waiting).status == 503
    with pytest.raises(Refusal) as caught:
        asker.ask("ab", Sampling())
    assert caught.value.status == 503
    assert all(asker.last(job).answer.n_tokens == 300 for job in running)


def test_grace_ends(asker: Asker) -> None:
    job = asker.ask("ab", ENDLESS)
    asker.begun(job)
    asker.engine.close(0.1)
    assert asker.last(job).status == 503
    assert not asker.engine.alive


def test_a_failure_stays_with_its_own(asker: Asker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of memory")

    healthy = asker.ask("ab", Sampling(temperature=1, max_new_tokens=400, stop_ids=()))
    asker.begun(healthy)
    monkeypatch.setattr(Spelled, "open", refuse)
    assert asker.last(asker.ask("cd", Sampling())).status == 500
    monkeypatch.undo()
    assert asker.last(healthy).answer.n_tokens == 400
    assert isinstance(asker.last(asker.ask("cd", Sampling())), Ended)
