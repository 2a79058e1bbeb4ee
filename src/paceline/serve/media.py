"""Pictures that a client points to: bounded, and never a way into the host's files or its network."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote_to_bytes, urljoin, urlsplit

from PIL import Image

from paceline.errors import UsageError
from paceline.hf.pictures import decode_picture, inline
from paceline.serve.refusal import bad
from paceline.serve.settings import Settings

REDIRECTS = 3
PIECE = 2**16  # bytes read at once
Resolve = Callable[[str, int], Sequence[str]]  # (host, port) -> addresses


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host. Raises OSError where it has none."""
    return list(dict.fromkeys(str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)))


def is_public(address: str) -> bool:
    """Whether an address is out on the internet, also when it hides an IPv4 address inside an IPv6 one."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        nat64 = ip in ipaddress.ip_network("64:ff9b::/96")
        inner = ip.ipv4_mapped or ip.sixtofour or (ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if nat64 else None)
        if ip.teredo is not None:
            return False
        if inner is not None:
            return is_public(str(inner))
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified or ip.is_loopback)


@dataclass(frozen=True, slots=True)
class Media:
    """How a server reads pictures. Every method raises Refusal 400 with the field's name."""

    settings: Settings
    resolve: Resolve = resolve

    def picture(self, url: str, param: str) -> Image.Image:
        """The RGB picture behind a data:, https: or file: URL (http: only from allowed hosts)."""
        try:
            kind, data = self._bytes(url, param)
            limits = self.settings
            return decode_picture(data, kind, max_bytes=limits.picture_bytes, max_pixels=limits.picture_pixels)
        except UsageError as error:
            raise bad(param, str(error), "invalid_image") from None

    def _bytes(self, url: str, param: str) -> tuple[str, bytes]:
        scheme = url[:16].partition(":")[0].lower()
        if scheme == "data":
            if len(url) > 2 * self.settings.picture_bytes:
                raise bad(param, f"the picture has more than {self.settings.picture_bytes:,} bytes", "too_large")
            return "the data: URL", inline(url)
        if scheme == "file":
            return "the file", self._file(url, param)
        if scheme in ("http", "https"):
            return "the picture", self._fetch(url, param)
        raise bad(param, f"a picture's URL begins with data:, https: or file:, not {url[:16]!r}", "invalid_image_url")

    def _file(self, url: str, param: str) -> bytes:
        root = self.settings.media_path
        refused = bad(param, "file: URLs are read below --allowed-media-path only", "forbidden_path")
        parts = urlsplit(url)
        if root is None or parts.netloc not in ("", "localhost"):
            raise refused
        try:
            path = Path(unquote_to_bytes(parts.path).decode()).resolve()
        except (ValueError, OSError, RuntimeError):
            raise refused from None
        if not path.is_relative_to(root.resolve()):
            raise refused
        if not path.is_file():
            raise bad(param, "there is no such file below --allowed-media-path", "invalid_image")
        if path.stat().st_size > self.settings.picture_bytes:
            raise bad(param, f"the file has more than {self.settings.picture_bytes:,} bytes", "too_large")
        return path.read_bytes()

    def _fetch(self, url: str, param: str) -> bytes:
        until = time.monotonic() + self.settings.fetch_timeout_s
        for _ in range(REDIRECTS + 1):
            parts = self._checked(url, param)
            try:
                data, onward = self._get(parts, until, param)
            except (OSError, http.client.HTTPException, ValueError) as error:
                what = "timed out" if isinstance(error, TimeoutError) else "failed"
                raise bad(param, f"fetching the picture {what}", "image_fetch_failed") from None
            if onward is None:
                return data
            url = urljoin(url, onward)
        raise bad(param, f"the picture is behind more than {REDIRECTS} redirects", "image_fetch_failed")

    def _checked(self, url: str, param: str) -> SplitResult:
        """The parts of a URL that may be asked, before its host is looked up."""
        try:
            parts = urlsplit(url)
            host = parts.hostname
            parts.port  # noqa: B018 - a bad one raises
        except ValueError:
            raise bad(param, "the picture's URL is malformed", "invalid_image_url") from None
        if not host or parts.username is not None or parts.password is not None or len(url) > 4096:
            raise bad(param, "a picture's URL names a host, no user, and is short", "invalid_image_url")
        if parts.scheme != "https" and (parts.scheme != "http" or host not in self.settings.media_hosts):
            raise bad(param, "pictures are fetched by https: only", "invalid_image_url")
        return parts

    def _get(self, parts: SplitResult, until: float, param: str) -> tuple[bytes, str | None]:
        """(body, where a redirect points). The connection goes to the address that was checked: DNS is asked once."""
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        addresses = self.resolve(host, port)
        if not addresses or (host not in self.settings.media_hosts and not all(map(is_public, addresses))):
            raise bad(param, "the picture's host is not on the public internet", "forbidden_host")
        connection = _Pinned(host, port, addresses[0], parts.scheme == "https", until - time.monotonic())
        watch = threading.Timer(max(0.0, until - time.monotonic()), connection.cut)
        watch.daemon = True
        watch.start()
        try:
            path = parts.path or "/"
            headers = {"User-Agent": "paceline", "Accept": "image/*", "Accept-Encoding": "identity"}
            connection.request("GET", f"{path}?{parts.query}" if parts.query else path, headers=headers)
            with contextlib.closing(connection.getresponse()) as answer:
                return self._told(answer, until, param)
        finally:
            watch.cancel()
            connection.close()

    def _told(self, answer: http.client.HTTPResponse, until: float, param: str) -> tuple[bytes, str | None]:
        if answer.status in (301, 302, 303, 307, 308):
            return b"", answer.headers.get("Location") or ""
        if answer.status != 200:
            raise bad(param, f"the picture's host answered {answer.status}", "image_fetch_failed")
        return self._body(answer, until, param), None

    def _body(self, answer: http.client.HTTPResponse, until: float, param: str) -> bytes:
        limit, data = self.settings.picture_bytes, bytearray()
        while piece := answer.read1(PIECE):
            data += piece
            if len(data) > limit:
                raise bad(param, f"the picture has more than {limit:,} bytes", "too_large")
        if time.monotonic() >= until:
            raise TimeoutError
        return bytes(data)


class _Pinned(http.client.HTTPConnection):
    """A connection to one address, for a host of whatever name."""

    def __init__(self, host: str, port: int, address: str, secure: bool, patience_s: float) -> None:
        super().__init__(host, port, timeout=max(0.01, patience_s))
        self._address, self._secure = address, secure
        self._line: Any = None

    def connect(self) -> None:
        """Open the socket, and TLS for the host's name on it."""
        self.sock = self._line = socket.create_connection((self._address, self.port), timeout=self.timeout)
        if self._secure:
            self.sock = self._line = ssl.create_default_context().wrap_socket(self._line, server_hostname=self.host)

    def cut(self) -> None:
        """End whatever it waits for: a host that drips its answer byte by byte never lets a read time out."""
        if self._line is not None:  # kept apart: http.client forgets a socket that the response will close
            with contextlib.suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)
