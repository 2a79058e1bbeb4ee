"""Inside a transformers program: `model.generate(**inputs, custom_generate=paceline.custom_generate(drafter))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from paceline.answer import Row, follow, rule_of
from paceline.clock import Stopwatch
from paceline.core import Drafter, Prompt
from paceline.errors import UsageError
from paceline.sampling import Sampling

NEUTRAL: dict[str, tuple[Any, ...]] = {  # settings of GenerationConfig that must stand like this: laws with memory
    "repetition_penalty": (None, 1.0), "encoder_repetition_penalty": (None, 1.0), "no_repeat_ngram_size": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0), "bad_words_ids": (None,), "sequence_bias": (None,),
    "suppress_tokens": (None, []), "begin_suppress_tokens": (None, []), "forced_bos_token_id": (None,),
    "forced_eos_token_id": (None,), "min_length": (None, 0), "min_new_tokens": (None, 0), "num_beams": (None, 1),
    "num_return_sequences": (None, 1), "guidance_scale": (None, 1.0), "typical_p": (None, 1.0),
    "epsilon_cutoff": (None, 0.0), "eta_cutoff": (None, 0.0), "penalty_alpha": (None, 0.0), "top_h": (None,),
    "exponential_decay_length_penalty": (None,), "watermarking_config": (None,), "dola_layers": (None,),
    "stop_strings": (None,), "max_time": (None,), "remove_invalid_values": (None, False),
    "renormalize_logits": (None, False, True),
}  # fmt: skip
PLUMBING = {
    "attention_mask",
    "position_ids",
    "cache",
    "past_key_values",
    "use_cache",
    "logits_to_keep",
    "cache_position",
}


def custom_generate(drafter: Drafter | Callable[[Any], Drafter], *, coupling: str = "gumbel") -> Callable[..., Tensor]:
    """A decoding method for transformers' `generate`: same arguments, same output ids, drafted.

    `drafter` is one, or a function of the wrapped target that gives one. Sampling settings come from the generation
    config; with do_sample the seed is drawn from torch's global generator, so `torch.manual_seed` decides. Raises
    UsageError for settings whose law depends on what was said before, and for several rows with pictures.
    """

    def decode(
        model: Any,
        input_ids: Tensor,
        logits_processor: Any = None,
        stopping_criteria: Any = None,
        generation_config: Any = None,
        streamer: Any = None,
        **inputs: Any,
    ) -> Tensor:
        from paceline.targets import load_target

        target = load_target(model)
        guesser = drafter(target) if callable(drafter) else drafter
        sampling = _sampling(generation_config, input_ids.shape[1])
        prompts = _prompts(input_ids, inputs)
        rows = [Row(target, prompt, sampling, sampling.seed + i) for i, prompt in enumerate(prompts)]
        with torch.inference_mode():
            for piece in follow(target, guesser, rows, rule_of(sampling, coupling), Stopwatch(target.device.type)):
                if streamer is not None:
                    streamer.put(torch.tensor(piece.token_ids))
        if streamer is not None:
            streamer.end()
        return _padded(input_ids, [row.tokens for row in rows], generation_config)

    return decode


def _sampling(config: Any, prompt_length: int) -> Sampling:
    for name, fine in NEUTRAL.items():
        value = getattr(config, name, None)
        if not any(value == neutral for neutral in fine):
            raise UsageError(
                f"generation_config.{name} is {value!r}; drafted decoding takes {fine[-1]!r} only: the law of a token "
                "would depend on more than the model's own logits at its place"
            )
    sample = bool(config.do_sample)
    ends = config.eos_token_id
    return Sampling(
        temperature=(1.0 if config.temperature is None else config.temperature) if sample else 0.0,
        top_k=config.top_k or 0,
        top_p=1.0 if config.top_p is None else config.top_p,
        min_p=config.min_p or 0.0,
        seed=int(torch.randint(2**62, ())) if sample else 0,
        max_new_tokens=config.max_length - prompt_length,
        stop_ids=tuple(ends) if isinstance(ends, list | tuple) else () if ends is None else (ends,),
    )


def _prompts(input_ids: Tensor, inputs: dict[str, Any]) -> list[Prompt]:
    extra = {k: v for k, v in inputs.items() if isinstance(v, Tensor) and k not in PLUMBING}
    by_token = {k: v for k, v in extra.items() if v.shape[:2] == input_ids.shape}
    pictures = {k: v for k, v in extra.items() if k not in by_token}
    if len(input_ids) > 1 and pictures:
        raise UsageError(
            f"{len(input_ids)} rows with pictures ({', '.join(sorted(pictures))}) cannot be told apart here; "
            "call generate row by row, or paceline.generate with a list of conversations"
        )
    mask = inputs.get("attention_mask")
    seen = torch.ones_like(input_ids, dtype=torch.bool) if mask is None else mask.bool()
    return [
        Prompt(ids[real], {**pictures, **{k: v[row : row + 1, real] for k, v in by_token.items()}})
        for row, (ids, real) in enumerate(zip(input_ids, seen, strict=True))
    ]


def _padded(input_ids: Tensor, rows: list[list[int]], config: Any) -> Tensor:
    """[B, S + N]; prompts and what was emitted, padded as `generate` pads."""
    fill = config.pad_token_id
    if fill is None:
        fill = config.eos_token_id[0] if isinstance(config.eos_token_id, list) else config.eos_token_id or 0
    width = max(map(len, rows))
    new = torch.tensor([row + [fill] * (width - len(row)) for row in rows], device=input_ids.device)
    return torch.cat([input_ids, new], 1)
