"""Clip folders in the layout of RealEstate10k: a text file of camera poses a clip, and its frames by time stamp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from paceline.errors import UsageError

COLUMNS = 19  # time stamp, focal lengths and centre (4), two zeros, camera pose (3 x 4)
ENDINGS = (".png", ".jpg", ".jpeg")


@dataclass(frozen=True, slots=True)
class Clip:
    """One clip: where it came from, its cameras, and the frames that are on disk."""

    name: str
    source: str  # address of the video
    stamps: tuple[int, ...]  # microseconds
    intrinsics: np.ndarray  # [n, 4] focal lengths x, y and centre x, y, as shares of width and height
    poses: np.ndarray  # [n, 3, 4] world to camera
    frames: tuple[Path | None, ...]  # None where a frame was not fetched

    def pixels(self, start: int, count: int, side: int) -> np.ndarray:
        """[count, side, side, 3] bytes: frames from `start` on, cut to a square and scaled.

        Raises UsageError when the clip is shorter, or when a frame is not on disk.
        """
        chosen = self.frames[start : start + count]
        if len(chosen) < count:
            raise UsageError(f"clip {self.name} has {len(self.frames)} frames; {start + count} are needed")
        if None in chosen:
            raise UsageError(f"clip {self.name}: frame {self.stamps[start + chosen.index(None)]} is not on disk")
        return np.stack([_square(path, side) for path in chosen if path is not None])


def real_estate(root: Path, split: str = "test", frames: Path | None = None) -> Iterator[Clip]:
    """Clips of `root`/SPLIT/*.txt in the order of names, with frames in `frames`/NAME/STAMP.png (or .jpg).

    `frames` is `root`/frames/SPLIT unless given. Raises UsageError for a folder or file of another layout.
    """
    folder = root / split
    listed = sorted(folder.glob("*.txt"))
    if not listed:
        raise UsageError(f"{folder} holds no clips in the layout of RealEstate10k (one .txt a clip)")
    where = frames or root / "frames" / split
    return (_read(path, where / path.stem) for path in listed)


def _read(path: Path, frames: Path) -> Clip:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    try:
        table = np.array([[float(value) for value in line.split()] for line in lines[1:]])
    except ValueError as error:
        raise UsageError(f"{path}: not a clip of RealEstate10k: {error}") from None
    if table.ndim != 2 or table.shape[1] != COLUMNS:
        raise UsageError(f"{path}: not a clip of RealEstate10k: a line must hold {COLUMNS} numbers")
    stamps = tuple(int(line.split()[0]) for line in lines[1:])
    found = tuple(next((f for e in ENDINGS if (f := frames / f"{s}{e}").is_file()), None) for s in stamps)
    return Clip(path.stem, lines[0].strip(), stamps, table[:, 1:5], table[:, 7:].reshape(-1, 3, 4), found)


def _square(path: Path, side: int) -> np.ndarray:
    with Image.open(path) as picture:
        edge = min(picture.size)
        left, top = (picture.width - edge) // 2, (picture.height - edge) // 2
        cut = picture.convert("RGB").crop((left, top, left + edge, top + edge))
        return np.asarray(cut.resize((side, side), Image.Resampling.BICUBIC))
