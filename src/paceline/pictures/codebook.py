"""A k-means codebook of square patches: pictures to grids of codes and back, exact and deterministic."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from paceline.errors import UsageError

CHUNK = 65536  # patches compared with the table at a time


@dataclass(frozen=True, slots=True)
class Codebook:
    """One colour patch a code; pixels are RGB in [0, 1], row by row, channels last."""

    table: np.ndarray  # [codes, patch * patch * 3] float32
    patch: int  # pixels a side

    def __post_init__(self) -> None:
        width = self.patch * self.patch * 3
        if self.table.ndim != 2 or self.table.shape[1] != width:
            raise ValueError(f"a codebook of {self.patch}-pixel patches is [codes, {width}], not {self.table.shape}")

    def encode(self, pictures: np.ndarray) -> np.ndarray:
        """[..., H, W] int64 codes of pictures [..., H * patch, W * patch, 3] of bytes: the nearest patch each."""
        patches = cut(pictures, self.patch)
        flat = patches.reshape(-1, patches.shape[-1])
        found = [_nearest(flat[start : start + CHUNK], self.table)[0] for start in range(0, len(flat), CHUNK)]
        return np.concatenate(found).reshape(patches.shape[:-1])

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """[..., H * patch, W * patch, 3] bytes of codes [..., H, W]; a negative code is mid-grey: not yet drawn.

        Raises ValueError for a code beyond the table.
        """
        if codes.size and codes.max() >= len(self.table):
            raise ValueError(f"code {codes.max()} is not in 0 … {len(self.table) - 1}")
        patches = np.where(codes[..., None] >= 0, self.table[codes.clip(0)], np.float32(0.5))
        *lead, high, wide, _ = patches.shape
        cells = patches.reshape(*lead, high, wide, self.patch, self.patch, 3)
        pixels = np.moveaxis(cells, -3, -4).reshape(*lead, high * self.patch, wide * self.patch, 3)
        return (pixels * 255 + 0.5).clip(0, 255).astype(np.uint8)

    def save(self, path: Path) -> None:
        """Write the table as safetensors."""
        from safetensors.numpy import save_file

        save_file({"table": np.ascontiguousarray(self.table)}, path, metadata={"patch": str(self.patch)})

    @staticmethod
    def load(path: Path) -> Codebook:
        """The codebook in a safetensors file. Raises UsageError when there is none, or when it holds something else."""
        from safetensors import SafetensorError, safe_open

        if not path.is_file():
            raise UsageError(f"no codebook at {path}")
        try:
            with safe_open(path, "np") as file:
                return Codebook(file.get_tensor("table"), int((file.metadata() or {})["patch"]))
        except (SafetensorError, KeyError, ValueError) as error:
            raise UsageError(f"{path} is not a codebook: {error}") from error


def cut(pictures: np.ndarray, patch: int) -> np.ndarray:
    """[..., H, W, patch * patch * 3] float32 in [0, 1]. Raises ValueError when patches do not tile the picture."""
    *lead, high, wide, channels = pictures.shape
    if high % patch or wide % patch or channels != 3:
        raise ValueError(f"pictures must be RGB with sides in multiples of {patch}, not {pictures.shape}")
    cells = pictures.reshape(*lead, high // patch, patch, wide // patch, patch, 3)
    flat = np.moveaxis(cells, -4, -3).reshape(*lead, high // patch, wide // patch, patch * patch * 3)
    return flat.astype(np.float32) / 255


def fit(patches: np.ndarray, codes: int, patch: int, seed: int, rounds: int = 25) -> Codebook:
    """Lloyd's k-means on patches [n, patch * patch * 3] from a k-means++ start; empty codes move to the worst patch."""
    rng = np.random.default_rng(seed)
    table = _spread(patches[rng.permutation(len(patches))[: 40 * codes]], codes, rng)
    for _ in range(rounds):
        owner, distance = _nearest(patches, table)
        sums = np.zeros((codes, patches.shape[1]), np.float64)
        np.add.at(sums, owner, patches)
        counts = np.bincount(owner, minlength=codes)
        table = np.where(counts[:, None] > 0, sums / counts.clip(1)[:, None], table).astype(np.float32)
        empty = np.flatnonzero(counts == 0)
        table[empty] = patches[np.argsort(-distance)[: len(empty)]]
    order = np.argsort(table.mean(1), kind="stable")  # dark codes first, so that a code says something to the eye
    return Codebook(table[order], patch)


def _spread(patches: np.ndarray, codes: int, rng: np.random.Generator) -> np.ndarray:
    """k-means++ (Arthur and Vassilvitskii 2007): each start is drawn with its squared distance to those before."""
    chosen = [int(rng.integers(len(patches)))]
    distance = ((patches - patches[chosen[0]]) ** 2).sum(1)
    for _ in range(codes - 1):
        chosen.append(int(rng.choice(len(patches), p=distance / distance.sum())))
        distance = np.minimum(distance, ((patches - patches[chosen[-1]]) ** 2).sum(1))
    return patches[chosen]


def _nearest(patches: np.ndarray, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Index of the nearest row of the table and the squared distance to it, for each patch."""
    scores = patches @ table.T
    scores *= -2
    scores += (table**2).sum(1)
    owner = scores.argmin(1)
    return owner, scores[np.arange(len(owner)), owner] + (patches**2).sum(1)
