"""LLaVA and LLaVA-NeXT: a CLIP, SigLIP or Pixtral tower, a projector, any decoder."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedModel

from paceline.hf.target import HFTarget


class Llava(HFTarget):
    """One class for all towers; only Pixtral's processor has a choice of resolution."""

    vision = ("model.vision_tower", "model.multi_modal_projector")

    def scaled(self, longest_edge: int) -> dict[str, Any]:
        size = self.processor.image_processor.size
        return longest_side(longest_edge) if "longest_edge" in size else super().scaled(longest_edge)

    def look(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return one_by_one(self.model, inputs)


def longest_side(pixels: int) -> dict[str, Any]:
    """What processors are told that scale a picture by its longer side."""
    return {"images_kwargs": {"size": {"longest_edge": pixels}}}


def one_by_one(model: PreTrainedModel, inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs with several pictures read already, one after the other, where the tower is Pixtral's.

    It would attend over all of them as one masked sequence: the same result, at a cost that grows with the square.
    """
    sizes = inputs.get("image_sizes")
    if model.config.vision_config.model_type != "pixtral" or sizes is None or len(sizes) < 2:
        return inputs
    row = model.config.vision_config.patch_size * getattr(model.config, "spatial_merge_size", 1)  # pixels a side
    if int(sizes.prod(1).min()) < 2 * row**2:  # transformers 5.24 fails on a picture of a single row, if it is alone
        return inputs
    each = [
        model.model.get_image_features(pixels[None, :, :height, :width], image_sizes=size[None], return_dict=True)
        for pixels, size in zip(inputs["pixel_values"], sizes, strict=True)
        for height, width in [size.tolist()]
    ]
    seen = each[0]
    seen.pooler_output = [rows for one in each for rows in one.pooler_output]
    rest = {key: value for key, value in inputs.items() if key not in ("pixel_values", "image_sizes")}
    return {**rest, "mm_encoder_outputs": {"image": seen}}
