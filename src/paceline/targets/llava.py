"""LLaVA and LLaVA-NeXT: a CLIP, SigLIP or Pixtral tower, a projector, any decoder."""

from __future__ import annotations

from typing import Any

from paceline.hf.target import HFTarget


class Llava(HFTarget):
    """One tower for all; only Pixtral's processor has a choice of resolution."""

    vision = ("model.vision_tower", "model.multi_modal_projector")

    def scaled(self, longest_edge: int) -> dict[str, Any]:
        size = self.processor.image_processor.size
        return longest_side(longest_edge) if "longest_edge" in size else super().scaled(longest_edge)


def longest_side(pixels: int) -> dict[str, Any]:
    """What processors are told that scale a picture by its longer side."""
    return {"images_kwargs": {"size": {"longest_edge": pixels}}}
