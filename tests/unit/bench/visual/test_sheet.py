"""Contact sheets: every picture is there, over its words; drawn ones are plain decoding's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from paceline.bench.visual import sheet
from paceline.bench.visual.prompts import Caption
from paceline.drafters.free.jacobi import PLAIN, pair
from paceline.painting import Commission, paint
from paceline.sampling import Sampling
from unit.bench.visual.toy import toy


def test_a_sheet_of_training_data_shows_each_picture(tmp_path: Path) -> None:
    assert sheet.main(["--data", "picture", "--count", "10", "-o", str(tmp_path / "s.png")]) == 0
    words, rows = sheet.taught("picture", 10)
    with Image.open(tmp_path / "s.png") as page:
        side, step = 64 * sheet.SCALE, 64 * sheet.SCALE + sheet.MARGIN
        assert page.width == sheet.COLUMNS * step + sheet.MARGIN
        first = page.crop((sheet.MARGIN, sheet.MARGIN, sheet.MARGIN + side, sheet.MARGIN + side))
        assert (np.asarray(first)[::2, ::2] == np.asarray(rows[0][0])).all()
        below = np.asarray(page.crop((sheet.MARGIN, sheet.MARGIN + side, page.width, sheet.MARGIN + side + sheet.LINE)))
    assert (below < 128).any()  # words
    assert len(words) == len(rows) == 10


def test_clips_lie_side_by_side() -> None:
    words, rows = sheet.taught("clip", 2)
    assert [len(frames) for frames in rows] == [8, 8]
    page = sheet.sheet(rows, [c.text for c in words])
    assert page.width == 8 * 32 * sheet.SCALE + 2 * sheet.MARGIN


def test_what_is_drawn_is_what_plain_decoding_draws() -> None:
    target, sampling = toy(), Sampling(temperature=1, seed=3)
    wanted = [Caption("a b"), Caption("c d"), Caption("e f")]
    shown = sheet.drawn(target, wanted, sampling, 1.0)
    plain = paint(Commission(target, tuple(c.text for c in wanted), sampling), *pair(PLAIN))
    assert [np.asarray(frames[0]).tolist() for frames in shown] == [
        np.asarray(target.frames(canvas.tokens)[0]).tolist() for canvas in plain.canvases
    ]


def test_one_of_the_two_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert sheet.main(["-o", str(tmp_path / "s.png")]) == 2
    assert "either --target or --data" in capsys.readouterr().err
