"""Loaders: caption lists in the formats of MS-COCO and PartiPrompts, clip folders in the layout of RealEstate10k."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from paceline.bench.visual import clips, prompts
from paceline.bench.visual.prompts import Caption
from paceline.errors import UsageError

PARTI = (
    "Prompt\tCategory\tChallenge\tNote\n"
    'a "quoted" fox\tAnimals\tBasic\t\n'
    "bond\tAbstract\tBasic\tBiology-inspired concepts, with a tab-free note\n"
)


def test_coco_gives_one_caption_a_picture(tmp_path: Path) -> None:
    document = {
        "info": {"year": 2017},
        "images": [{"id": 9, "file_name": "000000000009.jpg"}, {"id": 4, "file_name": "000000000004.jpg"}],
        "annotations": [
            {"id": 31, "image_id": 9, "caption": "Later words."},
            {"id": 30, "image_id": 9, "caption": "A plate of\n food. "},
            {"id": 77, "image_id": 4, "caption": "Two dogs."},
        ],
    }
    path = tmp_path / "captions_val2017.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert prompts.read(path) == [
        Caption("Two dogs.", "", "000000000004.jpg"),
        Caption("A plate of food.", "", "000000000009.jpg"),
    ]
    assert len(prompts.read(path, limit=1)) == 1


def test_parti_keeps_quotes_and_categories(tmp_path: Path) -> None:
    path = tmp_path / "PartiPrompts.tsv"
    path.write_text(PARTI, encoding="utf-8")
    assert prompts.read(path) == [Caption('a "quoted" fox', "Animals"), Caption("bond", "Abstract")]


def test_other_files_hold_a_caption_a_line(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("red apple\n\n  blue car \n", encoding="utf-8")
    assert [caption.text for caption in prompts.read(path)] == ["red apple", "blue car"]


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("a.json", '{"images": []}', "not captions in the format of MS-COCO"),
        ("a.json", "[1, 2", "not captions in the format of MS-COCO"),
        ("a.json", '{"images": [], "annotations": []}', "holds no captions"),
        ("a.tsv", "Text\tKind\n1\t2\n", "no column 'Prompt'"),
        ("a.txt", "\n", "holds no captions"),
    ],
)
def test_files_of_another_shape_are_refused(tmp_path: Path, name: str, text: str, wrong: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=wrong):
        prompts.read(tmp_path / name)
    with pytest.raises(UsageError, match="no such file"):
        prompts.read(tmp_path / "missing.txt")


def test_own_captions_are_told_apart_by_part() -> None:
    for frames in (1, 8):
        seen, unseen = (prompts.own(frames, part, 5) for part in prompts.PARTS)
        assert {caption.part for caption in seen} == {"seen"}
        assert {caption.part for caption in unseen} == {"unseen"}
        assert prompts.own(frames, "seen", 2) == seen[:2]


def line(stamp: int, shift: float) -> str:
    pose = [1, 0, 0, shift, 0, 1, 0, 0, 0, 0, 1, 0]
    return " ".join(map(str, [stamp, 0.5, 0.9, 0.5, 0.5, 0, 0, *pose]))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "test").mkdir()
    for name in ("b1", "a0"):
        text = "\n".join([f"address/of/{name}", *(line(1000 * i, i / 8) for i in range(4))])
        (tmp_path / "test" / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
    frames = tmp_path / "frames" / "test" / "a0"
    frames.mkdir(parents=True)
    for i in range(3):
        Image.new("RGB", (24, 12), (i * 50, 0, 0)).save(frames / f"{1000 * i}.png")
    return tmp_path


def test_clips_come_with_cameras_and_the_frames_on_disk(root: Path) -> None:
    first, second = clips.real_estate(root)
    assert (first.name, first.source, second.name) == ("a0", "address/of/a0", "b1")
    assert first.stamps == (0, 1000, 2000, 3000)
    assert first.intrinsics.tolist() == [[0.5, 0.9, 0.5, 0.5]] * 4
    assert first.poses.shape == (4, 3, 4)
    assert first.poses[2, 0, 3] == 0.25
    assert [frame is not None for frame in first.frames] == [True, True, True, False]
    assert set(second.frames) == {None}


def test_pixels_are_square_frames_in_order(root: Path) -> None:
    [clip, bare] = clips.real_estate(root)
    pixels = clip.pixels(1, 2, 8)
    assert pixels.shape == (2, 8, 8, 3)
    assert pixels.dtype == np.uint8
    assert [int(frame[4, 4, 0]) for frame in pixels] == [50, 100]
    with pytest.raises(UsageError, match="frame 3000 is not on disk"):
        clip.pixels(2, 2, 8)
    with pytest.raises(UsageError, match="has 4 frames; 5 are needed"):
        bare.pixels(3, 2, 8)


def test_folders_of_another_layout_are_refused(root: Path) -> None:
    with pytest.raises(UsageError, match="holds no clips"):
        clips.real_estate(root, "train")
    (root / "test" / "c.txt").write_text("address\n1 2 3\n", encoding="utf-8")
    with pytest.raises(UsageError, match="must hold 19 numbers"):
        list(clips.real_estate(root))
