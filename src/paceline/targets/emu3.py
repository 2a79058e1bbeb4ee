"""Emu3: a Llama that draws row by row in one vocabulary with its words; each row ends with a token of its own.

Checkpoint: BAAI/Emu3-Gen-hf. Its makers draw with guidance 3 and top_k 2048.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from paceline.core import Prompt
from paceline.errors import UsageError
from paceline.layout import Layout
from paceline.targets.drawing import Drawing
from paceline.targets.image_mode import to_bytes

if TYPE_CHECKING:
    import numpy as np

LINE_END, FRAME_END, IMAGE_END = "<|extra_200|>", "<|extra_201|>", "<|image end|>"
IMAGE_START, IMAGE = "<|image start|>", "<|image token|>"
AREA = 720 * 720  # pixels of the default picture


class Emu3(Drawing):
    """H rows of W codes and an end of line, then end of frame, of image and of text; sides in steps of 8 pixels.

    `against` sets what guidance leads away from; the empty text unless told otherwise.
    """

    auto = "Emu3ForConditionalGeneration"
    negative: str | Prompt = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._first = first_code(self.model.vocabulary_mapping.image_tokens, type(self.model).__name__)
        side = self._side()
        self.layout = self.laid(side, side)

    def _side(self) -> int:
        """Pixels a side of the default square, or of the largest that positions leave room for."""
        rows = int(math.sqrt(self.max_length)) - 1
        return self.cell * min(round(math.sqrt(AREA) / self.cell), rows)

    def against(self, negative: str | Prompt) -> Self:
        """The target with a negative prompt, which guidance leads away from."""
        return self._view(negative=negative)

    @property
    def cell(self) -> int:
        return self.model.model.vqmodel.vision_spatial_factor

    def laid(self, width: int, height: int) -> Layout:
        step = self.cell
        if min(width, height) < step or width % step or height % step:
            raise self.no_size(width, height, f"sides in multiples of {step} pixels")
        columns, rows = width // step, height // step
        if (size := rows * (columns + 1) + 3) >= self.max_length:
            raise self.no_size(width, height, f"fewer than {self.max_length:,} tokens (here {size:,})")
        first, codes = self._first, len(self.model.vocabulary_mapping.image_tokens)
        return Layout.raster(
            columns, rows, codes=(first, first + codes), line_end=self.id_of(LINE_END),
            tail=(self.id_of(FRAME_END), self.id_of(IMAGE_END), self.end_ids[0]),
        )  # fmt: skip

    def id_of(self, token: str) -> int:
        """The id of a special token, by the model's own vocabulary map. Raises UsageError where it has none."""
        found = self.model.config.vocabulary_map.get(token)
        if found is None:
            found = self.tokenizer.get_vocab().get(token)
        if found is None:
            raise UsageError(f"the vocabulary of {type(self.model).__name__} holds no {token}")
        return int(found)

    def tokens(self, caption: str) -> Tensor:
        """The caption, then the size in codes: "<|image start|>90*90<|image token|>"."""
        tokenizer, layout = self.tokenizer, self.layout
        head = f"{IMAGE_START}{layout.height}*{layout.width}{IMAGE}"
        text = f"{tokenizer.bos_token or ''}{caption}{head}"
        return tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"][0]

    def unconditional(self, prompt: Prompt) -> Prompt:
        return self.worded(self.negative) if isinstance(self.negative, str) else self.negative

    def codes(self, ids: Tensor) -> Tensor:
        return self.model.vocabulary_mapping.bpe2img_mapping_tensor[ids].long()

    def pixels(self, codes: Tensor) -> np.ndarray:
        with torch.inference_mode():
            picture = self.model.model.vqmodel.decode(codes.to(self.device))
        return to_bytes(picture.permute(0, 2, 3, 1)).cpu().numpy()


def first_code(ids: list[int], name: str) -> int:
    """The first of the ids of codes. Raises UsageError unless they follow one another."""
    if not ids or ids != list(range(ids[0], ids[0] + len(ids))):
        raise UsageError(f"the codes of {name} do not follow one another in its vocabulary")
    return ids[0]
