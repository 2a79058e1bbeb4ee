"""Targets: one file a family of models. This table is the only place that knows their names."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from paceline.errors import UsageError, unknown

if TYPE_CHECKING:
    import torch

    from paceline.hf.target import HFTarget
    from paceline.targets.drawing import Drawing

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
DRAWN: Mapping[str, str] = MappingProxyType({  # families that draw
    "janus": "paceline.targets.janus:Janus",
    "emu3": "paceline.targets.emu3:Emu3",
    "glm_image": "paceline.targets.glm_image:GlmImage",
    "chameleon": "paceline.targets.chameleon:Chameleon",
    "imagegpt": "paceline.targets.imagegpt:ImageGPT",
})  # fmt: skip
OTHER = "paceline.targets.text:UntestedText"  # every other causal language model
PLANNED = "paceline.targets.visual:Visual"  # a causal language model whose directory says that it draws
PLAN = "visual.json"


def family(model_type: str) -> type[HFTarget]:
    """The class that serves models of this type. Raises UsageError for a type that is no decoder we know."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    known = {**FAMILIES, **DRAWN}
    if model_type not in known and model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
        raise unknown("model type", model_type, known)
    return _named(known.get(model_type, OTHER))


def _named(entry: str) -> Any:
    module, _, attribute = entry.partition(":")
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
    planned = (Path(where) / PLAN).is_file()
    return read_checkpoint(
        where, (lambda _: _named(PLANNED)) if planned else family,
        name=name, dtype=dtype, device=device, processor=processor, packed=pack == "auto",
    )  # fmt: skip


def load_visual(source: Any, *, size: tuple[int, int] | None = None, **options: Any) -> Drawing:
    """A target that draws, opened as by `load_target`; size: (width, height) in pixels, None: the checkpoint's own.

    Raises UsageError for a target that draws nothing, naming what does, and for a size that its layout does not allow.
    """
    from paceline.targets.drawing import Drawing

    if isinstance(source, str | Path) and (config := Path(source) / "config.json").is_file():
        _check_draws(json.loads(config.read_text(encoding="utf-8")).get("model_type", ""), Path(source))
    target = load_target(source, **options)
    if not isinstance(target, Drawing):
        raise _draws_nothing(target.model.config.model_type)
    return target if size is None else target.sized(*size)


def _check_draws(model_type: str, here: Path) -> None:
    if model_type not in DRAWN and not (here / PLAN).is_file():
        raise _draws_nothing(model_type)


def _draws_nothing(model_type: str) -> UsageError:
    return UsageError(
        f"{unknown('family of targets that draw', model_type, DRAWN)}; a causal language model over codes draws where "
        f"its directory holds {PLAN}"
    )


def _place(source: str) -> tuple[str, str]:
    """(bundled name or "", directory or hub id)."""
    from paceline import zoo

    bundled = zoo.targets()
    if source in bundled:
        return source, str(bundled[source])
    if Path(source).is_dir() or source.count("/") == 1:
        return "", source
    from paceline.targets.packaged import PACKAGED, packaged

    if source in PACKAGED:
        return source, str(packaged(source))
    raise unknown("target", source, [*bundled, *PACKAGED])
