"""The clip family: moves lead from state to state, albums hold what is told, pictures differ where they should."""

from __future__ import annotations

import random

import pytest

from paceline.tasks import seed

CLIPS = [seed._clip(random.Random(i), "seen") for i in range(60)]
ALBUMS = [seed._album(random.Random(i), "seen") for i in range(30)]


@pytest.mark.parametrize("actors", CLIPS[:30])
def test_every_action_leads_to_the_next_state(actors: list[seed.Actor]) -> None:
    steps = {"right": 1, "left": -1, "up": -3, "down": 3}
    for actor in actors:
        for before, action, after in zip(actor.states, actor.actions, actor.states[1:], strict=False):
            assert after.cell - before.cell == steps.get(action, 0)
            assert (after.big != before.big) == (action in ("grow", "shrink"))
            assert after.shown == (action not in ("hide", "away"))
            assert after.big or action != "grow"


@pytest.mark.parametrize("actors", CLIPS)
def test_actors_never_share_a_cell_and_are_large_somewhere(actors: list[seed.Actor]) -> None:
    for frame in range(seed.FRAMES):
        cells = [actor.states[frame].cell for actor in actors]
        assert len(set(cells)) == len(cells)
    for actor in actors:
        assert actor.states[0].shown
        assert any(state.big and state.shown for state in actor.states)
    assert [a.states[0].cell for a in actors] == sorted(a.states[0].cell for a in actors)


def test_backward_of_backward_is_forward() -> None:
    assert all(seed.BACK[seed.BACK[action]] == action for action in seed.BACK)
    assert set(seed.PLAIN) == set(seed.BACK) == set(seed.COMPASS)
    assert len(set(seed.PLAIN.values())) == len(seed.PLAIN)
    assert len(set(seed.COMPASS.values())) == len(seed.COMPASS)


@pytest.mark.parametrize("actors", CLIPS[:20])
def test_told_actions_are_those_of_the_clip(actors: list[seed.Actor]) -> None:
    names = {actor.name for actor in actors}
    for i in range(20):
        made = seed._steps(random.Random(i), actors)
        words = seed.COMPASS if "north" in made.question else seed.PLAIN
        told = [item for item in made.items if item not in names]
        assert told == [words[actor.actions[step]] for step in range(3) for actor in actors]
        back = seed._backward(random.Random(i), actors)
        words = seed.COMPASS if "north" in back.question else seed.PLAIN
        told = [item for item in back.items if item not in names]
        assert told == [words[seed.BACK[actor.actions[step]]] for step in (2, 1, 0) for actor in actors]


@pytest.mark.parametrize("actors", CLIPS[:20])
def test_a_frame_differs_from_the_next_exactly_when_something_happens(actors: list[seed.Actor]) -> None:
    frames = seed._paint_clip(random.Random(0), actors)
    for i in range(seed.FRAMES - 1):
        happened = any(actor.actions[i] not in ("stay", "away") for actor in actors)
        assert (frames[i].tobytes() != frames[i + 1].tobytes()) == happened


@pytest.mark.parametrize("pages", ALBUMS)
def test_one_thing_alone_is_in_two_pictures(pages: list[seed.Page]) -> None:
    names = [sprite.concept.name for page in pages for _, sprite in page.things]
    twice = {name for name in names if names.count(name) == 2}
    assert len(twice) == 1
    assert max(map(names.count, names)) == 2
    told = seed._shared(random.Random(0), pages)
    assert told.items.count(next(iter(twice))) == 2


@pytest.mark.parametrize("pages", ALBUMS)
def test_found_things_are_where_they_are_said_to_be(pages: list[seed.Page]) -> None:
    at = {s.concept.name: (str(i + 1), seed.PLACES[cell]) for i, p in enumerate(pages) for cell, s in p.things}
    for i in range(10):
        items = seed._finds(random.Random(i), pages).items
        for three in zip(items[::3], items[1::3], items[2::3], strict=True):
            name = next(item for item in three if item in at)
            assert set(three) == {name, *at[name]}
