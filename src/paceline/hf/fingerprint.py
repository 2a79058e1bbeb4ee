"""What a drafter must find again in its target: class, sizes, and a hash of the embedding as it is stored."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel

ROWS = 4096  # hashed at a time


def fingerprint(model: PreTrainedModel, path: Path | None) -> dict[str, str | int]:
    """The same for every precision that the model is loaded in, as long as its directory is known."""
    config = model.config.get_text_config(decoder=True)
    return {
        "class": type(model).__name__,
        "layers": config.num_hidden_layers,
        "hidden_size": config.hidden_size,
        "vocab_size": model.get_output_embeddings().weight.shape[0],
        "embedding_sha256": _hash(_stored(model, path)),
    }


def _hash(weight: Tensor) -> str:
    """Of the values as float32, so that stored half precision and its loaded float32 agree."""
    digest = hashlib.sha256()
    for rows in weight.detach().split(ROWS):
        digest.update(rows.to("cpu", torch.float32).contiguous().numpy().tobytes())
    return digest.hexdigest()


def _stored(model: PreTrainedModel, path: Path | None) -> Tensor:
    """The embedding in the directory's safetensors where it can be found by name and shape, else the loaded one."""
    from safetensors import safe_open

    loaded = model.get_input_embeddings().weight
    name = next(name for name, weight in model.named_parameters() if weight is loaded)
    tail = "." + ".".join(name.split(".")[-2:])
    for file in sorted(path.glob("*.safetensors")) if path is not None else ():
        with safe_open(file, framework="pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118 - no mapping
                if f".{key}".endswith(tail) and tensors.get_slice(key).get_shape() == list(loaded.shape):
                    return tensors.get_tensor(key)
    return loaded
