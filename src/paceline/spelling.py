"""Text from tokens as they come: whole characters only, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Callable, Sequence

BROKEN = "\ufffd"  # what a tokenizer gives for a character whose bytes are not all there


class Text:
    """Grows by tokens. `shown` is what may be shown: it never has to be taken back."""

    def __init__(self, decode: Callable[[Sequence[int]], str], stops: Sequence[str] = ()) -> None:
        self.stops = tuple(stops)
        self.shown = ""
        self._decode = decode
        self._tokens = list[int]()
        self._begin, self._read = 0, 0  # tokens from _begin are decoded again, so that spaces between words are right
        self._given = 0  # characters of those that were handed on
        self._text = ""
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether a stop string was completed."""
        return self._stopped

    def push(self, tokens: Sequence[int]) -> bool:
        """Append tokens; whether a stop string is complete. The text ends before the earliest one."""
        self._tokens += tokens
        self._text += self._fresh(final=False)
        found = [at for stop in self.stops if (at := self._text.find(stop, len(self.shown))) >= 0]
        if found:
            self._text, self._stopped = self._text[: min(found)], True
        return self._stopped

    def show(self, *, final: bool) -> str:
        """What is new to show. final: also what was held back in case more comes."""
        if final and not self._stopped:
            self._text += self._fresh(final=True)
        new = self._text if final or self._stopped else self._text[: len(self._text) - self._held()]
        more = new[len(self.shown) :]
        self.shown += more
        return more

    def _fresh(self, *, final: bool) -> str:
        """Characters that the tokens since the last call completed."""
        text = self._decode(self._tokens[self._begin :])
        whole = text if final else text.rstrip(BROKEN)
        new = whole[self._given :]
        self._given = max(self._given, len(whole))
        if whole == text:
            self._begin, self._read = self._read, len(self._tokens)
            self._given = len(self._decode(self._tokens[self._begin :]))
        return new

    def _held(self) -> int:
        """Characters at the end that may begin a stop string."""
        longest = min(max(map(len, self.stops), default=1) - 1, len(self._text) - len(self.shown))
        return next((n for n in range(longest, 0, -1) if self._text.endswith(tuple(s[:n] for s in self.stops))), 0)
