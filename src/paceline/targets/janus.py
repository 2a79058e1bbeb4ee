"""Janus and Janus-Pro: a Llama whose codes have an embedding and a head apart from its words.

Checkpoints: deepseek-community/Janus-Pro-1B, deepseek-community/Janus-Pro-7B, deepseek-community/Janus-1.3B.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from paceline.core import Prompt, Shared
from paceline.hf.body import Body
from paceline.layout import Layout
from paceline.targets.drawing import Drawing
from paceline.targets.image_mode import Decoder, body_of, to_bytes

if TYPE_CHECKING:
    import numpy as np

TURN = "<|User|>: {}\n\n<|Assistant|>:"  # where the tokenizer brings no chat template


class Janus(Drawing):
    """One square picture, no end of line. The unconditional prompt keeps its begin and image tokens, the rest is pads.

    Prompts may be of unlike length: each row is read alone. The class's own `generate` applies top-k 50 unless told
    otherwise; here top_k is 0 unless the checkpoint's own generation config says more.
    """

    auto = "JanusForConditionalGeneration"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        side = self.model.model.vqmodel.config.num_patches
        self.layout = Layout.raster(side, side, codes=(0, self.vocab_size))

    def seen(self) -> Body:
        model = self.model
        inner, count = model.model.language_model, self.vocab_size
        # A guess may be any id of the prompt: one that is no code is never accepted, and what is read for it is lost.
        drawn = Decoder(
            inner,
            model.get_input_embeddings(),
            lambda ids: model.prepare_embeddings_for_image_generation(ids.clamp(max=count - 1)),
        )
        positions = model.config.text_config.max_position_embeddings
        return body_of(model, drawn, inner.layers, model.model.generation_head, positions, prompt=True)

    @property
    def vocab_size(self) -> int:
        return self.model.model.vqmodel.config.num_embeddings

    @property
    def cell(self) -> int:
        return 2 ** (len(self.model.model.vqmodel.config.channel_multiplier) - 1)

    @property
    def shared(self) -> Shared:
        """Embedding and head of the codes; there is no spare id."""
        text = self.model.config.text_config
        return Shared(
            self.body.decoder.codes, self.model.model.generation_head, text.hidden_size, len(self.body.layers),
            self.vocab_size, torch.empty(0, dtype=self.dtype, device=self.device),
        )  # fmt: skip

    def tokens(self, caption: str) -> Tensor:
        tokenizer = self.tokenizer
        talk = [{"role": "user", "content": [{"type": "text", "text": caption}]}]
        template = tokenizer.chat_template is not None
        text = self._render(tokenizer, talk) if template else TURN.format(caption)
        bos = tokenizer.bos_token is None or not text.startswith(tokenizer.bos_token)
        ids = tokenizer(text, add_special_tokens=bos, return_tensors="pt")["input_ids"][0]
        return torch.cat([ids, ids.new_tensor([self.begin_of_image])])

    def unconditional(self, prompt: Prompt) -> Prompt:
        config = self.model.generation_config
        kept = torch.isin(prompt.ids, prompt.ids.new_tensor([config.bos_token_id, self.begin_of_image]))
        return Prompt(prompt.ids.where(kept, config.pad_token_id))

    @property
    def begin_of_image(self) -> int:
        """The id after which codes are drawn."""
        return int(self.model.generation_config.generation_kwargs["boi_token_id"])

    def pixels(self, codes: Tensor) -> np.ndarray:
        with torch.inference_mode():
            return to_bytes(self.model.decode_image_tokens(codes.flatten(1).to(self.device))).cpu().numpy()
