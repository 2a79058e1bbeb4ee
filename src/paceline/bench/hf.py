"""Hugging Face `generate` as a reference: its own instance of the model, untouched, with neutral settings."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from paceline.bench.arms import Run, Unavailable, encode
from paceline.bench.memory import PeakMemory
from paceline.bench.traffic import Ask
from paceline.core import Drafter
from paceline.sampling import Sampling

REFUSALS = (ValueError, TypeError, RuntimeError, IndexError, KeyError, AttributeError, NotImplementedError)


def untouched(target: Any) -> Any:
    """A second instance of a target's model as transformers loads it, same device and precision.

    One that came in memory is copied: paceline changes only models that it loaded itself.
    """
    import transformers

    where = target.path or target.model.config._name_or_path
    if not where:
        return copy.deepcopy(target.model)
    auto = getattr(transformers, target.auto)
    model = auto.from_pretrained(
        str(where), dtype=target.dtype, use_safetensors=True, trust_remote_code=False, attn_implementation="sdpa"
    )
    return model.to(target.device).eval()


def small_model_of(drafter: Drafter) -> Any | None:
    """The target wrapper of the language model that a drafter is made of; None for other drafters."""
    inner = getattr(drafter, "model", None)
    return inner if isinstance(getattr(inner, "model", None), torch.nn.Module) else None


@dataclass(frozen=True, slots=True)
class Reference:
    """`generate` of the stock class: plain, with prompt lookup, or with an assistant model."""

    name: str
    target: Any  # the HFTarget whose processor reads the messages
    model: Any  # an untouched PreTrainedModel
    lookup: int = 0  # tokens that transformers' prompt lookup guesses; 0: none
    assistant: Any = None  # an untouched smaller PreTrainedModel

    def answer(self, ask: Ask, sampling: Sampling) -> Run:
        """Answer and time it. Raises Unavailable where transformers refuses, with what it says."""
        first = FirstToken()
        device = self.model.device
        with torch.inference_mode(), PeakMemory(device) as memory, seeded(device, sampling.seed):
            begin = time.perf_counter()
            prompt = encode(self.target, ask)
            ids = prompt.ids[None].to(device)
            inputs = {name: _moved(value, self.model) for name, value in prompt.inputs.items()}
            settings = self._settings(sampling, len(prompt.ids))
            helper = {} if self.assistant is None else {"assistant_model": self.assistant}
            try:
                with hushed():
                    out = self.model.generate(
                        input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=settings,
                        streamer=first, **inputs, **helper,
                    )  # fmt: skip
            except REFUSALS as error:
                line = " ".join(str(error).split())
                raise Unavailable(f"transformers refuses: {type(error).__name__}: {line:.200}") from error
            new = tuple(out[0, ids.shape[1] :].tolist())
            text = self.target.decode(new)
            end = time.perf_counter()
        return Run(new, text, end - begin, end - first.at, memory.mb)

    def _settings(self, sampling: Sampling, prompt: int) -> Any:
        """The generation config that draws what `Sampling` says and nothing that the checkpoint adds."""
        from transformers import GenerationConfig

        ends = list(self.target.end_ids if sampling.stop_ids is None else sampling.stop_ids)
        drawn: dict[str, Any] = {"do_sample": False}
        if sampling.temperature > 0:
            drawn = {
                "do_sample": True, "temperature": sampling.temperature, "top_k": sampling.top_k,
                "top_p": sampling.top_p, "min_p": sampling.min_p or None,
            }  # fmt: skip
        if self.lookup:
            drawn |= {"prompt_lookup_num_tokens": self.lookup, "max_matching_ngram_size": 3}
        settings = GenerationConfig(
            max_new_tokens=min(sampling.max_new_tokens, self.target.max_length - prompt),
            eos_token_id=ends or None, pad_token_id=ends[0] if ends else 0, use_cache=True, **drawn,
        )  # fmt: skip
        self.model.generation_config = settings  # what `settings` leaves open must not come from the checkpoint
        return settings


@contextmanager
def hushed() -> Iterator[None]:
    """Keep to errors what transformers logs: its assisted decoding warns about arguments that it passes itself."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


class FirstToken:
    """A streamer that only notes when the first new token came: prefill ends there."""

    def __init__(self) -> None:
        self.seen, self.at = 0, time.perf_counter()

    def put(self, value: Any) -> None:
        """Called with the prompt, then with each new token."""
        self.seen += 1
        if self.seen == 2:
            self.at = time.perf_counter()

    def end(self) -> None:
        """Nothing is left to do."""


@contextmanager
def seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Let transformers, which draws from torch's global generators, draw from this seed, and put them back after."""
    cuda = device.type == "cuda"
    with torch.random.fork_rng([device.index or 0] if cuda else []):
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        if cuda:
            torch.cuda.set_rng_state(torch.Generator(device).manual_seed(seed).get_state(), device)
        yield


def _moved(value: torch.Tensor, model: Any) -> torch.Tensor:
    return value.to(model.device, model.dtype) if value.is_floating_point() else value.to(model.device)
