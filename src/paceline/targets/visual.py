"""Any causal language model over a grid of codes: H x W or T x H x W, a caption before it, a codebook behind it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor
from transformers import PreTrainedModel

from paceline.core import Prompt
from paceline.errors import UsageError
from paceline.layout import Layout
from paceline.pictures.codebook import Codebook
from paceline.targets.drawing import Drawing

if TYPE_CHECKING:
    import numpy as np

FILE, CODEBOOK = "visual.json", "codebook.safetensors"  # beside config.json and the weights


@dataclass(frozen=True, slots=True)
class Plan:
    """What a model of this kind draws: its layout, how its codes look, what it is drawn with unless told otherwise."""

    layout: Layout
    codebook: Codebook | None = None  # None: tokens only
    guidance: float = 1.0
    temperature: float = 1.0
    top_k: int = 0
    unconditional: bool = True  # whether it was trained on empty captions too

    @staticmethod
    def read(directory: Path) -> Plan:
        """The plan beside a checkpoint. Raises UsageError for a file that is missing or says something else."""
        path = directory / FILE
        if not path.is_file():
            raise UsageError(f"{directory} holds no {FILE}, which says what a grid of codes looks like")
        try:
            said: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            *frames, height, width = map(int, said["layout"])
            first, codes = int(said["first_code"]), int(said["codes"])
            rest: dict[str, Any] = {name: kind(said[name]) for name, kind in _OPTIONAL if name in said}
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path} cannot be read: {error!r:.100}; it gives layout, first_code and codes") from None
        if len(frames) > 1:
            raise UsageError(f"{path}: a layout is [H, W] or [T, H, W], not {said['layout']}")
        layout = Layout.raster(width, height, *frames, codes=(first, first + codes))
        book = directory / CODEBOOK
        return Plan(layout, Codebook.load(book) if book.is_file() else None, **rest)


_OPTIONAL = (("guidance", float), ("temperature", float), ("top_k", int), ("unconditional", bool))


class Visual(Drawing):
    """The bundled generators, and any model of one's own with its plan."""

    def __init__(
        self,
        model: PreTrainedModel,
        processor: Any = None,
        *,
        name: str = "",
        path: Path | None = None,
        plan: Plan | None = None,
    ) -> None:
        """`plan`: None reads it beside the checkpoint. Raises UsageError where there is none."""
        super().__init__(model, processor, name=name, path=path)
        if plan is None and path is None:
            raise UsageError(f"give the plan of what {type(model).__name__} draws: its layout and codes")
        self.plan = plan or Plan.read(path or Path())
        self.layout = self.plan.layout
        if self.layout.codes[1] > self.vocab_size:
            raise UsageError(f"codes are ids {self.layout.codes}, but the vocabulary has {self.vocab_size:,} ids")

    @property
    def defaults(self) -> Mapping[str, float]:
        plan = self.plan
        return {"guidance": plan.guidance, "temperature": plan.temperature, "top_k": plan.top_k}

    def unconditional(self, prompt: Prompt) -> Prompt:
        return self.worded("") if self.plan.unconditional else super().unconditional(prompt)

    @property
    def cell(self) -> int:
        return 1 if self.plan.codebook is None else self.plan.codebook.patch

    def pixels(self, codes: Tensor) -> np.ndarray:
        return super().pixels(codes) if self.plan.codebook is None else self.plan.codebook.decode(codes.numpy())
