"""Pictures and clips by number: deterministic, true to their captions, and unseen means unseen."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

from paceline.pictures import clips
from paceline.pictures.captions import STEP, caption, captioned
from paceline.pictures.clips import FLICKER, clip
from paceline.pictures.drawing import HUES, Placed, backdrop, paint
from paceline.tasks.material import Sprite, concepts

NAMES = sorted((c.name for c in concepts()), key=len, reverse=True)
PLURALS = {c.plural: c.name for c in concepts()}


def shown(caption: str) -> set[str]:
    """The things that a caption names."""
    words = re.sub(r" on an? (\w+ )?\w+ background", "", caption)
    words = re.sub(rf"\borange (?=({'|'.join([*NAMES, *PLURALS])})\b)", "", words)  # the colour, not the fruit
    named = {name for name in NAMES if re.search(rf"\b{name}\b", words)}
    named |= {PLURALS[plural] for plural in PLURALS if re.search(rf"\b{plural}\b", words)}
    return {name for name in named if not any(name != other and name in other for other in named)}


@pytest.mark.parametrize("draw", [captioned, clip])
def test_equal_numbers_give_equal_pixels(draw) -> None:  # type: ignore[no-untyped-def]
    first, again, other = draw("train", 5), draw("train", 5), draw("seen", 5)
    assert first.caption == again.caption
    assert (first.pixels == again.pixels).all()
    assert first.caption != other.caption or (first.pixels != other.pixels).any()


def test_every_picture_of_training_is_another_one() -> None:
    assert len({captioned("train", index).pixels.tobytes() for index in range(150)}) == 150


@pytest.mark.parametrize(("words", "draw"), [(caption, captioned), (clips.caption, clip)])
def test_a_caption_alone_is_that_of_the_pixels(words, draw) -> None:  # type: ignore[no-untyped-def]
    assert [words("unseen", index) for index in range(4)] == [draw("unseen", index).caption for index in range(4)]


def test_captions_name_what_is_drawn_and_vary() -> None:
    captions = [caption("train", index) for index in range(400)]
    assert all(1 <= len(shown(text)) <= 2 for text in captions)
    assert len(set(captions)) > 380


@pytest.mark.parametrize("draw", [captioned, clip])
def test_what_is_unseen_never_occurs_in_training(draw) -> None:  # type: ignore[no-untyped-def]
    assert all(draw("train", index).seen and draw("seen", index).seen for index in range(60))
    assert not any(draw("unseen", index).seen for index in range(60))


def test_a_held_out_style_never_occurs_in_training() -> None:
    """Seen from outside: the single things in a style that "unseen" names and "train" never does, over many draws."""

    def singles(part: str, count: int) -> set[tuple[str, str]]:
        found = set()
        for text in (caption(part, index) for index in range(count)):  # type: ignore[arg-type]
            if text.endswith((", noto", ", fluent")) and not any(hue in text.split(" on ")[0] for hue in HUES):
                found |= {(name, text.rpartition(", ")[2]) for name in shown(text) if len(shown(text)) == 1}
        return found

    assert len(singles("unseen", 400)) > 10
    assert not singles("unseen", 400) & singles("train", 1500)


def test_things_stand_on_the_grid_of_patches() -> None:
    """A thing's codes are the same wherever it stands: moved by whole patches, it is drawn with the same pixels."""
    sprite, canvas = Sprite(concepts()[34], "noto"), np.full((64, 64, 3), 255.0, np.float32)
    here, there = (paint(canvas, (Placed(sprite, 32, x, 8),)) for x in (4, 4 + 3 * STEP))
    assert (here[:, :40] == there[:, 3 * STEP : 40 + 3 * STEP]).all()
    assert (here != 255).any()


def test_a_tint_moves_the_hue_and_keeps_the_shape() -> None:
    sprite, canvas = Sprite(concepts()[34], "noto"), np.full((64, 64, 3), 255.0, np.float32)
    own, blue = (paint(canvas, (Placed(sprite, 60, 0, 0, tint),)).astype(int) for tint in (None, "blue"))
    assert own[30, 30, 0] > own[30, 30, 2] + 60  # a red apple
    assert blue[30, 30, 2] > blue[30, 30, 0] + 60
    assert ((own == 255).all(-1) == (blue == 255).all(-1)).mean() > 0.97


def test_patterns_and_mottle_depend_on_their_stream_alone() -> None:
    one, two, three = (backdrop("blue", "checked", 64, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (one == two).all()
    assert (one != three).any()


def test_a_clip_is_a_still_background_under_things_that_move() -> None:
    def words(index: int) -> str:
        return clips.caption("train", index)

    fast = next(i for i in range(200) if "fast" in words(i) and " and " not in words(i))
    standing = next(i for i in range(200) if "standing still" in words(i) and " and " not in words(i))
    moving, still = clip("train", fast), clip("train", standing)
    assert moving.pixels.shape == (8, 32, 32, 3)

    def change(frames: np.ndarray) -> float:
        return float(np.mean([np.abs(a.astype(int) - b).mean() for a, b in pairwise(frames)]))

    assert 0 < change(still.pixels) < 3 * FLICKER < change(moving.pixels)
