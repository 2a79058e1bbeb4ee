"""Material: which concept may be shown where, and that the sprites are pictures of their own."""

from __future__ import annotations

import random

import pytest

from paceline.tasks.material import (
    BACKGROUNDS,
    STYLES,
    Sprite,
    background,
    categories,
    concepts,
    draw_slice,
    draw_sprites,
    place,
)
from paceline.tasks.scene import Slice


def shown(part: Slice) -> set[tuple[str, str]]:
    return {(c.name, style) for c in concepts() for style in c.styles(part)}


def test_training_never_sees_held_out_material() -> None:
    held = {(c.name, s) for c in concepts() for s in STYLES if s not in c.styles("seen")}
    drawn = {
        (sprite.concept.name, sprite.style)
        for seed in range(400)
        for sprite in draw_sprites(random.Random(seed), draw_slice(random.Random(seed), "train"), 6)
    }
    assert len(held) > 40
    assert not drawn & held
    assert len(drawn) > 0.9 * len(shown("seen"))


@pytest.mark.parametrize("part", ["style", "new"])
def test_a_slice_shows_its_own_material(part: Slice) -> None:
    own = shown(part) - shown("seen")
    for seed in range(200):
        sprites = draw_sprites(random.Random(seed), part, 4)
        assert sum((s.concept.name, s.style) in own for s in sprites) >= 2, sprites
    assert own
    assert not own & (shown("style" if part == "new" else "new") - shown("seen"))


def test_every_category_has_material_of_every_slice() -> None:
    for category in categories():
        for part in ("style", "new"):
            sprite = next(
                s for s in draw_sprites(random.Random(1), part, 4, category) if s.style not in s.concept.styles("seen")
            )
            assert sprite.concept.category == category


def test_sprites_of_one_scene_are_of_distinct_concepts() -> None:
    for seed in range(100):
        names = [s.concept.name for s in draw_sprites(random.Random(seed), "seen", 30)]
        assert len(set(names)) == 30


def test_names_are_unique_and_articles_right() -> None:
    names = [c.name for c in concepts()]
    assert len(set(names)) == len(names)
    by_name = {c.name: c for c in concepts()}
    assert by_name["apple"].article == "an"
    assert by_name["dog"].article == "a"
    assert by_name["leaf"].count(2) == "leaves"
    assert by_name["leaf"].count(1) == "leaf"


def test_no_two_sprites_are_equal_or_empty() -> None:
    pictures = [Sprite(c, style).image(28).tobytes() for c in concepts() for style in STYLES]
    assert len(set(pictures)) == len(pictures)
    for concept in concepts():
        for style in STYLES:
            low, high = Sprite(concept, style).image(28).getchannel("A").getextrema()
            assert high > 200, (concept.name, style)
            assert low < 200, (concept.name, style)


def test_a_scaled_sprite_is_the_same_object_and_drawing_leaves_it_alone() -> None:
    sprite = Sprite(concepts()[0], "noto")
    before = sprite.image(28).tobytes()
    place(background("pink", 96, 96), sprite, 10, 10, 28)
    assert sprite.image(28) is sprite.image(28)
    assert sprite.image(28).tobytes() == before


def test_a_background_is_a_fresh_canvas() -> None:
    first = background("blue", 96, 96)
    first.paste((0, 0, 0), (0, 0, 96, 96))
    assert background("blue", 96, 96).getpixel((0, 0)) == BACKGROUNDS["blue"][0]


def test_test_scenes_are_mostly_seen() -> None:
    parts = [draw_slice(random.Random(seed), "test") for seed in range(2000)]
    assert 0.8 < parts.count("seen") / len(parts) < 0.9
    assert parts.count("style") > 100
    assert parts.count("new") > 100
    assert {draw_slice(random.Random(seed), "val") for seed in range(200)} == {"seen"}
