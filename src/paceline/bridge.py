"""Inside a transformers program: `model.generate(**inputs, custom_generate=paceline.custom_generate(drafter))`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from paceline.answer import Row, follow, rule_of
from paceline.clock import Stopwatch
from paceline.core import Drafter, Prompt
from paceline.errors import UsageError
from paceline.sampling import Sampling

WARPERS = {"TemperatureLogitsWarper", "TopKLogitsWarper", "TopPLogitsWarper", "MinPLogitsWarper", "LogitNormalization"}
STOPS = {"MaxLengthCriteria", "EosTokenCriteria"}
NEUTRAL: dict[str, tuple[Any, ...]] = {  # modes of generate that are not one text a row
    "num_beams": (None, 1), "num_return_sequences": (None, 1), "penalty_alpha": (None, 0.0), "dola_layers": (None,),
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
    UsageError for settings whose law depends on what was said before, and for several rows with pictures. A streamer
    hears the prompt only: transformers 5.24 hands none to callables, so stream with `paceline.stream`.
    """

    def decode(
        model: Any,
        input_ids: Tensor,
        logits_processor: Any = None,
        stopping_criteria: Any = None,
        generation_config: Any = None,
        **inputs: Any,
    ) -> Tensor:
        from paceline.targets import load_target

        target = load_target(model)
        _refuse_memory(logits_processor or (), stopping_criteria or (), generation_config)
        guesser = drafter(target) if callable(drafter) else drafter
        sampling = _sampling(generation_config, input_ids.shape[1])
        prompts = _prompts(input_ids, inputs)
        rows = [Row(target, prompt, sampling, sampling.seed + i, spelled=False) for i, prompt in enumerate(prompts)]
        for _ in follow(target, guesser, rows, rule_of(sampling, coupling), Stopwatch(target.device.type)):
            pass
        return _padded(input_ids, [row.tokens for row in rows], generation_config)

    return decode


def _refuse_memory(processors: Iterable[Any], stops: Iterable[Any], config: Any) -> None:
    """Raise UsageError for what plain sampling at one place, and an end by id or length, cannot express."""
    foreign = [type(p).__name__ for p in processors if type(p).__name__ not in WARPERS]
    foreign += [type(s).__name__ for s in stops if type(s).__name__ not in STOPS]
    if foreign:
        raise UsageError(
            f"drafted decoding takes temperature, top_k, top_p, min_p, end ids and max_length, not {foreign[0]}: "
            "the law of a token may depend on nothing but the model's own logits at its place"
        )
    for name, fine in NEUTRAL.items():
        if (value := getattr(config, name, None)) not in fine:
            raise UsageError(f"generation_config.{name} is {value!r}; drafted decoding gives one plain text a row")


def _sampling(config: Any, prompt_length: int) -> Sampling:
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
    given = {k: v for k, v in inputs.items() if v is not None and k not in PLUMBING}
    positions = inputs.get("position_ids")
    if positions is not None and positions.dim() == 3 and len(input_ids) == 1:
        given["position_ids"] = positions  # M-RoPE: in time, height and width
    by_token = {k: v for k, v in given.items() if isinstance(v, Tensor) and v.shape[:2] == input_ids.shape}
    whole = {k: v for k, v in given.items() if k not in by_token}
    if len(input_ids) > 1 and whole:
        raise UsageError(
            f"{len(input_ids)} rows with pictures ({', '.join(sorted(whole))}) cannot be told apart here; "
            "call generate row by row, or paceline.generate with a list of conversations"
        )
    mask = inputs.get("attention_mask")
    seen = torch.ones_like(input_ids, dtype=torch.bool) if mask is None else mask.bool()
    return [
        Prompt(ids[real], {**whole, **{k: v[row : row + 1, real] for k, v in by_token.items()}})
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
