"""Idefics3 and SmolVLM: a ViT on square tiles, a pixel shuffle, a Llama."""

from __future__ import annotations

from typing import Any

from paceline.hf.target import HFTarget


class Idefics3(HFTarget):
    """Visual tokens follow the processor's longest edge, whatever the picture's own size."""

    vision = ("model.vision_model", "model.connector")

    def scaled(self, longest_edge: int) -> dict[str, Any]:
        return {"images_kwargs": {"size": {"longest_edge": longest_edge}}}
