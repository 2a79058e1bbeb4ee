"""What a client is told when a request is not answered: OpenAI's shape, the field's name, no stack trace."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

KINDS: Mapping[int, str] = {
    401: "authentication_error", 429: "rate_limit_error", 500: "server_error", 503: "server_error",
}  # fmt: skip


@dataclass(eq=False)
class Refusal(Exception):
    """An answer of status 400 or more."""

    status: int
    message: str
    param: str | None = None  # the field that is wrong, such as "messages[0].content"
    code: str | None = None
    wait_s: int | None = None  # when to come again

    def __str__(self) -> str:
        return self.message

    @property
    def body(self) -> dict[str, Any]:
        """The JSON document."""
        kind = KINDS.get(self.status, "invalid_request_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.wait_s is None else {"retry-after": str(self.wait_s)}


def bad(param: str | None, message: str, code: str | None = None) -> Refusal:
    """The 400 for a field."""
    return Refusal(400, message, param, code)


def broken() -> Refusal:
    """The 500 for what is our own fault; the log has the rest."""
    return Refusal(500, "the server failed on this request; its log says more", code="internal_error")


def nearest(name: str, known: Iterable[str]) -> str:
    """ " (did you mean 'x'?)", or nothing."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""
