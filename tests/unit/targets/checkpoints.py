"""Small checkpoints on disk with a real tokenizer and processor, made without fetching anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers as T
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SPECIAL = (
    "<|pad|>", "<|begin|>", "<end_of_utterance>", "<image>", "<fake_token_around_image>", "<global-img>", "<|user|>",
    "<|assistant|>", *(f"<row_{r}_col_{c}>" for r in range(1, 7) for c in range(1, 7)),
)  # fmt: skip
TEMPLATE = (
    "<|begin|>{% for message in messages %}<|{{ message['role'] }}|>"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<end_of_utterance>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
BYTES = 256
VOCAB = BYTES + len(SPECIAL)
TEXT = {
    "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 1024, "pad_token_id": BYTES, "bos_token_id": BYTES + 1,
    "eos_token_id": BYTES + 2,
}  # fmt: skip


def tokenizer() -> Any:
    """One token a byte, and the special tokens of Idefics3."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    raw.add_special_tokens(list(SPECIAL))
    return T.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<|pad|>", bos_token="<|begin|>", eos_token="<end_of_utterance>",
        chat_template=TEMPLATE,
    )  # fmt: skip


def processor() -> Any:
    """Tiles of 32 pixels, four rows each, two tiles a side."""
    images = T.Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size={"longest_edge": 32})
    return T.Idefics3Processor(images, tokenizer(), image_seq_len=4, chat_template=TEMPLATE)


def save_idefics3(where: Path) -> Path:
    """A random Idefics3 with its processor."""
    torch.manual_seed(0)
    config = T.Idefics3Config(
        vision_config={"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                       "image_size": 32, "patch_size": 8},
        text_config=T.LlamaConfig(**TEXT, initializer_range=0.3), image_token_id=BYTES + 3, scale_factor=2,
        pad_token_id=BYTES, initializer_range=0.3,
    )  # fmt: skip
    T.Idefics3ForConditionalGeneration(config).save_pretrained(where)
    processor().save_pretrained(where)
    return where


def save_llama(where: Path, **settings: Any) -> Path:
    """A random Llama with its tokenizer; `settings` go into its generation config."""
    torch.manual_seed(0)
    model = T.LlamaForCausalLM(T.LlamaConfig(**TEXT, initializer_range=0.3))
    model.generation_config.update(**settings)
    model.save_pretrained(where)
    tokenizer().save_pretrained(where)
    return where
