"""Offsets, neighbours and forced tokens of layouts, against grids written out by hand."""

from __future__ import annotations

import pytest

from paceline.errors import UsageError
from paceline.layout import Layout


def test_a_plain_grid_has_its_neighbours_one_row_up() -> None:
    layout = Layout.raster(3, 2, codes=(5, 9))
    assert layout.size == 6
    assert layout.above == (-1, -1, -1, 0, 1, 2)
    assert layout.cell == layout.places() == (0, 1, 2, 3, 4, 5)
    assert set(layout.forced) == set(layout.before) == {-1}


def test_line_ends_stand_between_rows_and_are_no_codes() -> None:
    layout = Layout.raster(2, 2, codes=(0, 4), head=(9, -1), line_end=7, tail=(8, 6))
    assert layout.forced == (9, -1, -1, -1, 7, -1, -1, 7, 8, 6)
    assert layout.places() == (2, 3, 5, 6)
    assert layout.above == (-1, -1, -1, -1, -1, 2, 3, -1, -1, -1)


def test_a_clip_looks_back_one_frame_and_never_up_across_frames() -> None:
    layout = Layout.raster(2, 2, 2, codes=(0, 4), frame_end=(5,))
    assert layout.forced == (-1, -1, -1, -1, 5, -1, -1, -1, -1, 5)
    assert layout.before == (-1, -1, -1, -1, -1, 0, 1, 2, 3, -1)
    assert layout.above == (-1, -1, 0, 1, -1, -1, -1, 5, 6, -1)


def test_a_preview_precedes_the_picture() -> None:
    layout = Layout.raster(1, 2, codes=(0, 4)) + Layout.raster(2, 2, codes=(0, 4), tail=(4,))
    assert (layout.size, layout.width, layout.height) == (7, 2, 2)
    assert layout.above == (-1, 0, -1, -1, 2, 3, -1)
    assert layout.places() == (2, 3, 4, 5)


def test_shapes_without_meaning_are_refused() -> None:
    with pytest.raises(UsageError, match="1 or more"):
        Layout.raster(0, 4, codes=(0, 4))
    with pytest.raises(UsageError, match="codes are"):
        Layout.raster(2, 2, codes=(4, 4))
