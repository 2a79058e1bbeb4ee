"""Gemma 3: a SigLIP tower, layers that see a window and layers that see all, pictures that see themselves whole."""

from __future__ import annotations

from paceline.hf.target import HFTarget


class Gemma(HFTarget):
    """A picture is 256 tokens, whatever its size, so that there is no choice of resolution."""

    vision = ("model.vision_tower", "model.multi_modal_projector")
