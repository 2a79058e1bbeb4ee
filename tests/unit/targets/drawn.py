"""Tiny random models that draw, in float64, with prompts of unlike length that need no tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
import transformers as T

from paceline.core import Prompt
from paceline.layout import Layout
from paceline.targets import load_target
from paceline.targets.drawing import Drawing
from paceline.targets.visual import Plan, Visual

SPREAD = 0.4  # standard deviation of the weights: below about 0.3 such models draw one colour for ever
H = 32
TEXT = MappingProxyType({
    "hidden_size": H, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 160, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
})  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A model that draws, as a target, and where the ids of words end."""

    target: Drawing
    words: int  # ids 3 … words - 1 may stand in a prompt
    ends: tuple[int, ...] = ()  # ids that close every prompt
    alone: bool = False  # the prompt is one start token

    @property
    def model(self) -> Any:
        return self.target.model

    def prompts(self, lengths: tuple[int, ...] = (5, 9, 3)) -> list[Prompt]:
        """Rows of unlike length; a class without captions has its start token only."""
        if self.alone:
            return [self.target.encode_caption("anything") for _ in lengths]
        draw = torch.Generator().manual_seed(3)
        rows = [torch.randint(3, self.words, (n,), generator=draw) for n in lengths]
        return [Prompt(torch.tensor([1, *row.tolist(), *self.ends])) for row in rows]


class Without(Visual):
    """One whose unconditional prompt needs no tokenizer."""

    def unconditional(self, prompt: Prompt) -> Prompt:
        return Prompt(torch.tensor([1, 29]))


def _visual(*shape: int) -> Drawn:
    *frames, height, width = shape
    model = T.LlamaForCausalLM(T.LlamaConfig(vocab_size=64, **TEXT))
    layout = Layout.raster(width, height, *frames, codes=(30, 62))
    return Drawn(Without(_wide(model), plan=Plan(layout)), 28, (29,))


def _janus() -> Drawn:
    vision = {
        "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 24, "patch_size": 4,
        "projection_dim": H, "num_image_tokens": 36, "mlp_ratio": 2.0,
    }  # fmt: skip
    vq = {
        "embed_dim": 8, "num_embeddings": 72, "latent_channels": 8, "base_channels": 32, "channel_multiplier": [1, 1],
        "num_res_blocks": 1, "projection_dim": H, "image_token_embed_dim": H,
    }  # fmt: skip
    config = T.JanusConfig(
        text_config={"model_type": "llama", "vocab_size": 96, **TEXT}, vision_config=vision, vq_config=vq
    )
    model = _wide(T.JanusForConditionalGeneration(config))
    settings = model.generation_config
    settings.bos_token_id, settings.pad_token_id, settings.eos_token_id = 1, 0, 2
    settings.generation_kwargs = {"boi_token_id": 90}
    return Drawn(load_target(model), 90, (90,))


EMU3_WORDS = MappingProxyType({
    "<image>": 25, "<|extra_200|>": 20, "<|extra_201|>": 21, "<|image end|>": 22, "<|image start|>": 23,
    "<|image token|>": 24, **{f"<|visual token {i:06d}|>": 30 + i for i in range(40)},
})  # fmt: skip


def _emu3() -> Drawn:
    vq = {
        "codebook_size": 40, "temporal_downsample_factor": 1, "base_channels": 32, "channel_multiplier": [1, 1],
        "hidden_size": 32, "num_res_blocks": 1, "attn_resolutions": [],
    }  # fmt: skip
    config = T.Emu3Config(text_config={"vocab_size": 80, **TEXT}, vq_config=vq, vocabulary_map=dict(EMU3_WORDS))
    target = load_target(_wide(T.Emu3ForConditionalGeneration(config)))
    return Drawn(target.sized(10, 8).against(Prompt(torch.tensor([1, 7, 23, 24]))), 20, (23, 24))


def _glm_image() -> Drawn:
    text = {
        "vocab_size": 200,
        "vision_vocab_size": 60,
        **TEXT,
        "max_position_embeddings": 1024,
        "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [2, 1, 1]},
    }
    vision = {
        "hidden_size": 16, "depth": 1, "num_heads": 2, "intermediate_size": 16, "patch_size": 4, "image_size": 16,
    }  # fmt: skip
    vq = {"num_embeddings": 48, "embed_dim": 8, "latent_channels": 16}
    config = T.GlmImageConfig(
        text_config=text, vision_config=vision, vq_config=vq, image_token_id=190, image_start_token_id=191,
        image_end_token_id=192,
    )  # fmt: skip
    target = load_target(_wide(T.GlmImageForConditionalGeneration(config)))
    return Drawn(target.sized(256, 32), 190, (191,))


CHAMELEON_WORDS = MappingProxyType({
    "<image>": 29, "<racm3:break>": 20, "<eoss>": 21, "<reserved08706>": 22, "<reserved08799>": 23,
    "<reserved08801>": 24, "<reserved08802>": 25, "<reserved08803>": 26,
    **{f"IMGIMG{''.join('ABCDEFGHIJ'[int(d)] for d in str(i))}Z": 32 + i for i in range(40)},
})  # fmt: skip


def _chameleon(lined: bool) -> Drawn:
    vq = {
        "num_embeddings": 40, "embed_dim": 8, "base_channels": 32, "channel_multiplier": [1], "num_res_blocks": 1,
        "resolution": 32, "latent_channels": 8,
    }  # fmt: skip
    text = {**TEXT, "max_position_embeddings": 1100}
    config = T.ChameleonConfig(vocab_size=80, vq_config=vq, vocabulary_map=dict(CHAMELEON_WORDS), **text)
    target = load_target(_wide(T.ChameleonForConditionalGeneration(config)))
    if not lined:
        return Drawn(target, 20, (20,))
    return Drawn(target.lined(96, 64), 20, (22, 20, 25, 26))


def _imagegpt() -> Drawn:
    config = T.ImageGPTConfig(vocab_size=49, n_positions=36, n_embd=H, n_layer=3, n_head=4)
    model = _wide(T.ImageGPTForCausalImageModeling(config), seed=8)
    clusters = torch.linspace(-1, 1, 48 * 3).view(48, 3).tolist()
    return Drawn(load_target(model, processor=T.ImageGPTImageProcessor(clusters=clusters)), 0, alone=True)


def _wide(model: T.PreTrainedModel, seed: int = 1) -> Any:
    draw = torch.Generator().manual_seed(seed)
    model = model.double().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 and "vq" not in name and "norm" not in name:
                weight.copy_(torch.randn(weight.shape, generator=draw, dtype=torch.float64) * SPREAD)
    return model


BUILDERS: Mapping[str, Callable[[], Drawn]] = MappingProxyType({
    "visual": lambda: _visual(6, 6),
    "visual_clip": lambda: _visual(3, 3, 4),
    "janus": _janus,
    "emu3": _emu3,
    "glm_image": _glm_image,
    "chameleon": lambda: _chameleon(False),
    "lumina": lambda: _chameleon(True),
    "imagegpt": _imagegpt,
})  # fmt: skip


@cache
def drawn(name: str) -> Drawn:
    """The tiny model of this name, built once."""
    torch.manual_seed(0)
    return BUILDERS[name]()
