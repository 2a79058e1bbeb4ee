"""Pre-rendered scenes on disk: memory-mapped tiles as bytes, and token ids; a shard holds `SHARD` scenes of a task."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from paceline.tasks import scene as draw_scene
from paceline.tasks.scene import Split
from paceline.train.packing import Branch, Packed
from paceline.train.scenes import Encoder

SHARD = 256  # scenes


def texts(tasks: Iterable[str], scenes: int) -> Iterator[str]:
    """Yield every question and answer of the first `scenes` training scenes of each task."""
    for task in tasks:
        for index in range(scenes):
            for exchange in draw_scene(task, "train", index).exchanges:
                yield exchange.question
                yield exchange.answer


def render(counts: Mapping[str, int], split: Split, encoder: Encoder, directory: Path) -> None:
    """Write the shards of `counts` scenes of each task, in the order in which a mixture needs them.

    Shards already there are kept, and a kill leaves no half shard.
    """
    directory.mkdir(parents=True, exist_ok=True)
    wanted = [(start / count, task, start) for task, count in counts.items() for start in range(0, count, SHARD)]
    for _, task, start in sorted(wanted):
        tiles_path, text_path = _paths(directory, task, split, start)
        if text_path.is_file():
            continue
        packed = [encoder.encode(draw_scene(task, split, index)) for index in range(start, start + SHARD)]
        _write(np.concatenate([scene.tiles for scene in packed]), tiles_path)
        _write_arrays(_flatten(packed), text_path)


def _paths(directory: Path, task: str, split: Split, start: int) -> tuple[Path, Path]:
    stem = f"{task}-{split}-{start:06d}"
    return directory / f"{stem}.tiles.npy", directory / f"{stem}.text.npz"


def _write(array: np.ndarray, path: Path) -> None:
    draft = path.with_suffix(".writing")
    with draft.open("wb") as handle:
        np.save(handle, array)
    os.replace(draft, path)


def _write_arrays(arrays: dict[str, np.ndarray], path: Path) -> None:
    draft = path.with_suffix(".writing")
    with draft.open("wb") as handle:
        np.savez(handle, **arrays)  # type: ignore[arg-type]
    os.replace(draft, path)


def _flatten(packed: list[Packed]) -> dict[str, np.ndarray]:
    branches = [branch for scene in packed for branch in scene.branches]
    return {
        "tile_end": np.cumsum([len(scene.tiles) for scene in packed]),
        "prefix_end": np.cumsum([len(scene.prefix) for scene in packed]),
        "prefix": np.concatenate([scene.prefix for scene in packed]),
        "branch_end": np.cumsum([len(scene.branches) for scene in packed]),
        "token_end": np.cumsum([len(branch.ids) for branch in branches]),
        "tokens": np.concatenate([branch.ids for branch in branches]),
        "answer": np.asarray([branch.answer for branch in branches]),
    }


class Shards:
    """Reads rendered scenes by number; waits `patience` seconds for another process, then FileNotFoundError."""

    def __init__(self, directory: Path, split: Split, patience: float = 0.0) -> None:
        self.directory, self.split, self.patience = directory, split, patience
        self._open = lru_cache(maxsize=64)(self._load)

    def scene(self, task: str, index: int) -> Packed:
        """Return scene `index` of a task."""
        start = index // SHARD * SHARD
        tiles, text = self._open(task, start)
        number = index - start
        tile, prefix, branch = (_span(text[key], number) for key in ("tile_end", "prefix_end", "branch_end"))
        branches = []
        for position in range(branch.start, branch.stop):
            branches.append(Branch(text["tokens"][_span(text["token_end"], position)], int(text["answer"][position])))
        return Packed(task, index, np.asarray(tiles[tile]), text["prefix"][prefix], tuple(branches))

    def _load(self, task: str, start: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        tiles_path, text_path = _paths(self.directory, task, self.split, start)
        deadline = time.monotonic() + self.patience
        while not text_path.is_file() and time.monotonic() < deadline:
            time.sleep(0.5)
        if not text_path.is_file():
            raise FileNotFoundError(f"{text_path} is missing: render {task}/{self.split} up to scene {start + SHARD}")
        with np.load(text_path) as text:
            return np.load(tiles_path, mmap_mode="r"), dict(text)


def _span(ends: np.ndarray, number: int) -> slice:
    return slice(int(ends[number - 1]) if number else 0, int(ends[number]))
