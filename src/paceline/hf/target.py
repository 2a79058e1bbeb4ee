"""A stock transformers model as a target: it reads messages, opens sessions and spells tokens."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from transformers import PreTrainedModel

from paceline.clock import Clock, silent
from paceline.core import Context, Needs, Pass, Prompt, Shared, TargetSession
from paceline.errors import UsageError
from paceline.hf.body import Body
from paceline.hf.fingerprint import fingerprint
from paceline.hf.messages import Inputs, Message, encode_literally, read_messages
from paceline.hf.prefill import open_session

PATH_DEPENDENT = {  # settings of a generation config whose law depends on what was said before -> their neutral value
    "repetition_penalty": 1.0, "encoder_repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "min_length": 0,
    "min_new_tokens": None, "bad_words_ids": None, "suppress_tokens": None, "begin_suppress_tokens": None,
    "forced_bos_token_id": None, "forced_eos_token_id": None, "sequence_bias": None,
    "exponential_decay_length_penalty": None, "guidance_scale": None,
}  # fmt: skip


class HFTarget:
    """A model with its processor or tokenizer. Read-only: conversations live in the sessions that it opens.

    A family says in a subclass what differs: where its pictures are read, and how their resolution is asked for.
    """

    vision: ClassVar[tuple[str, ...]] = ()  # modules below the model that read pictures, by dotted name
    auto: ClassVar[str] = "AutoModelForImageTextToText"
    reader: ClassVar[str] = ""  # the class that reads its processor; empty: by whether there are pictures
    obeys: ClassVar[frozenset[str]] = frozenset()  # settings of PATH_DEPENDENT that the family follows by itself

    def __init__(
        self, model: PreTrainedModel, processor: Any = None, *, name: str = "", path: Path | None = None
    ) -> None:
        """`processor` may be a tokenizer; without one the target takes ready prompts only. `name`: if bundled."""
        self.model = model.eval()
        self.processor, self.name, self.path = processor, name, path
        self.body = self.seen()
        self.dropped = _drop(model, self.obeys)

    def seen(self) -> Body:
        """The model as sessions drive it."""
        parts = tuple(part for part in map(self._part, self.vision) if part is not None)
        return Body.of(self.model, parts, self.look)

    def _part(self, dotted: str) -> torch.nn.Module | None:
        """The module of this name, or None where the class was built without it."""
        here: Any = self.model
        for step in dotted.split("."):
            here = getattr(here, step, None)
        return here

    @property
    def vocab_size(self) -> int:
        """Rows of the output head: ids run below it."""
        return self.model.get_output_embeddings().weight.shape[0]

    @property
    def tokenizer(self) -> Any:
        """Raises UsageError where the target was built from a model alone."""
        if self.processor is None:
            raise UsageError("this target has no tokenizer: give load_target the processor beside the model")
        return getattr(self.processor, "tokenizer", self.processor)

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def dtype(self) -> torch.dtype:
        return self.body.dtype

    @property
    def sees(self) -> bool:
        """Whether messages may hold pictures."""
        return bool(self.vision) and getattr(self.processor, "image_processor", None) is not None

    @property
    def max_length(self) -> int:
        """Positions of prompt and answer together."""
        return self.body.positions

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Ids that end an answer, from the generation config, else the model's, else the tokenizer's."""
        text = self.model.config.get_text_config(decoder=True)
        given = [getattr(source, "eos_token_id", None) for source in (self.model.generation_config, text)]
        given.append(getattr(getattr(self.processor, "tokenizer", self.processor), "eos_token_id", None))
        found = next((ids for ids in given if ids is not None), ())
        return tuple(found) if isinstance(found, list | tuple) else (int(found),)

    @property
    def image_ids(self) -> tuple[int, ...]:
        """Ids whose rows stand for pictures."""
        config = self.model.config
        names = ("image_token_id", "image_token_index")
        return tuple({i for name in names if (i := getattr(config, name, None)) is not None}) if self.vision else ()

    @property
    def shared(self) -> Shared:
        """What trained drafters use of it. Raises UsageError for a head that reads more than the last state."""
        head = self.body.head
        if head is None:
            raise UsageError(
                f"{type(self.model).__name__} makes its logits in a way of its own: its head cannot be shared"
            )
        embed = self.model.get_input_embeddings()
        pad = getattr(getattr(self.processor, "tokenizer", self.processor), "pad_token_id", None)
        return Shared(
            embed, head, self.model.config.get_text_config(decoder=True).hidden_size, len(self.body.layers),
            self.vocab_size, torch.empty(0, dtype=self.dtype, device=self.device),
            None if pad in self.end_ids else pad,
        )  # fmt: skip

    @property
    def sampling_defaults(self) -> Mapping[str, Any]:
        """What the checkpoint's own generation config asks for, as far as `Sampling` can say it."""
        config = self.model.generation_config
        wanted = ("temperature", "top_k", "top_p", "min_p") if getattr(config, "do_sample", False) else ()
        return {name: value for name in wanted if (value := getattr(config, name, None)) is not None}

    def open(
        self, prompts: Sequence[Prompt], needs: Needs = Needs(), *, clock: Clock = silent
    ) -> tuple[TargetSession, Context, Pass]:
        """Read the prompts, each alone. Raises UsageError for one that is empty or leaves no room for an answer."""
        for prompt in prompts:
            if not 0 < len(prompt.ids) < self.max_length:
                raise UsageError(
                    f"the prompt has {len(prompt.ids):,} tokens; this model takes 1 to "
                    f"{self.max_length - 1:,} and then answers"
                )
        return open_session(self.body, prompts, needs, self.image_ids, clock)

    def encode(self, messages: Sequence[Message], *, longest_edge: int | None = None) -> Prompt:
        """The prompt for OpenAI-style messages. Raises UsageError for messages or pictures that it cannot take.

        longest_edge: pixels that the processor scales a picture's longer side to; None: the checkpoint's own.
        """
        shaped, pictures = read_messages(messages)
        tokenizer = self.tokenizer
        if pictures and not self.sees:
            raise UsageError(
                f"{self.name or type(self.model).__name__} takes text only, but the messages hold "
                f"{len(pictures)} picture(s)"
            )
        if longest_edge is not None and longest_edge < 1:
            raise UsageError(f"longest_edge is {longest_edge}; it must be 1 or more pixels")
        options = {} if longest_edge is None or not pictures else self.scaled(longest_edge)
        inputs = encode_literally(
            lambda talk: self._inputs(talk, pictures, options), shaped, tokenizer, self._markup(tokenizer)
        )
        ids = inputs.pop("input_ids")[0]
        inputs.pop("attention_mask", None)
        return Prompt(ids, inputs, tuple(messages), tuple(pictures), longest_edge if pictures else None)

    def scaled(self, longest_edge: int) -> dict[str, Any]:
        """What the processor is told so that a picture's longer side has this many pixels."""
        raise UsageError(f"{type(self.model).__name__} has no choice of resolution: leave longest_edge out")

    def look(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """The inputs of a prompt's forward, before it is run: a family may read the pictures ahead of it."""
        return inputs

    def _inputs(self, talk: list[dict[str, Any]], pictures: Sequence[object], options: Mapping[str, Any]) -> Inputs:
        if not hasattr(self.processor, "image_processor"):
            plain = [{**m, "content": "".join(part["text"] for part in m["content"])} for m in talk]
            text = self._render(self.processor, plain)
            return dict(self.processor([text], add_special_tokens=False, return_tensors="pt"))
        text = self._render(self.processor, talk)
        begins = self.tokenizer.bos_token is not None and text.startswith(self.tokenizer.bos_token)
        bos = {"add_special_tokens": False} if begins else {}
        given = {"images": list(pictures)} if pictures else {}
        return dict(self.processor(text=[text], return_tensors="pt", **given, **bos, **options))

    @staticmethod
    def _render(processor: Any, talk: list[dict[str, Any]]) -> str:
        if processor.chat_template is None and getattr(processor, "tokenizer", processor).chat_template is None:
            raise UsageError("this checkpoint has no chat template, so it cannot be asked by messages")
        return processor.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)

    def _markup(self, tokenizer: Any) -> set[str]:
        special = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
        return special | {t for t in (getattr(self.processor, "image_token", None),) if isinstance(t, str)}

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids, without special tokens."""
        return self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def fingerprint(self) -> dict[str, str | int]:
        """Class, sizes and a hash of the embedding: what a drafter trained for this target must find again."""
        return fingerprint(self.model, self.path)

    def astype(self, dtype: torch.dtype) -> HFTarget:
        """A target over a deep copy of the model in another precision."""
        return type(self)(copy.deepcopy(self.model).to(dtype), self.processor, name=self.name, path=self.path)


def _drop(model: PreTrainedModel, obeyed: frozenset[str]) -> dict[str, Any]:
    """Settings of the checkpoint that plain decoding leaves out, and one warning that names them."""
    config = model.generation_config
    dropped = {
        name: value for name, neutral in PATH_DEPENDENT.items()
        if name not in obeyed and (value := getattr(config, name, None)) not in (None, neutral, [], {})
    }  # fmt: skip
    if dropped:
        listed = ", ".join(f"{name}={value}" for name, value in dropped.items())
        warnings.warn(
            f"the checkpoint's own {listed} is left out: drafted decoding keeps the model's own law", stacklevel=4
        )
    return dropped
