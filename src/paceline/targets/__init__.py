"""Targets: one file a family of models. This table is the only place that knows their names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from paceline.errors import UsageError, unknown

if TYPE_CHECKING:
    import torch

    from paceline.hf.target import HFTarget

FAMILIES: Mapping[str, str] = MappingProxyType({
    "idefics3": "paceline.targets.idefics3:Idefics3",
    "smolvlm": "paceline.targets.idefics3:Idefics3",
    "llava": "paceline.targets.llava:Llava",
    "llava_next": "paceline.targets.llava:Llava",
    "mistral3": "paceline.targets.mistral3:Mistral3",
    "internvl": "paceline.targets.internvl:InternVL",
    "qwen2_5_vl": "paceline.targets.qwen_vl:QwenVL",
    "qwen3_vl": "paceline.targets.qwen_vl:QwenVL",
    "qwen3_5": "paceline.targets.qwen_vl:QwenVL",
    "gemma3": "paceline.targets.gemma:Gemma",
    "llama": "paceline.targets.text:Text",
    "mistral": "paceline.targets.text:Text",
    "qwen3": "paceline.targets.text:Text",
})  # fmt: skip
OTHER = "paceline.targets.text:UntestedText"  # every other causal language model


def family(model_type: str) -> type[HFTarget]:
    """The class that serves models of this type. Raises UsageError for a type that is no decoder we know."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    if model_type not in FAMILIES and model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise unknown("model type", model_type, FAMILIES)
    module, _, attribute = FAMILIES.get(model_type, OTHER).partition(":")
    return getattr(importlib.import_module(module), attribute)


def load_target(
    source: Any,
    *,
    dtype: torch.dtype | str | None = None,
    device: str = "cpu",
    threads: int | None = None,
    processor: Any = None,
    pack: Literal["auto", False] = "auto",
) -> HFTarget:
    """A target from a bundled name, a directory, a hub id, or a loaded transformers model (with its processor).

    dtype: None means float32 on the CPU and the checkpoint's own elsewhere. threads: CPU threads for torch, for the
    whole process. pack: lay weights out for few rows, where that wins (float32 on a CPU; never a model that you
    loaded); results differ in their last bits. Raises UsageError for an unknown name, files that are missing, and
    weights that are not safetensors.
    """
    import torch

    if threads is not None:
        if threads < 1:
            raise UsageError(f"threads is {threads}; it must be 1 or more")
        torch.set_num_threads(threads)
    if not isinstance(source, str | Path):
        return family(source.config.model_type)(source, processor)
    from paceline.hf.checkpoint import read_checkpoint

    name, where = _place(str(source))
    return read_checkpoint(
        where, family, name=name, dtype=dtype, device=device, processor=processor, packed=pack == "auto"
    )


def _place(source: str) -> tuple[str, str]:
    """(bundled name or "", directory or hub id)."""
    from paceline import zoo

    bundled = zoo.targets()
    if source in bundled:
        return source, str(bundled[source])
    if Path(source).is_dir() or source.count("/") == 1:
        return "", source
    raise unknown("target", source, bundled)
