"""Atomic checkpoints of a run: parameters, optimiser and random state as safetensors, counters as JSON."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn


def save(
    root: Path,
    step: int,
    model: nn.Module,
    optimisers: Sequence[torch.optim.Optimizer],
    counters: Mapping[str, Any],
    keep: int = 2,
) -> Path:
    """Write checkpoint `step` under `root`, keep the newest `keep`; a kill leaves the older ones whole."""
    final, draft = root / f"step-{step:08d}", root / f".writing-{step:08d}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    save_file({name: p.detach().contiguous() for name, p in model.named_parameters()}, draft / "model.safetensors")
    save_file(_optimiser_tensors(model, optimisers), draft / "optimiser.safetensors")
    save_file({"torch": torch.get_rng_state()}, draft / "random.safetensors")
    (draft / "counters.json").write_text(json.dumps({"step": step, **counters}, indent=1), encoding="utf-8")
    for file in draft.iterdir():
        with file.open("rb") as handle:
            os.fsync(handle.fileno())
    shutil.rmtree(final, ignore_errors=True)
    draft.rename(final)
    for old in _all(root)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def latest(root: Path) -> Path | None:
    """Return the newest complete checkpoint under `root`, or None."""
    found = _all(root)
    return found[-1] if found else None


def restore(path: Path, model: nn.Module, optimisers: Sequence[torch.optim.Optimizer]) -> dict[str, Any]:
    """Load a checkpoint in place and return its counters; ValueError when it belongs to another model."""
    restore_parameters(path, model)
    tensors = load_file(path / "optimiser.safetensors")
    names = _names(model)
    for number, optimiser in enumerate(optimisers):
        for group in optimiser.param_groups:
            for parameter in group["params"]:
                prefix = f"{number}/{names[id(parameter)]}/"
                state = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
                if state:
                    optimiser.state[parameter] = state
    torch.set_rng_state(load_file(path / "random.safetensors")["torch"])
    return json.loads((path / "counters.json").read_text(encoding="utf-8"))


def restore_parameters(path: Path, model: nn.Module) -> None:
    """Load only the parameters of a checkpoint; ValueError names the first one that is absent or has another shape."""
    stored = load_file(path / "model.safetensors")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name not in stored or stored[name].shape != parameter.shape:
                raise ValueError(f"{path} does not fit the model: {name} {tuple(parameter.shape)}")
            parameter.copy_(stored[name])


def _all(root: Path) -> list[Path]:
    return sorted(path for path in root.glob("step-*") if (path / "counters.json").is_file())


def _names(model: nn.Module) -> dict[int, str]:
    return {id(parameter): name for name, parameter in model.named_parameters()}


def _optimiser_tensors(model: nn.Module, optimisers: Sequence[torch.optim.Optimizer]) -> dict[str, Tensor]:
    names = _names(model)
    return {
        f"{number}/{names[id(parameter)]}/{key}": value.detach().clone()
        for number, optimiser in enumerate(optimisers)
        for parameter, state in optimiser.state.items()
        for key, value in state.items()
        if isinstance(value, Tensor)
    }
