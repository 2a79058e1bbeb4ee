"""What a measurement must say about itself: command, code, machine."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("paceline", "torch", "transformers", "tokenizers", "safetensors", "numpy")


def meta_of(target: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Command, commit, versions, hardware, precision, threads, date, the target, and the settings given."""
    import torch

    return {
        "command": command(),
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "hardware": hardware(target.device),
        "device": str(target.device),
        "dtype": str(target.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "batch": 1,
        "target_class": type(target.model).__name__,
        "target_parameters": parameters(target.model),
        "dropped_settings": dict(getattr(target, "dropped", {})),  # the checkpoint's own, left out on both sides
        **settings,
    }


def parameters(model: Any) -> int:
    """Weights of a model; a head tied to the embeddings counts once, even where paceline laid out a copy of it."""
    total = sum(weight.numel() for weight in model.parameters())
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if head is None or not model.config.get_text_config(decoder=True).tie_word_embeddings:
        return total
    return total - (head.weight.numel() if head.weight is not model.get_input_embeddings().weight else 0)


def command() -> str:
    """The command line of this process, as one would type it again."""
    first = Path(sys.argv[0]).name
    shown = "paceline" if first in ("paceline", "__main__.py") else first
    return shlex.join([shown, *sys.argv[1:]])


def commit() -> str | None:
    """The commit of the source checkout, with "+changes" where it differs; None for an installed package."""
    here = Path(__file__).resolve().parent
    head = _git(here, "rev-parse", "--short=12", "HEAD")
    if head is None:
        return None
    return head + ("+changes" if _git(here, "status", "--porcelain", "--untracked-files=no") else "")


def hardware(device: Any) -> dict[str, Any]:
    """Processor, cores that this process may use, memory, and the accelerator where one is used."""
    import torch

    found: dict[str, Any] = {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(terse=True),
    }
    if device.type == "cuda":
        found["gpu"] = torch.cuda.get_device_name(device)
    return found


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git(where: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", "-C", str(where), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
