"""Qwen2.5-VL, Qwen3-VL and Qwen3.5: pictures at their own resolution, positions in three axes."""

from __future__ import annotations

from typing import Any

from paceline.hf.target import HFTarget


class QwenVL(HFTarget):
    """Visual tokens follow the picture's area, between the processor's bounds."""

    vision = ("model.visual",)

    def scaled(self, longest_edge: int) -> dict[str, Any]:
        """The area of a square of this side is the upper bound: the processor knows areas only."""
        low = self.processor.image_processor.size["shortest_edge"]
        area = longest_edge**2
        return {"images_kwargs": {"size": {"shortest_edge": min(low, area), "longest_edge": area}}}
