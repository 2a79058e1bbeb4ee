"""A picture on a terminal: two pixels a character."""

from __future__ import annotations

from PIL import Image
from rich.color import Color
from rich.style import Style
from rich.text import Text

HALF = "▀"  # the upper pixel in its own colour, the lower one in that of the ground


def preview(picture: Image.Image, columns: int = 48) -> Text:
    """The picture, `columns` characters wide."""
    rows = max(2, round(columns * picture.height / picture.width / 2) * 2)
    small = picture.convert("RGB").resize((columns, rows), Image.Resampling.LANCZOS).tobytes()
    text = Text(no_wrap=True)
    for upper in range(0, rows, 2):
        for column in range(columns):
            top, ground = (small[3 * (row * columns + column) :][:3] for row in (upper, upper + 1))
            text.append(HALF, Style(color=Color.from_rgb(*top), bgcolor=Color.from_rgb(*ground)))
        text.append("\n")
    return text
