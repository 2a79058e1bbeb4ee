"""Pictures are no way in: neither to files outside the allowed path nor to hosts that are not public."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.serve.media import Media, is_public
from paceline.serve.refusal import Refusal
from paceline.serve.settings import Settings
from unit.cli.checkpoint import Shelf

PUBLIC, PRIVATE = "93.184.215.14", "10.1.2.3"


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "10.0.0.1", "172.16.5.5", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0",
        "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::", "198.18.0.1",
        "192.0.2.1", "240.0.0.1",
    ],
)  # fmt: skip
def test_private_addresses(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", PUBLIC, "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses(address: str) -> None:
    assert is_public(address)


class Site(http.server.BaseHTTPRequestHandler):
    """Answers by path; counts what it was asked."""

    asked: list[str]
    picture: bytes

    def do_GET(self) -> None:
        self.asked.append(f"{self.headers['host']}{self.path}")
        name, _, rest = self.path.lstrip("/").partition("?")
        if name == "hop":
            self.send_response(302)
            self.send_header("Location", rest)
            self.end_headers()
        elif name == "drip":
            self.send_response(200)
            self.end_headers()
            for _ in range(100):
                time.sleep(0.05)
                try:
                    self.wfile.write(b"x")
                except OSError:
                    return
        elif name == "picture":
            self._whole(self.picture)
        elif name == "huge":
            self._whole(b"x" * 300_000)
        else:
            self.send_error(404)

    def _whole(self, body: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        return


@pytest.fixture
def site(shelf: Shelf) -> Iterator[tuple[str, list[str]]]:
    """(address of a site on loopback, what it was asked)."""
    asked: list[str] = []
    handler = type("Here", (Site,), {"asked": asked, "picture": shelf.picture.read_bytes()})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()


def media(*hosts: str, resolve: Any = None, **settings: Any) -> Media:
    given = Settings("m", media_hosts=hosts, picture_bytes=100_000, fetch_timeout_s=1.0, **settings)
    return Media(given, resolve) if resolve else Media(given)


def refused(how: Media, url: str, code: str) -> str:
    with pytest.raises(Refusal) as caught:
        how.picture(url, "field")
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, "field", code), str(caught.value)
    return str(caught.value)


def test_an_allowed_host_is_read(site: tuple[str, list[str]]) -> None:
    base, _ = site
    allowed = media("127.0.0.1")
    assert allowed.picture(f"{base}/picture", "field").size == (96, 96)
    assert allowed.picture(f"{base}/hop?/picture", "field").size == (96, 96)
    refused(allowed, f"{base}/nothing", "image_fetch_failed")
    refused(allowed, f"{base}/huge", "too_large")
    refused(allowed, f"{base}/hop?/hop?/hop?/hop?/hop?/picture", "image_fetch_failed")
    begin = time.monotonic()
    assert "timed out" in refused(allowed, f"{base}/drip", "image_fetch_failed")
    assert time.monotonic() - begin < 3


def test_no_way_to_hosts_that_are_not_public(site: tuple[str, list[str]]) -> None:
    base, asked = site
    port = base.rpartition(":")[2]
    closed = media()
    refused(closed, f"{base}/picture", "invalid_image_url")  # http
    for host in ("127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]"):
        refused(closed, f"https://{host}:{port}/picture", "forbidden_host")
    for answers in ([PRIVATE], ["127.0.0.1"], [PUBLIC, "169.254.169.254"], []):
        refused(
            media(resolve=lambda host, port, a=answers: a), f"https://evil.example:{port}/picture", "forbidden_host"
        )
    for url in ("https://user:word@a.example/", "https:///x", "https://a.example:99999/", "http://a.example/"):
        refused(closed, url, "invalid_image_url")
    for url in ("gopher://a/", "ftp://a/", "/etc/passwd", "", "javascript:1", " file:///etc/passwd"):
        refused(closed, url, "invalid_image_url")
    assert asked == []


def test_a_redirect_is_checked_like_any_url(site: tuple[str, list[str]]) -> None:
    base, asked = site
    port = base.rpartition(":")[2]
    allowed = media("127.0.0.1")
    for target, code in (
        (f"https://localhost:{port}/picture", "forbidden_host"),
        (f"http://localhost:{port}/picture", "invalid_image_url"),
        ("https://169.254.169.254/latest/meta-data", "forbidden_host"),
        ("file:///etc/passwd", "invalid_image_url"),
    ):
        refused(allowed, f"{base}/hop?{target}", code)
    assert all("/hop" in line for line in asked)


def test_a_name_is_looked_up_once_and_the_checked_address_is_called(site: tuple[str, list[str]]) -> None:
    """A host that changes its address after the check gains nothing: the second answer is never asked for."""
    base, asked = site
    port = int(base.rpartition(":")[2])
    looked: list[str] = []

    def rebind(host: str, port: int) -> list[str]:
        looked.append(host)
        return ["127.0.0.1"] if len(looked) == 1 else [PRIVATE]

    allowed = media("pictures.example", resolve=rebind)
    assert allowed.picture(f"http://pictures.example:{port}/picture", "field").size == (96, 96)
    assert looked == ["pictures.example"]
    assert asked == [f"pictures.example:{port}/picture"]


def test_files_below_the_allowed_path_only(shelf: Shelf, tmp_path: Path) -> None:
    root = tmp_path / "allowed"
    root.mkdir()
    (root / "a b.png").write_bytes(shelf.picture.read_bytes())
    secret = tmp_path / "secret.png"
    secret.write_bytes(shelf.picture.read_bytes())
    (root / "link.png").symlink_to(secret)
    (tmp_path / "allowed-too").mkdir()
    (tmp_path / "allowed-too" / "x.png").write_bytes(secret.read_bytes())
    how = media(media_path=root)
    assert how.picture(f"file://{root}/a%20b.png", "field").size == (96, 96)
    for path in (
        secret,
        root / ".." / "secret.png",
        root / "link.png",
        tmp_path / "allowed-too" / "x.png",
        "/etc/passwd",
    ):
        refused(how, f"file://{path}", "forbidden_path")
    refused(how, f"file://{root}/%2e%2e/secret.png", "forbidden_path")
    refused(how, f"file://elsewhere{root}/a%20b.png", "forbidden_path")
    refused(how, f"file://{root}/a%00b.png", "forbidden_path")
    refused(how, f"file://{root}", "invalid_image")
    refused(how, f"file://{root}/none.png", "invalid_image")
    refused(media(), f"file://{secret}", "forbidden_path")
