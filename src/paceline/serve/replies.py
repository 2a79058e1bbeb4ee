"""The documents that clients get, whole or in pieces: OpenAI's, with what each round did where it is asked for."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline import __version__, trace
from paceline.serve.asked import Asked
from paceline.serve.engine import Ended, Step
from paceline.trace import Round

DONE = b"data: [DONE]\n\n"


def speculation(rounds: Sequence[Round]) -> dict[str, Any]:
    """How drafting went: vLLM's counters, and tau as paceline defines it. num_drafts counts rounds with a guess."""
    drafts = sum(each.proposed > 0 for each in rounds)
    guesses, accepted = sum(each.proposed for each in rounds), sum(each.accepted for each in rounds)
    depth = max((each.accepted for each in rounds), default=0)
    return {
        "num_drafts": drafts,
        "num_draft_tokens": guesses,
        "num_accepted_tokens": accepted,
        "acceptance_rate": accepted / guesses if guesses else 0.0,
        "mean_acceptance_length": 1 + accepted / drafts if drafts else 1.0,
        "acceptance_rate_per_position": [sum(r.accepted > k for r in rounds) / drafts for k in range(depth)],
        "rounds": len(rounds),
        "tau": trace.tau(rounds),
        "tau_eff": trace.tau_eff(rounds),
    }


def usage(ended: Sequence[Ended]) -> dict[str, Any]:
    """Tokens of a request and how they were drafted; the prompt counts once."""
    rounds = [each for one in ended for each in one.answer.trace.rounds]
    figures = speculation(rounds)
    prompt = ended[0].answer.trace.prompt_length
    said = sum(one.answer.n_tokens for one in ended)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": said,
        "total_tokens": prompt + said,
        "completion_tokens_details": {
            "accepted_prediction_tokens": figures["num_accepted_tokens"],
            "rejected_prediction_tokens": figures["num_draft_tokens"] - figures["num_accepted_tokens"],
        },
        "speculative_decoding": figures,
    }


@dataclass(frozen=True, slots=True)
class Reply:
    """The documents of one request. `kind` is chat.completion or text_completion."""

    kind: str
    model: str
    asked: Asked
    id: str = field(default_factory=lambda: f"paceline-{uuid.uuid4().hex}")
    created: int = field(default_factory=lambda: int(time.time()))

    def whole(self, ended: Sequence[Ended]) -> dict[str, Any]:
        """The answer in one document. ended: one a choice, in order."""
        choices = [
            {"index": one.choice, **self._said(one.answer.text), "finish_reason": one.reason, "logprobs": None}
            for one in ended
        ]
        return {**self._head(self.kind), "choices": choices, "usage": usage(ended)}

    def open(self) -> list[bytes]:
        """What a stream begins with."""
        if self.kind != "chat.completion":
            return []
        first = {"role": "assistant", "content": ""}
        return [self._chunk({"index": i, "delta": first, "finish_reason": None}) for i in range(self.asked.choices)]

    def step(self, choice: int, number: int, step: Step) -> list[bytes]:
        """A round's news, if any. number: of the round, 0 for the token that prefill settled."""
        if not step.text and not self.asked.rounds:
            return []
        more = {"round": _told(number, step)} if self.asked.rounds else {}
        return [self._chunk({"index": choice, **self._delta(step.text), "finish_reason": None, **more})]

    def end(self, ended: Ended) -> list[bytes]:
        """The end of one choice."""
        nothing = {"delta": {}} if self.kind == "chat.completion" else {"text": ""}
        return [self._chunk({"index": ended.choice, **nothing, "finish_reason": ended.reason})]

    def close(self, ended: Sequence[Ended]) -> list[bytes]:
        """What a stream ends with."""
        last = [self._chunk(None, usage=usage(ended))] if self.asked.usage else []
        return [*last, DONE]

    def _head(self, kind: str) -> dict[str, Any]:
        return {
            "id": self.id, "object": kind, "created": self.created, "model": self.model,
            "system_fingerprint": f"paceline-{__version__}", "seed": self.asked.sampling.seed,
        }  # fmt: skip

    def _said(self, text: str) -> dict[str, Any]:
        chat = self.kind == "chat.completion"
        return {"message": {"role": "assistant", "content": text, "refusal": None}} if chat else {"text": text}

    def _delta(self, text: str) -> dict[str, Any]:
        return {"delta": {"content": text}} if self.kind == "chat.completion" else {"text": text}

    def _chunk(self, choice: Mapping[str, Any] | None, **more: Any) -> bytes:
        kind = "chat.completion.chunk" if self.kind == "chat.completion" else self.kind
        return event({**self._head(kind), "choices": [] if choice is None else [choice], **more})


def event(document: Mapping[str, Any]) -> bytes:
    """A server-sent event."""
    return b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n"


def _told(number: int, step: Step) -> dict[str, Any]:
    done = step.round
    return {
        "number": number,
        "proposed": done.proposed if done else 0,
        "accepted": done.accepted if done else 0,
        "tokens": step.tokens,
        "guessed": step.guessed,  # the part of the text that accepted guesses spell
        "ms": round(step.ms, 3),
    }
