"""Mistral Small 3: a Pixtral tower whose patches are merged two by two, a Mistral."""

from __future__ import annotations

from typing import Any

from paceline.hf.target import HFTarget
from paceline.targets.llava import longest_side, one_by_one


class Mistral3(HFTarget):
    """Visual tokens follow the picture's size, up to the longest edge."""

    vision = ("model.vision_tower", "model.multi_modal_projector")

    def scaled(self, longest_edge: int) -> dict[str, Any]:
        return longest_side(longest_edge)

    def look(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return one_by_one(self.model, inputs)
