"""Turns a scene of the suite into token ids and tiles, exactly as the processor and the chat template would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from paceline.tasks.scene import Exchange, Scene
from paceline.train.packing import Branch, Packed
from paceline.train.vocabulary import ASSISTANT, BEGIN, END, IMAGE, USER

if TYPE_CHECKING:
    from transformers import Idefics3Processor


class Encoder:
    """Encodes scenes with one processor; picture layouts are tokenised once and remembered."""

    def __init__(self, processor: Idefics3Processor) -> None:
        self.processor = processor
        self._prefixes: dict[tuple[tuple[int, int], ...], np.ndarray] = {}

    def encode(self, scene: Scene) -> Packed:
        """Return the scene as one prefix with a branch for each exchange."""
        tiles, layout = self.tiles(scene.images, scene.longest_edge)
        if layout not in self._prefixes:
            self._prefixes[layout] = self._prefix(scene)
        branches = tuple(self.branch(exchange) for exchange in scene.exchanges)
        return Packed(scene.task, scene.index, tiles, self._prefixes[layout], branches)

    def tiles(self, images: Sequence[Image.Image], longest_edge: int) -> tuple[np.ndarray, tuple[tuple[int, int], ...]]:
        """Return tiles [t, h, w, 3] as bytes, and rows and columns of every picture."""
        if not images:
            return np.zeros((0, 1, 1, 3), dtype=np.uint8), ()
        found: Any = self.processor.image_processor(
            [list(images)], size={"longest_edge": longest_edge}, do_rescale=False, do_normalize=False,
            return_row_col_info=True, return_tensors="np",
        )  # fmt: skip
        pixels = found["pixel_values"][0]
        stored = pixels.astype(np.uint8)
        if not np.array_equal(stored, pixels):
            raise ValueError("the processor returned pixels that are not whole bytes")
        layout = tuple(zip(found["rows"][0], found["cols"][0], strict=True))
        return np.ascontiguousarray(np.moveaxis(stored, 1, -1)), layout

    def branch(self, exchange: Exchange) -> Branch:
        """Return question, turn tokens, answer and end token; the answer starts at `answer`."""
        question = self._ids(f"{exchange.question}{END}{ASSISTANT}")
        return Branch(np.concatenate([question, self._ids(f"{exchange.answer}{END}")]), len(question))

    def _prefix(self, scene: Scene) -> np.ndarray:
        text = BEGIN + USER + IMAGE * len(scene.images)
        if not scene.images:
            return self._ids(text)
        found: Any = self.processor(
            text=text, images=list(scene.images), size={"longest_edge": scene.longest_edge}, return_tensors="np"
        )
        return found["input_ids"][0].astype(np.int32)

    def _ids(self, text: str) -> np.ndarray:
        tokenizer: Any = self.processor.tokenizer
        return np.asarray(tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int32)
