"""Tiny random models of every supported class, in float64, and prompts for them that need no processor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
import transformers as T
from torch import Tensor

from paceline.core import Prompt

V, H, IMAGE, TAG, BREAK = 128, 64, 120, 111, 112
SPREAD = 0.4  # standard deviation of the weights: below about 0.3 such models say one word for ever
TEXT = MappingProxyType({
    "vocab_size": V, "hidden_size": H, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
})  # fmt: skip
VISION = MappingProxyType(
    {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
)
QWEN_VISION = MappingProxyType({
    "hidden_size": 32, "intermediate_size": 64, "num_heads": 4, "out_hidden_size": H, "spatial_merge_size": 2,
    "temporal_patch_size": 2,
})  # fmt: skip
QWEN_IDS = MappingProxyType({
    "image_token_id": IMAGE, "video_token_id": 121, "vision_start_token_id": 118, "vision_end_token_id": 119,
})  # fmt: skip
PLANS: tuple[tuple[int | str, ...], ...] = (  # numbers: runs of text; letters: pictures, small, wide and large
    ("w", 6),  # a picture first
    (9,),  # none
    (3, "s", 2, "l", 1, "w", 4),  # three, of unlike size
    (7, "s"),  # a picture last
)
Pictures = Callable[[str, torch.Generator], tuple[list[list[int]], dict[str, Tensor]]]


@dataclass(frozen=True)
class Tiny:
    """A model and how pictures are put to it: letters -> ids of each picture, and the inputs that carry them."""

    model: T.PreTrainedModel
    pictures: Pictures | None

    def prompt(self, plan: Sequence[int | str], seed: int = 0) -> Prompt:
        """A prompt of this plan; a text-only class is shown text where pictures would stand."""
        draw = torch.Generator().manual_seed(seed)
        letters = "".join(part for part in plan if isinstance(part, str))
        shown, inputs = self.pictures(letters, draw) if self.pictures and letters else ([], {})
        shown = iter(shown)
        ids: list[int] = []
        for part in plan:
            if isinstance(part, int) or not self.pictures:
                count = part if isinstance(part, int) else 5
                ids += torch.randint(3, 110, (count,), generator=draw).tolist()
            else:
                ids += next(shown)
        row = torch.tensor(ids)
        for key in (self.model.config.model_type in ("gemma3",) and ("token_type_ids",)) or ():
            inputs[key] = (row == IMAGE).long()[None]
        if self.model.config.model_type.startswith("qwen") and self.pictures:
            inputs["mm_token_type_ids"] = (row == IMAGE).int()[None]
        return Prompt(row, inputs)

    def prompts(self) -> list[Prompt]:
        """Four rows of unlike length: a picture first, none, three, a picture last."""
        return [self.prompt(plan, seed) for seed, plan in enumerate(PLANS)]


def _pixels(draw: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=draw, dtype=torch.float64)


def tiles(letters: str, draw: torch.Generator) -> tuple[list[list[int]], dict[str, Tensor]]:
    """Idefics: 1, 2 or 3 tiles of 4 rows, a tag before each."""
    counts = [{"s": 1, "w": 2, "l": 3}[c] for c in letters]
    return [[TAG, *[IMAGE] * 4] * n for n in counts], {"pixel_values": _pixels(draw, 1, sum(counts), 3, 32, 32)}


def squares(side: int, rows: int) -> Pictures:
    """One square a picture, of so many rows."""

    def pictures(letters: str, draw: torch.Generator) -> tuple[list[list[int]], dict[str, Tensor]]:
        return [[IMAGE] * rows] * len(letters), {"pixel_values": _pixels(draw, len(letters), 3, side, side)}

    return pictures


def stacks(letters: str, draw: torch.Generator) -> tuple[list[list[int]], dict[str, Tensor]]:
    """InternVL: 1, 2 or 3 tiles of 4 rows, without anything between them."""
    counts = [{"s": 1, "w": 2, "l": 3}[c] for c in letters]
    return [[IMAGE] * 4 * n for n in counts], {"pixel_values": _pixels(draw, sum(counts), 3, 32, 32)}


def patches(step: int) -> Pictures:
    """Pixtral: rows of patches with a break after each, pictures padded to the largest."""

    def pictures(letters: str, draw: torch.Generator) -> tuple[list[list[int]], dict[str, Tensor]]:
        sizes = [{"s": (32, 64), "w": (64, 32), "l": (64, 64)}[c] for c in letters]
        pixels = _pixels(draw, len(sizes), 3, max(h for h, _ in sizes), max(w for _, w in sizes))
        shown = [([IMAGE] * (w // step) + [BREAK]) * (h // step) for h, w in sizes]
        return shown, {"pixel_values": pixels, "image_sizes": torch.tensor(sizes)}

    return pictures


def grids(side: int) -> Pictures:
    """Qwen: grids of patches, four to a row."""

    def pictures(letters: str, draw: torch.Generator) -> tuple[list[list[int]], dict[str, Tensor]]:
        sizes = [{"s": (1, 2, 2), "w": (1, 4, 6), "l": (1, 6, 4)}[c] for c in letters]
        counts = [h * w for _, h, w in sizes]
        pixels = _pixels(draw, sum(counts), 3 * 2 * side * side)
        return [[IMAGE] * (n // 4) for n in counts], {"pixel_values": pixels, "image_grid_thw": torch.tensor(sizes)}

    return pictures


def _pixtral() -> T.PixtralVisionConfig:
    return T.PixtralVisionConfig(**VISION, image_size=64, patch_size=16, head_dim=8)


def _mistral(window: int | None = None) -> T.MistralConfig:
    return T.MistralConfig(**TEXT, sliding_window=window, head_dim=16)


def _idefics(kind: str) -> tuple[T.PreTrainedModel, Pictures]:
    config = getattr(T, f"{kind}Config")(
        vision_config={**VISION, "image_size": 32, "patch_size": 8}, text_config=T.LlamaConfig(**TEXT),
        image_token_id=IMAGE, scale_factor=2, pad_token_id=0,
    )  # fmt: skip
    return getattr(T, f"{kind}ForConditionalGeneration")(config), tiles


def idefics3() -> tuple[T.PreTrainedModel, Pictures]:
    return _idefics("Idefics3")


def smolvlm() -> tuple[T.PreTrainedModel, Pictures]:
    return _idefics("SmolVLM")


def llava_pixtral() -> tuple[T.PreTrainedModel, Pictures]:
    config = T.LlavaConfig(
        vision_config=_pixtral(), text_config=_mistral(), image_token_index=IMAGE, vision_feature_layer=-1,
        vision_feature_select_strategy="full", projector_hidden_act="gelu",
    )  # fmt: skip
    return T.LlavaForConditionalGeneration(config), patches(16)


def llava_clip() -> tuple[T.PreTrainedModel, Pictures]:
    config = T.LlavaConfig(
        vision_config=T.CLIPVisionConfig(**VISION, image_size=28, patch_size=14, projection_dim=32),
        text_config=T.LlamaConfig(**TEXT), image_token_index=IMAGE, vision_feature_layer=-2,
    )  # fmt: skip
    return T.LlavaForConditionalGeneration(config), squares(28, 4)


def llava_siglip() -> tuple[T.PreTrainedModel, Pictures]:
    config = T.LlavaConfig(
        vision_config=T.SiglipVisionConfig(**VISION, image_size=32, patch_size=16),
        text_config=T.Qwen2Config(**TEXT), image_token_index=IMAGE, vision_feature_layer=-1,
        vision_feature_select_strategy="full",
    )  # fmt: skip
    return T.LlavaForConditionalGeneration(config), squares(32, 4)


def llava_next() -> tuple[T.PreTrainedModel, Pictures]:
    config = T.LlavaNextConfig(
        vision_config=T.CLIPVisionConfig(**VISION, image_size=28, patch_size=14, projection_dim=32),
        text_config=T.LlamaConfig(**TEXT), image_token_index=IMAGE, vision_feature_layer=-1,
        image_grid_pinpoints=[[28, 28], [28, 56], [56, 56]],
    )  # fmt: skip
    model = T.LlavaNextForConditionalGeneration(config).double()

    def pictures(letters: str, draw: torch.Generator) -> tuple[list[list[int]], dict[str, Tensor]]:
        sizes = [{"s": (28, 28), "w": (28, 56), "l": (56, 56)}[c] for c in letters]
        most = max(h * w // 28**2 + 1 for h, w in sizes)
        inputs = {"pixel_values": _pixels(draw, len(sizes), most, 3, 28, 28), "image_sizes": torch.tensor(sizes)}
        with torch.no_grad():
            rows = model.model.get_image_features(**inputs, return_dict=True).pooler_output
        return [[IMAGE] * len(row) for row in rows], inputs

    return model, pictures


def mistral3() -> tuple[T.PreTrainedModel, Pictures]:
    config = T.Mistral3Config(
        vision_config=_pixtral(), text_config=_mistral(), image_token_index=IMAGE, vision_feature_layer=-1,
        spatial_merge_size=2,
    )  # fmt: skip
    return T.Mistral3ForConditionalGeneration(config), patches(32)


def internvl() -> tuple[T.PreTrainedModel, Pictures]:
    config = T.InternVLConfig(
        vision_config={**VISION, "image_size": [32, 32], "patch_size": [8, 8]}, text_config=T.Qwen2Config(**TEXT),
        image_token_id=IMAGE, downsample_ratio=0.5,
    )  # fmt: skip
    return T.InternVLForConditionalGeneration(config), stacks


def qwen2_5_vl() -> tuple[T.PreTrainedModel, Pictures]:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    vision = {**QWEN_VISION, "depth": 2, "patch_size": 14, "fullatt_block_indexes": [1], "window_size": 56}
    config = T.Qwen2_5_VLConfig(vision_config=vision, text_config={**TEXT, "rope_parameters": rope}, **QWEN_IDS)
    return T.Qwen2_5_VLForConditionalGeneration(config), grids(14)


def qwen3_vl() -> tuple[T.PreTrainedModel, Pictures]:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3], "mrope_interleaved": True}
    vision = {**QWEN_VISION, "depth": 3, "patch_size": 16, "deepstack_visual_indexes": [0, 1]}
    config = T.Qwen3VLConfig(
        vision_config={**vision, "num_position_embeddings": 64},
        text_config={**TEXT, "head_dim": 16, "rope_parameters": rope}, **QWEN_IDS,
    )  # fmt: skip
    return T.Qwen3VLForConditionalGeneration(config), grids(16)


def qwen3_5() -> tuple[T.PreTrainedModel, Pictures]:
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 0], "mrope_interleaved": True}
    text = {
        **TEXT, "head_dim": 16, "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16, "rope_parameters": {**rope, "partial_rotary_factor": 0.25},
    }  # fmt: skip
    vision = {**QWEN_VISION, "depth": 2, "patch_size": 16, "num_position_embeddings": 64}
    return T.Qwen3_5ForConditionalGeneration(
        T.Qwen3_5Config(vision_config=vision, text_config=text, **QWEN_IDS)
    ), grids(16)


def gemma3(window: int = 64) -> tuple[T.PreTrainedModel, Pictures]:
    layers = ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"]
    config = T.Gemma3Config(
        vision_config={**VISION, "model_type": "siglip_vision_model", "image_size": 32, "patch_size": 8},
        text_config={**TEXT, "head_dim": 16, "sliding_window": window, "layer_types": layers,
                     "query_pre_attn_scalar": 16, "tie_word_embeddings": False},
        tie_word_embeddings=False, image_token_index=IMAGE, boi_token_index=118, eoi_token_index=119,
        mm_tokens_per_image=4,
    )  # fmt: skip
    return T.Gemma3ForConditionalGeneration(config), squares(32, 4)


def gemma3_window8() -> tuple[T.PreTrainedModel, Pictures]:
    return gemma3(8)


def llama() -> tuple[T.PreTrainedModel, None]:
    return T.LlamaForCausalLM(T.LlamaConfig(**TEXT)), None


def qwen3() -> tuple[T.PreTrainedModel, None]:
    return T.Qwen3ForCausalLM(T.Qwen3Config(**TEXT, head_dim=16)), None


def mistral_window8() -> tuple[T.PreTrainedModel, None]:
    return T.MistralForCausalLM(_mistral(8)), None


BUILDERS: Mapping[str, Callable[[], tuple[T.PreTrainedModel, Pictures | None]]] = MappingProxyType({
    build.__name__: build
    for build in (
        idefics3, smolvlm, llava_pixtral, llava_clip, llava_siglip, llava_next, mistral3, internvl, qwen2_5_vl,
        qwen3_vl, qwen3_5, gemma3, gemma3_window8, llama, qwen3, mistral_window8,
    )
})  # fmt: skip


@cache
def tiny(name: str) -> Tiny:
    """The model of this name with weights that make it talk. One instance a process: nobody may change it."""
    torch.manual_seed(0)
    model, pictures = BUILDERS[name]()
    for weight in model.parameters():
        if weight.ndim >= 2:
            torch.nn.init.normal_(weight, std=SPREAD)
    model.generation_config.eos_token_id = None
    return Tiny(model.double().eval(), pictures)


@cache
def reference(name: str, row: int, count: int = 48) -> tuple[int, ...]:
    """What the class's own greedy `generate` answers to this row of `prompts`."""
    made = tiny(name)
    return generate(made, made.prompts()[row], count)


def generate(made: Tiny, prompt: Prompt, count: int) -> tuple[int, ...]:
    """The class's own greedy answer of so many tokens."""
    ids = prompt.ids[None]
    answer: Any = made.model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False, pad_token_id=0,
        **prompt.inputs,
    )  # fmt: skip
    return tuple(answer[0, len(prompt.ids) :].tolist())
