"""The codebook: nearest patches, exact round trips, deterministic fits, files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paceline.errors import UsageError
from paceline.pictures.codebook import Codebook, cut, fit


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def of_whole_bytes(rng: np.random.Generator, codes: int, patch: int) -> Codebook:
    return Codebook((rng.integers(0, 256, (codes, patch * patch * 3)) / 255).astype(np.float32), patch)


def test_decode_then_encode_gives_the_codes_back(rng: np.random.Generator) -> None:
    book = of_whole_bytes(rng, 40, 4)
    codes = rng.integers(0, 40, (2, 3, 5, 7))
    pixels = book.decode(codes)
    assert pixels.shape == (2, 3, 20, 28, 3)
    assert pixels.dtype == np.uint8
    assert (book.encode(pixels) == codes).all()


def test_encode_takes_the_nearest_patch(rng: np.random.Generator) -> None:
    book = of_whole_bytes(rng, 25, 2)
    picture = rng.integers(0, 256, (6, 8, 3)).astype(np.uint8)
    for row in range(3):
        for column in range(4):
            own = picture[2 * row : 2 * row + 2, 2 * column : 2 * column + 2].reshape(-1) / 255
            distances = ((book.table - own) ** 2).sum(1)
            assert book.encode(picture)[row, column] == distances.argmin()


def test_patches_hold_rows_of_pixels_in_order() -> None:
    picture = np.arange(4 * 4 * 3, dtype=np.uint8).reshape(4, 4, 3)
    first_right = cut(picture, 2)[0, 1] * 255
    assert first_right.round().astype(int).tolist() == [6, 7, 8, 9, 10, 11, 18, 19, 20, 21, 22, 23]


def test_what_is_not_drawn_yet_is_grey(rng: np.random.Generator) -> None:
    assert (of_whole_bytes(rng, 4, 2).decode(np.full((1, 1), -1)) == 128).all()


def test_a_code_beyond_the_table_is_refused(rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match="code 4 is not in 0 … 3"):
        of_whole_bytes(rng, 4, 2).decode(np.array([[4]]))


def test_patches_must_tile_the_picture() -> None:
    with pytest.raises(ValueError, match="multiples of 4"):
        cut(np.zeros((6, 8, 3), np.uint8), 4)


def test_fit_finds_clusters_that_are_there(rng: np.random.Generator) -> None:
    centres = np.linspace(0.1, 0.9, 6, dtype=np.float32)[:, None].repeat(12, 1)
    patches = (centres.repeat(100, 0) + rng.normal(0, 0.004, (600, 12))).astype(np.float32)
    book = fit(patches, 6, 2, seed=1)
    assert np.abs(book.table - centres).max() < 0.003
    assert (book.table == fit(patches, 6, 2, seed=1).table).all()


def test_fit_leaves_no_code_without_patches(rng: np.random.Generator) -> None:
    patches = rng.random((400, 12), dtype=np.float32)
    book = fit(patches, 8, 2, seed=0, rounds=4)
    owners = ((patches[:, None] - book.table[None]) ** 2).sum(-1).argmin(1)
    assert len(set(owners.tolist())) == 8


def test_a_file_gives_the_same_codebook(tmp_path: Path, rng: np.random.Generator) -> None:
    book = of_whole_bytes(rng, 9, 4)
    book.save(tmp_path / "codebook.safetensors")
    again = Codebook.load(tmp_path / "codebook.safetensors")
    assert (again.table == book.table).all()
    assert again.patch == 4


def test_files_that_are_no_codebook_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no codebook at"):
        Codebook.load(tmp_path / "missing.safetensors")
    (tmp_path / "junk.safetensors").write_bytes(b"not safetensors at all")
    with pytest.raises(UsageError, match="is not a codebook"):
        Codebook.load(tmp_path / "junk.safetensors")
