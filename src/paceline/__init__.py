"""Lossless speculative decoding for multimodal models; a table of contents that loads each name on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.answer import Answer, generate, stream
    from paceline.bridge import custom_generate
    from paceline.loading import load_drafter
    from paceline.sampling import Sampling
    from paceline.targets import load_target, load_visual

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "Sampling",
    "custom_generate",
    "generate",
    "load_drafter",
    "load_target",
    "load_visual",
    "stream",
]


def __getattr__(name: str) -> object:
    """The public object of that name, imported when first asked for; AttributeError for any other name."""
    rooms = {
        "Answer": "answer",
        "Sampling": "sampling",
        "custom_generate": "bridge",
        "generate": "answer",
        "load_drafter": "loading",
        "load_target": "targets",
        "load_visual": "targets",
        "stream": "answer",
    }
    if name not in rooms:
        raise AttributeError(f"module 'paceline' has no attribute {name!r}; it offers {', '.join(__all__)}")
    return getattr(import_module(f"paceline.{rooms[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
