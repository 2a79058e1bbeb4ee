"""Reading checkpoints: safetensors only, no remote code, and errors that say what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import PreTrainedModel

from paceline.errors import UsageError, unknown
from paceline.hf.packed import pack
from paceline.hf.target import HFTarget

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16, "float64": torch.float64}
SHORT = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}


def read_checkpoint(
    where: str,
    family: Callable[[str], type[HFTarget]],
    *,
    name: str = "",
    dtype: torch.dtype | str | None = None,
    device: str = "cpu",
    processor: Any = None,
    packed: bool = True,
) -> HFTarget:
    """The target in this directory or at this hub id. Raises UsageError for what is missing or not allowed."""
    here = Path(where) if Path(where).is_dir() else None
    if here is not None:
        check_files(here)
    place = _device(device)
    precision = as_dtype(dtype, place)
    try:
        kind, model = _read(where, family, precision)
        processor = processor or _processor(where, kind)
    except UsageError:
        raise
    except (OSError, ImportError, ValueError, SafetensorError) as error:
        raise UsageError(f"target {where!r} cannot be read: {' '.join(str(error).split()):.300}") from error
    model = model.to(place)
    if packed:
        pack(model)
    return kind(model, processor, name=name, path=here)


def _read(
    where: str, family: Callable[[str], type[HFTarget]], dtype: torch.dtype | str
) -> tuple[type[HFTarget], PreTrainedModel]:
    import transformers

    config = transformers.AutoConfig.from_pretrained(where, trust_remote_code=False)
    kind = family(config.model_type)
    model, info = getattr(transformers, kind.auto).from_pretrained(
        where, config=config, dtype=dtype, use_safetensors=True, trust_remote_code=False, attn_implementation="sdpa",
        output_loading_info=True,
    )  # fmt: skip
    if missing := sorted(info["missing_keys"]):
        raise UsageError(f"the weights of {where!r} lack {len(missing)} tensors, such as {missing[0]}")
    return kind, model


def check_files(here: Path) -> None:
    """Raise UsageError unless the directory holds a config and safetensors weights. Pickles are never opened."""
    if not (here / "config.json").is_file():
        raise UsageError(f"{here} holds no config.json: a target is a directory in Hugging Face format")
    try:
        config = json.loads((here / "config.json").read_text(encoding="utf-8"))
    except ValueError:
        raise UsageError(f"{here / 'config.json'} is not valid JSON") from None
    if "model_type" not in config:
        raise UsageError(f"{here / 'config.json'} names no model_type")
    if not any(here.glob("*.safetensors")):
        pickles = sorted(path.name for kind in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in here.glob(kind))
        if pickles:
            raise UsageError(
                f"{here} has pickle weights only ({pickles[0]}), which can run code when they are opened; "
                "convert them to safetensors"
            )
        raise UsageError(f"{here} holds no weights (*.safetensors)")


def as_dtype(dtype: torch.dtype | str | None, device: torch.device) -> torch.dtype | str:
    """A torch dtype, or "auto". None: float32 on the CPU, else the checkpoint's own. Raises UsageError."""
    if dtype is None:
        return torch.float32 if device.type == "cpu" else "auto"
    if isinstance(dtype, torch.dtype):
        return dtype
    full = SHORT.get(dtype, dtype)
    if full not in DTYPES:
        raise unknown("dtype", dtype, [*DTYPES, *SHORT])
    return DTYPES[full]


def _device(device: str) -> torch.device:
    try:
        place = torch.device(device)
    except RuntimeError:
        raise UsageError(f"unknown device {device!r}; give cpu, cuda or cuda:0") from None
    if place.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"device {device!r} asked for, but torch sees no CUDA device here; use cpu")
    return place


def _processor(where: str, kind: type[HFTarget]) -> Any:
    import transformers

    auto = kind.reader or ("AutoProcessor" if kind.vision else "AutoTokenizer")
    return getattr(transformers, auto).from_pretrained(where, trust_remote_code=False)
