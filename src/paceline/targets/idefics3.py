"""Idefics3 and SmolVLM: a ViT on square tiles, a pixel shuffle, a Llama."""

from __future__ import annotations

from typing import Any

from paceline.errors import UsageError
from paceline.hf.target import HFTarget


class Idefics3(HFTarget):
    """Visual tokens follow the processor's longest edge, whatever the picture."""

    vision = ("model.vision_model", "model.connector")

    def scaled(self, longest_edge: int) -> dict[str, Any]:
        tile = self.processor.image_processor.max_image_size["longest_edge"]
        if longest_edge < 1:
            raise UsageError(f"longest_edge is {longest_edge}; it must be 1 or more (a tile has {tile})")
        return {"images_kwargs": {"size": {"longest_edge": longest_edge}}}
