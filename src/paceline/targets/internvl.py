"""InternVL 3: square tiles and a thumbnail, a pixel shuffle, a Qwen."""

from __future__ import annotations

from paceline.hf.target import HFTarget


class InternVL(HFTarget):
    """Tiles have one size, so that there is no choice of resolution."""

    vision = ("model.vision_tower", "model.multi_modal_projector")
