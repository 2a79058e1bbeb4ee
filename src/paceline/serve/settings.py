"""What a server allows, in one place and with units."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

from paceline.errors import UsageError

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits of a server. Raises UsageError for one out of range."""

    name: str  # what clients call the model
    rows: int = 8  # answers that are decoded side by side
    queue: int = 64  # answers that wait; one more is refused with 429
    choices: int = 8  # of one request
    body_bytes: int = 48 * MIB
    pictures: int = 8  # in one request
    picture_bytes: int = 16 * MIB
    picture_pixels: int = 32_000_000
    media_path: Path | None = None  # file: URLs are read below it; None: none are
    media_hosts: tuple[str, ...] = ()  # hosts that may resolve to private addresses and speak plain http
    api_key: str | None = None
    longest_edge: int | None = None  # pixels; where a request does not say
    header_timeout_s: float = 10.0  # for a request line with its headers
    body_timeout_s: float = 30.0
    fetch_timeout_s: float = 10.0  # for one picture, redirects included
    write_timeout_s: float = 30.0  # for a client to take what it was sent
    grace_s: float = 30.0  # for running answers to end after SIGTERM

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ("queue", "pictures", "grace_s") else 1
            if isinstance(value, int | float) and value < (0.001 if field.type == "float" and least else least):
                raise UsageError(f"{field.name} is {value}; it must be {'0' if not least else 'positive'} or more")
        if self.media_path is not None and not self.media_path.is_dir():
            raise UsageError(f"--allowed-media-path {self.media_path}: no such directory")
        if self.api_key is not None and len(self.api_key) < 8:
            raise UsageError("the API key has fewer than 8 characters")
