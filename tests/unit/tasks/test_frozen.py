"""What the bundled target was trained on stays what it was: texts and pictures of the first scenes of each family."""

from __future__ import annotations

import functools
import hashlib
import subprocess
import sys

import PIL
import pytest

from paceline.tasks import FAMILIES, SIX, family, prompts, scene
from paceline.tasks.ngram import plain_tokens
from paceline.tasks.scene import Scene, Split
from paceline.tasks.scoring import item_accuracy

DRAWN_WITH = "13.0.0"  # Pillow's version; another one may scale and letter differently by a hair
FROZEN = {  # family -> (digest of texts, digest of pictures) of scenes 0-49 of train and of test
    "mmt": ("eef9efbd04ddee69", "0fd0f8ef5aa1d406"),
    "seed": ("07ea29003a96e4de", "c0bd4d473f4d3aaf"),
    "science": ("8a4b1b434f2389a9", "3a4ff15bf81310e2"),
    "ocr": ("7b2822d86d26242d", "5068ffac1e240f0c"),
    "chart": ("0b7cde7a0ab0abff", "b4a1a4054b81a8e4"),
    "math": ("61e7ef4c36c313c2", "c2e039a77305e62f"),
    "long": ("d77460215d931a57", "5e24410fca799182"),
    "human": ("14ecca87ee391e5b", "fe66639cfba9875f"),
}
LENGTHS = {"long": (150, 400)}  # tokens of an answer; all other families: 6 to 80


@functools.cache
def shown(task: str, split: Split, index: int) -> Scene:
    """The scene, drawn once for all tests of this file."""
    return scene(task, split, index)


def digests(scenes: list[Scene]) -> tuple[str, str]:
    texts, pictures = hashlib.sha256(), hashlib.sha256()
    for drawn in scenes:
        for made in drawn.exchanges:
            texts.update(repr((made.kind, made.question, made.answer, made.items)).encode())
        for picture in drawn.images:
            pictures.update(picture.tobytes())
    return texts.hexdigest()[:16], pictures.hexdigest()[:16]


def first_scenes(task: str) -> list[Scene]:
    return [shown(task, split, index) for split in ("train", "test") for index in range(50)]


@pytest.mark.parametrize("task", sorted(FROZEN))
def test_the_first_scenes_are_frozen(task: str) -> None:
    texts, pictures = digests(first_scenes(task))
    assert texts == FROZEN[task][0]
    if PIL.__version__ == DRAWN_WITH:
        assert pictures == FROZEN[task][1]


def test_scenes_do_not_depend_on_the_process() -> None:
    code = (
        "import hashlib, sys; from paceline.tasks import FAMILIES, scene; d = hashlib.sha256()\n"
        "for task in FAMILIES:\n"
        "    s = scene(task, 'test', 7); d.update(repr(s.exchanges).encode())\n"
        "    for picture in s.images: d.update(picture.tobytes())\n"
        "print(d.hexdigest())"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(told) == 1


@pytest.mark.parametrize("task", sorted(FAMILIES))
def test_answers_hold_their_items_and_keep_their_length(task: str) -> None:
    low, high = LENGTHS.get(task, (6, 80))
    for drawn in [shown(task, split, index) for split in ("train", "val", "test") for index in range(25)]:
        assert 1 <= len(drawn.exchanges) <= 5
        assert all(picture.mode == "RGB" for picture in drawn.images)
        assert all(max(picture.size) == drawn.longest_edge for picture in drawn.images)
        for made in drawn.exchanges:
            assert made.items
            assert item_accuracy(made.answer, made.items) == 1.0, made
            assert low <= len(plain_tokens(made.answer)) <= high, made
            assert "{" not in made.question + made.answer
            assert "  " not in made.question + made.answer
            assert not made.answer[0].islower(), made


@pytest.mark.parametrize("task", sorted(FAMILIES))
def test_splits_show_different_scenes(task: str) -> None:
    answers = {
        split: {made.answer for index in range(25) for made in shown(task, split, index).exchanges}
        for split in ("train", "val", "test")
    }
    if task != "human":  # glosses are a closed set: their pictures differ, their texts may come again
        assert len(answers["train"] & answers["test"]) <= 0.05 * len(answers["test"])
        assert len(answers["train"] & answers["val"]) <= 0.05 * len(answers["val"])


@pytest.mark.parametrize("task", sorted(FAMILIES))
def test_train_and_val_show_seen_material_alone(task: str) -> None:
    assert {shown(task, split, index).slice for split in ("train", "val") for index in range(25)} == {"seen"}
    assert "seen" != {shown(task, "test", index).slice for index in range(70)} > {"seen"}


def test_prompts_take_one_exchange_a_scene_and_vary_the_kind() -> None:
    samples = prompts("mmt", "test", 12)
    assert [sample.index for sample in samples] == list(range(12))
    assert len({sample.exchange.kind for sample in samples}) >= 4
    assert all(sample.exchange in scene("mmt", "test", sample.index).exchanges for sample in samples)


def test_the_six_are_families_and_an_unknown_one_names_the_nearest() -> None:
    assert set(SIX) < set(FAMILIES)
    assert all(family(task).name == task for task in FAMILIES)
    with pytest.raises(ValueError, match="did you mean 'chart'"):
        scene("charts", "test", 0)
    with pytest.raises(ValueError, match="unknown split"):
        scene("chart", "dev", 0)  # type: ignore[arg-type]
