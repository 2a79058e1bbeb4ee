"""A trained drafter on disk: config.json, model.safetensors, and paceline.json with its contract and provenance."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import nn

from paceline import conditioning
from paceline.conditioning import Conditioner
from paceline.core import Needs, Shared
from paceline.drafters.lesson import Lesson, Loss
from paceline.errors import UsageError, unknown

LICENSE = "Apache-2.0"
LAYER_IDS = "k is hidden_states[k]: 0 the embeddings, L the final norm's output"
POSITIONS = "index in the token sequence, one dimension"


class Trained(Protocol):
    """A drafter with weights: what the trainer, the directory and the law tests know of it."""

    level: ClassVar[int]
    trained: ClassVar[bool]
    paired: ClassVar[bool]  # whether it reads paired rows (`conditioning.Rows`)
    Config: ClassVar[type]  # frozen dataclass of what fixes the weights' shapes and meaning; becomes config.json

    @property
    def net(self) -> nn.Module:
        """The weights, called once a serial pass."""
        ...

    @property
    def config(self) -> Any: ...
    @property
    def conditioner(self) -> Conditioner: ...
    @property
    def needs(self) -> Needs:
        """What it reads when it drafts."""
        ...

    @property
    def lesson_layers(self) -> tuple[int, ...]:
        """Layers that its loss reads beside those of `needs` and the last."""
        ...

    @classmethod
    def create(cls, shared: Shared, config: Any, conditioner: Conditioner, *, seed: int = 0) -> Self:
        """A new drafter for a target of these sizes. Raises UsageError for a config that does not fit it."""
        ...

    def loss(self, lesson: Lesson, generator: torch.Generator) -> Loss: ...


def contract(drafter: Trained, target: Any) -> dict[str, Any]:
    """What a directory promises and its reader checks. Block size and mask id: null for methods without them."""
    config = drafter.config
    return {
        "target": dict(target.fingerprint()),
        "template_sha256": template_hash(target),
        "layers": list(drafter.needs.layers),
        "layer_ids": LAYER_IDS,
        "positions": POSITIONS,
        "image_embeddings": "merged" if drafter.needs.embeddings else "token",
        "conditioner": drafter.conditioner.spec,
        "mask_id": getattr(config, "mask_id", None),
        "block_size": getattr(config, "block_size", None),
    }


def template_hash(target: Any) -> str | None:
    """Of the chat template, or None where there is none."""
    processor = target.processor
    text = getattr(processor, "chat_template", None) or getattr(
        getattr(processor, "tokenizer", None), "chat_template", None
    )
    return None if text is None else hashlib.sha256(str(text).encode()).hexdigest()


def write(directory: Path, name: str, drafter: Trained, target: Any, provenance: Mapping[str, Any]) -> None:
    """Write the drafter of method `name`; half-precision copies of the weights, as they ship."""
    from safetensors.torch import save_file

    directory.mkdir(parents=True, exist_ok=True)
    tensors = {
        key: (value.half() if value.is_floating_point() else value).contiguous().cpu()
        for key, value in drafter.net.state_dict().items()
    }
    save_file(tensors, directory / "model.safetensors")
    config = dataclasses.asdict(drafter.config)
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    record = {"license": LICENSE, "method": name, "contract": contract(drafter, target), "provenance": dict(provenance)}
    (directory / "paceline.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def read(kind: type[Any], path: Path, target: Any, options: Mapping[str, Any]) -> Any:
    """The drafter of class `kind` in this directory; `options` are fields of the class, such as a depth.

    Raises UsageError for a drafter of another target, template or convention, and for missing or extra tensors.
    """
    record = _json(path / "paceline.json")
    config = _config(kind.Config, _json(path / "config.json"), path)
    found = record.get("contract", {})
    drafter = kind.create(target.shared, config, conditioning.parse(found.get("conditioner", "full")))
    check(found, contract(drafter, target), path)
    _fill(drafter.net, path)
    return with_options(drafter, options)


def with_options(drafter: Any, options: Mapping[str, Any]) -> Any:
    """The drafter with these fields of its class set otherwise. Raises UsageError for unknown ones."""
    fields = {f.name for f in dataclasses.fields(drafter)} - {"net", "shared", "config"}
    if strange := sorted(set(options) - fields):
        raise unknown(f"option of {type(drafter).__name__}", strange[0], fields)
    given = dict(options)
    if isinstance(given.get("conditioner"), str):
        given["conditioner"] = conditioning.parse(given["conditioner"])
    try:
        return dataclasses.replace(drafter, **given)
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(f"{type(drafter).__name__}: {error}") from error


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise UsageError(f"{path} is missing: a drafter is config.json, model.safetensors and paceline.json")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise UsageError(f"{path} is not valid JSON") from None


def _config(kind: type[Any], table: Mapping[str, Any], path: Path) -> Any:
    known = {f.name for f in dataclasses.fields(kind)}
    if strange := sorted(set(table) - known):
        raise UsageError(f"{path / 'config.json'}: {unknown('key', strange[0], known)}")
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in table.items()})


def check(found: Mapping[str, Any], wanted: Mapping[str, Any], path: Path) -> None:
    """Raise UsageError where the stored contract is not the one that this target and this code would write."""
    theirs, ours = found.get("target", {}), wanted["target"]
    if wrong := [key for key in ours if theirs.get(key) != ours[key]]:
        key = wrong[0]
        raise UsageError(
            f"drafter {path.name!r} was trained for another target: its {key} is {theirs.get(key)!r}, "
            f"here it is {ours[key]!r}"
        )
    for key, value in wanted.items():
        if key not in ("target", "conditioner") and found.get(key) != value:
            raise UsageError(f"drafter {path.name!r} holds {key} = {found.get(key)!r}; this target needs {value!r}")


def _fill(net: nn.Module, path: Path) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        stored = load_file(path / "model.safetensors")
    except (OSError, SafetensorError) as error:
        raise UsageError(f"{path / 'model.safetensors'} cannot be read: {error}") from error
    wanted = net.state_dict()
    if missing := sorted(set(wanted) - set(stored)):
        raise UsageError(f"the weights of {path} lack {len(missing)} tensors, such as {missing[0]}")
    if extra := sorted(set(stored) - set(wanted)):
        raise UsageError(f"the weights of {path} hold {len(extra)} tensors too many, such as {extra[0]}")
    for key, value in wanted.items():
        if stored[key].shape != value.shape:
            raise UsageError(
                f"{key} in {path} has shape {list(stored[key].shape)}; this config needs {list(value.shape)}"
            )
    net.load_state_dict(stored)
