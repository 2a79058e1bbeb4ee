"""Chameleon and Lumina-mGPT: words and codes in one vocabulary, behind a class that forbids itself to draw.

Checkpoints: facebook/chameleon-7b and leloy/Anole-7b-v0.1-hf (square, 512 pixels), Alpha-VLLM/Lumina-mGPT-7B-768 (rows
that end, any shape in steps of 32 pixels).
"""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from paceline.core import Prompt
from paceline.errors import UsageError
from paceline.hf.body import Body
from paceline.layout import Layout
from paceline.targets.drawing import Drawing
from paceline.targets.emu3 import first_code
from paceline.targets.image_mode import body_of

BEGIN, END, TURN, LINE_END = "<racm3:break>", "<eoss>", "<reserved08706>", "<reserved08799>"
SIDE, CELL, STEP = 32, 16, 32  # codes a side of the square; pixels a code; pixels between allowed sides with rows
ASK = "Generate an image of {}x{} according to the following prompt:\n{}"


class Chameleon(Drawing):
    """Its `forward` overwrites the logits of codes with the lowest float, so that the head is called without it.

    `lined` is Lumina's layout: its size tokens stand in the prompt, each row ends with a token, the picture too. The
    class has no decoder for codes.
    """

    auto = "ChameleonForConditionalGeneration"
    rows: bool = False  # whether each row ends with a token

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._first = first_code(self.model.model.vocabulary_mapping.image_tokens, type(self.model).__name__)
        made_by = getattr(self.model.config, "architectures", None) or [""]
        self.layout = Layout.raster(SIDE, SIDE, codes=self._range)
        if "XLLMX" in made_by[0]:
            self.rows = True
            self.layout = self.laid(768, 768)

    @property
    def _range(self) -> tuple[int, int]:
        return self._first, self._first + len(self.model.model.vocabulary_mapping.image_tokens)

    def seen(self) -> Body:
        model = self.model
        return body_of(model, model.model, model.model.layers, model.lm_head, model.config.max_position_embeddings)

    def lined(self, width: int, height: int) -> Self:
        """The target with Lumina's rows, for weights that were trained on them. Raises UsageError for a wrong size."""
        view = self._view(rows=True)
        return view.sized(width, height)

    def laid(self, width: int, height: int) -> Layout:
        if not self.rows:
            return super().laid(width, height)
        if min(width, height) < STEP or width % STEP or height % STEP:
            raise self.no_size(width, height, f"sides in multiples of {STEP} pixels")
        return Layout.raster(
            width // CELL, height // CELL, codes=self._range, line_end=self.id_of(LINE_END), tail=(self.id_of(END),)
        )

    @property
    def cell(self) -> int:
        return CELL

    def id_of(self, token: str) -> int:
        """The id of a special token, by the model's own vocabulary map. Raises UsageError where it has none."""
        found = self.model.config.vocabulary_map.get(token)
        if found is None:
            raise UsageError(f"the vocabulary of {type(self.model).__name__} holds no {token}")
        return int(found)

    def head(self) -> list[int]:
        """Ids between caption and codes: begin of image, and with rows the height and width in steps of 32 pixels."""
        width, height = self.size
        sides = [self.id_of(f"<reserved{8800 + side // STEP:05d}>") for side in (height, width)] if self.rows else []
        return [self.id_of(BEGIN), *sides]

    def tokens(self, caption: str) -> Tensor:
        text = ASK.format(*self.size, caption) if self.rows else caption
        ids = self.tokenizer(text, return_tensors="pt")["input_ids"][0]
        ids = ids[ids != self.id_of(TURN)] if self.rows else ids
        return torch.cat([ids, ids.new_tensor([*([self.id_of(TURN)] if self.rows else []), *self.head()])])

    def unconditional(self, prompt: Prompt) -> Prompt:
        """With rows the prompt from the begin of the image on, as Lumina-mGPT was trained to draw for no one."""
        return Prompt(prompt.ids.new_tensor(self.head())) if self.rows else super().unconditional(prompt)
