"""Counters for Prometheus, under the names that vLLM gives them, so that dashboards need no change."""

from __future__ import annotations

from typing import Any

from paceline.trace import Round

POSITIONS = 64  # drafts deeper than this are counted with the last one


class Metrics:
    """The observer of an engine, with a registry of its own.

    num_drafts counts rounds that had a guess; acceptance per position is accepted at that depth over drafts.
    """

    def __init__(self, model: str) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = CollectorRegistry()
        label: dict[str, Any] = {"labelnames": ["model_name"], "registry": self.registry}

        def one(kind: Any, name: str, what: str, **more: Any) -> Any:
            return kind(name, what, **label, **more).labels(model_name=model)

        self.running = one(Gauge, "vllm:num_requests_running", "Answers that are decoded.")
        self.waiting = one(Gauge, "vllm:num_requests_waiting", "Answers that wait for a place.")
        self.drafts = one(Counter, "vllm:spec_decode_num_drafts", "Rounds with a draft.")
        self.guesses = one(Counter, "vllm:spec_decode_num_draft_tokens", "Guessed tokens, along one path a round.")
        self.accepted = one(Counter, "vllm:spec_decode_num_accepted_tokens", "Guessed tokens that were accepted.")
        self.prompt = one(Counter, "vllm:prompt_tokens", "Tokens of prompts read.")
        self.generated = one(Counter, "vllm:generation_tokens", "Tokens emitted.")
        self.seconds = one(Histogram, "vllm:e2e_request_latency_seconds", "From submission to the last token.")
        self.wait = one(Histogram, "vllm:time_to_first_token_seconds", "From submission to the first token.")
        names: dict[str, Any] = {"labelnames": ["model_name", "position"], "registry": self.registry}
        by_position = Counter(
            "vllm:spec_decode_num_accepted_tokens_per_pos", "Accepted tokens at each depth of the draft.", **names
        )
        self._positions = [by_position.labels(model_name=model, position=str(k)) for k in range(POSITIONS)]
        names = {"labelnames": ["model_name", "finished_reason"], "registry": self.registry}
        self._reasons = Counter("vllm:request_success", "Answers that ended, by reason.", **names)
        names = {"labelnames": ["model_name", "status"], "registry": self.registry}
        self._refused = Counter("paceline:requests_refused", "Requests answered with an error, by status.", **names)
        self.model = model

    def load(self, running: int, waiting: int) -> None:
        self.running.set(running)
        self.waiting.set(waiting)

    def first(self, seconds: float) -> None:
        self.wait.observe(seconds)

    def round(self, done: Round) -> None:
        if not done.proposed:
            return
        self.drafts.inc()
        self.guesses.inc(done.proposed)
        self.accepted.inc(done.accepted)
        for position in self._positions[: done.accepted]:
            position.inc()

    def ended(self, reason: str, seconds: float, prompt: int, tokens: int) -> None:
        self.prompt.inc(prompt)
        self.generated.inc(tokens)
        self.seconds.observe(seconds)
        self._reasons.labels(model_name=self.model, finished_reason=reason).inc()

    def refused(self, status: int) -> None:
        """Count an answer of status 400 or more."""
        self._refused.labels(model_name=self.model, status=str(status)).inc()

    def text(self) -> bytes:
        """All of it in the text format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)
