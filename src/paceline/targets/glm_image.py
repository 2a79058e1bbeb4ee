"""GLM-Image: a small preview grid, then the picture's, in one stream, at positions in three axes.

Checkpoint: zai-org/GLM-Image (the autoregressive half, in the folder vision_language_encoder; its codes are decoded by
the diffusion half, which is no transformers class).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from paceline.core import Prompt
from paceline.hf.body import Body
from paceline.hf.session import Session
from paceline.layout import Layout
from paceline.targets.drawing import Drawing
from paceline.targets.guided import Opened
from paceline.targets.image_mode import body_of

STEP = 32  # pixels a code
WIDTH, HEIGHT = 768, 1152  # of the processor's default picture
BEGIN_GRID, END_GRID, BEGIN = "<sop>", "<eop>", "<|dit_token_16384|>"


class GlmImage(Drawing):
    """Sides in steps of 32 pixels. It was trained without guidance."""

    auto = "GlmImageForConditionalGeneration"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.layout = self.laid(WIDTH, HEIGHT)

    def seen(self) -> Body:
        model = self.model
        inner = model.model.language_model
        return body_of(model, inner, inner.layers, model.lm_head, model.config.text_config.max_position_embeddings)

    @property
    def vocab_size(self) -> int:
        return self.model.lm_head.weight.shape[0]

    @property
    def cell(self) -> int:
        return STEP

    def laid(self, width: int, height: int) -> Layout:
        """The preview's rows, then the picture's. The preview has about 256 codes in the same proportions."""
        if min(width, height) < STEP or width % STEP or height % STEP:
            raise self.no_size(width, height, f"sides in multiples of {STEP} pixels")
        columns, rows = width // STEP, height // STEP
        codes = (0, self.model.model.vqmodel.config.num_embeddings)
        small = preview(columns, rows)
        if min(small) < 1:
            raise self.no_size(width, height, "sides that differ less")
        return Layout.raster(*small, codes=codes) + Layout.raster(columns, rows, codes=codes)

    def tokens(self, caption: str) -> Tensor:
        """The caption and both grids, height first."""
        tokenizer, layout = self.tokenizer, self.layout
        columns, rows = preview(layout.width, layout.height)
        begin, end = getattr(tokenizer, "grid_bos_token", BEGIN_GRID), getattr(tokenizer, "grid_eos_token", END_GRID)
        grids = f"{begin}{layout.height} {layout.width}{end}{begin}{rows} {columns}{end}{tokenizer.bos_token or BEGIN}"
        talk = [{"role": "user", "content": [{"type": "text", "text": caption}]}]
        text = tokenizer.apply_chat_template(talk, tokenize=False) if tokenizer.chat_template else caption
        return tokenizer(text + grids, return_tensors="pt")["input_ids"][0]

    def placed(self, opened: Opened, prompts: Sequence[Prompt]) -> Opened:
        session, context, seen = opened
        assert isinstance(session, Session)
        return GridSession.of(session, places(self.layout).to(self.device), prompts), context, seen


def preview(columns: int, rows: int) -> tuple[int, int]:
    """(columns, rows) of the small grid that is drawn first."""
    ratio = rows / columns  # in the processor's own order of rounding
    return int(math.sqrt(1 / ratio) * 16), int(math.sqrt(ratio) * 16)


def places(layout: Layout) -> Tensor:
    """[3, N + 1]; time, row and column of each offset, counted from the prompt's end, and of what lies behind."""
    shape, begin, parts = (preview(layout.width, layout.height), (layout.width, layout.height)), 0, list[Tensor]()
    for columns, rows in shape:
        at = torch.arange(rows * columns)
        parts.append(begin + torch.stack([torch.zeros_like(at), at // columns, at % columns]))
        begin += max(rows, columns)
    return torch.cat([*parts, torch.full((3, 1), begin)], 1)


class GridSession(Session):
    """Puts each code at its place in its grid, which begins where the row's prompt ends."""

    table: Tensor  # [3, N + 1]

    @staticmethod
    def of(session: Session, table: Tensor, prompts: Sequence[Prompt]) -> GridSession:
        """A session at these places, with the cache of an ordinary one."""
        begin = torch.tensor([[len(prompt.ids)] for prompt in prompts], device=table.device)
        grid = GridSession(session.body, session.layers, session.slots, session.length.tolist(), begin)
        grid.table = table
        return grid

    def positions(self, index: Tensor) -> Tensor:
        """[3, B, n] for sequence indices [B, n]."""
        assert self._offset is not None
        return self._offset + self.table[:, (index - self._offset).clamp(0, self.table.shape[1] - 1)]
