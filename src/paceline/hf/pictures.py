"""Pictures from wherever a message points to, bounded in bytes and pixels before anything is decoded."""

from __future__ import annotations

import base64
import binascii
import io
import os
import warnings
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

from PIL import Image, UnidentifiedImageError

from paceline.errors import UsageError

MAX_BYTES = 32 * 2**20
MAX_PIXELS = 64_000_000
TIMEOUT_S = 20.0
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "ICO", "AVIF")  # none that runs another program


def load_picture(source: object) -> Image.Image:
    """An RGB picture from a PIL image, a path, or an http(s), file or data URL.

    Raises UsageError for what is missing, no picture, broken, larger than MAX_BYTES or of more than MAX_PIXELS.
    """
    if isinstance(source, Image.Image):
        return _bounded(source, "the picture").convert("RGB")
    if not isinstance(source, str | os.PathLike):
        raise UsageError(f"a picture is a PIL image, a path or a URL, not {type(source).__name__}")
    text = os.fspath(source)
    scheme = urlsplit(text).scheme.lower() if isinstance(source, str) else ""
    if scheme == "data":
        return decode_picture(inline(text), "the data: URL")
    if scheme in ("http", "https"):
        return decode_picture(_fetch(text), text)
    path = Path(unquote_to_bytes(urlsplit(text).path).decode()) if scheme == "file" else Path(text)
    return decode_picture(_read(path), str(path))


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise UsageError(f"picture {path} is not a file")
        if size > MAX_BYTES:
            raise UsageError(f"picture {path} has {size:,} bytes; the limit is {MAX_BYTES:,}")
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"picture {path} does not exist") from None
    except OSError as error:
        raise UsageError(f"picture {path} cannot be read: {error.strerror or error}") from None


def inline(text: str) -> bytes:
    """The bytes in a data: URL. Raises UsageError for one that is broken or too long."""
    head, comma, body = text.partition(",")
    if not comma:
        raise UsageError("the data: URL has no comma between its type and its bytes")
    if len(body) > 2 * MAX_BYTES:
        raise UsageError(f"the data: URL is longer than the limit of {MAX_BYTES:,} bytes")
    try:
        return base64.b64decode(body, validate=True) if head.endswith(";base64") else unquote_to_bytes(body)
    except (binascii.Error, ValueError):
        raise UsageError("the data: URL holds no valid base64") from None


def _fetch(url: str) -> bytes:
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    try:
        with urlopen(Request(url, headers={"User-Agent": "paceline"}), timeout=TIMEOUT_S) as answer:
            data = answer.read(MAX_BYTES + 1)
    except (URLError, OSError, ValueError) as error:
        raise UsageError(f"picture {url} cannot be fetched: {getattr(error, 'reason', error)}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"picture {url} is larger than the limit of {MAX_BYTES:,} bytes")
    return data


def decode_picture(data: bytes, name: str, *, max_bytes: int = MAX_BYTES, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """An RGB picture from the bytes of a file; `name` is what errors call it. Raises UsageError as `load_picture`."""
    if len(data) > max_bytes:
        raise UsageError(f"{name} has {len(data):,} bytes; the limit is {max_bytes:,}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit is lower, and exact
            with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
                return _bounded(picture, name, max_pixels).convert("RGB")
    except Image.DecompressionBombError:
        raise UsageError(f"{name} has far more pixels than the limit of {max_pixels:,}") from None
    except UnidentifiedImageError:
        raise UsageError(f"{name} is not a picture of a known format") from None
    except (OSError, ValueError, SyntaxError, EOFError, IndexError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{name} is a broken picture: {error}") from None


def _bounded(picture: Image.Image, name: str, max_pixels: int = MAX_PIXELS) -> Image.Image:
    width, height = picture.size
    if width * height > max_pixels:
        raise UsageError(f"{name} has {width} x {height} pixels; the limit is {max_pixels:,} pixels")
    if not width or not height:
        raise UsageError(f"{name} is empty: {width} x {height} pixels")
    return picture
