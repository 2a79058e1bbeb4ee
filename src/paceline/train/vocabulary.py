"""Tokenizer and processor of the bundled targets: byte-level BPE with digits apart, Idefics3's picture layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import Idefics3Processor, PreTrainedTokenizerFast

PAD, BEGIN, END, IMAGE, FAKE, GLOBAL, USER, ASSISTANT = (
    "<|pad|>", "<|begin|>", "<end_of_utterance>", "<image>",
    "<fake_token_around_image>", "<global-img>", "<|user|>", "<|assistant|>",
)  # fmt: skip
GRID = 8  # rows and columns of tiles that have a tag of their own
SPECIALS = (
    PAD, BEGIN, END, IMAGE, FAKE, GLOBAL, USER, ASSISTANT,
    *(f"<row_{row + 1}_col_{column + 1}>" for row in range(GRID) for column in range(GRID)),
)  # fmt: skip

CHAT_TEMPLATE = (
    "<|begin|>{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}<|assistant|>{% else %}<|user|>{% endif %}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>{% endif %}{% endfor %}"
    "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}{% endif %}{% endfor %}"
    "{% endif %}<end_of_utterance>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@dataclass(frozen=True, slots=True)
class VocabularyConfig:
    """Size of the vocabulary, special tokens included, and the pictures' default longest edge in pixels."""

    size: int = 2560
    tile: int = 96
    tokens_per_tile: int = 36
    longest_edge: int = 96

    def __post_init__(self) -> None:
        if self.size < len(SPECIALS) + 256:
            raise ValueError(f"size must hold {len(SPECIALS)} special tokens and 256 bytes")


def train_tokenizer(texts: Iterable[str], size: int, max_length: int = 4096) -> PreTrainedTokenizerFast:
    """Return a byte-level BPE of `size` tokens learnt from `texts`; a digit, with the space before it, is one token."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(  # type: ignore[assignment]
        [pre_tokenizers.Split(Regex(" ?[0-9]"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIALS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=BEGIN, eos_token=END, pad_token=PAD, padding_side="left",
        model_max_length=max_length, clean_up_tokenization_spaces=False, chat_template=CHAT_TEMPLATE,
    )  # fmt: skip


def build_processor(tokenizer: PreTrainedTokenizerFast, config: VocabularyConfig) -> Idefics3Processor:
    """Return the processor around `tokenizer`: tiles of `config.tile` pixels, values in [-1, 1]."""
    from transformers import Idefics3ImageProcessorPil, Idefics3Processor

    pictures = Idefics3ImageProcessorPil(
        size={"longest_edge": config.longest_edge},
        max_image_size={"longest_edge": config.tile},
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )
    return Idefics3Processor(pictures, tokenizer, image_seq_len=config.tokens_per_tile, chat_template=CHAT_TEMPLATE)


def load_processor(directory: Path) -> Idefics3Processor:
    """Return the processor saved in `directory`."""
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(directory)
