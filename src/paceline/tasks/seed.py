"""SEED-like family: four pictures, either a short clip moved by our own program or an album of four scenes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from PIL import Image

from paceline.tasks.material import BACKGROUNDS, Sprite, background, draw_slice, draw_sprites, place
from paceline.tasks.scene import Exchange, Slice, Split
from paceline.tasks.wording import Fact, Wording, exchange, fact, glued, joined, number

CELL = 32  # pixels
FRAMES = 4
SMALL, BIG = 20, 31  # sides of a sprite in pixels
PLACES = (
    *("top left", "top middle", "top right"),
    *("middle left", "center", "middle right"),
    *("bottom left", "bottom middle", "bottom right"),
)
MOVES = {"right": (0, 1), "left": (0, -1), "up": (-1, 0), "down": (1, 0)}
BACK = {"right": "left", "left": "right", "up": "down", "down": "up", "grow": "shrink", "shrink": "grow",
        "hide": "return", "return": "hide", "stay": "stay", "away": "away"}  # fmt: skip
PLAIN = {**{move: move for move in MOVES}, "grow": "grows", "shrink": "shrinks", "stay": "stays", "hide": "hides",
         "return": "returns", "away": "waits"}  # fmt: skip
COMPASS = {"right": "east", "left": "west", "up": "north", "down": "south", "grow": "bigger", "shrink": "smaller",
           "stay": "still", "hide": "gone", "return": "back", "away": "absent"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class State:
    """One actor in one frame; a hidden actor keeps its cell and its size."""

    cell: int
    big: bool
    shown: bool = True


@dataclass(frozen=True, slots=True)
class Actor:
    """A sprite with its state in every frame and the action that leads to each next one."""

    sprite: Sprite
    states: tuple[State, ...]
    actions: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of the thing."""
        return self.sprite.concept.name


@dataclass(frozen=True, slots=True)
class Page:
    """One picture of an album: its things by cell, in reading order, and its ground."""

    things: tuple[tuple[int, Sprite], ...]
    color: str


class Seed:
    """Four frames of 96 pixels as four pictures."""

    name = "seed"
    longest_edge = 96

    def draw(self, rng: random.Random, split: Split) -> tuple[Sequence[Image.Image], Sequence[Exchange], Slice]:
        """Four pictures and four exchanges of different kinds."""
        part = draw_slice(rng, split)
        if rng.random() < 0.25:
            pages = _album(rng, part)
            album_kinds = rng.sample(ALBUM_KINDS, 4)
            return [_paint_page(rng, page) for page in pages], [kind(rng, pages) for kind in album_kinds], part
        actors = _clip(rng, part)
        clip_kinds = rng.sample(CLIP_KINDS, 4)
        return _paint_clip(rng, actors), [kind(rng, actors) for kind in clip_kinds], part


# ---- clips ----------------------------------------------------------------------------------------------------------
def _clip(rng: random.Random, part: Slice) -> list[Actor]:
    sprites = draw_sprites(rng, part, rng.choice((2, 2, 2, 3)))
    while True:
        cells = rng.sample(range(9), len(sprites))
        tracks = [[State(cell, rng.random() < 0.6)] for cell in cells]
        actions: list[list[str]] = [[] for _ in sprites]
        for _ in range(FRAMES - 1):
            for own, (track, done) in enumerate(zip(tracks, actions, strict=True)):
                taken = {other[-1].cell for i, other in enumerate(tracks) if i != own}
                action, state = _act(rng, track[-1], taken)
                track.append(state)
                done.append(action)
        if all(any(state.big and state.shown for state in track) for track in tracks):  # small ones are hard to name
            actors = [Actor(s, tuple(t), tuple(a)) for s, t, a in zip(sprites, tracks, actions, strict=True)]
            return sorted(actors, key=lambda actor: actor.states[0].cell)  # answers name them in this order


def _act(rng: random.Random, state: State, taken: set[int]) -> tuple[str, State]:
    """The next action of an actor and where it leads."""
    if not state.shown:
        return ("return", replace(state, shown=True)) if rng.random() < 0.6 else ("away", state)
    row, column = divmod(state.cell, 3)
    options = {"stay": state, "shrink" if state.big else "grow": replace(state, big=not state.big)}
    for move, (down, right) in MOVES.items():
        there = 3 * (row + down) + column + right
        if 0 <= row + down < 3 and 0 <= column + right < 3 and there not in taken:
            options[move] = replace(state, cell=there)
    if rng.random() < 0.12:
        return "hide", replace(state, shown=False)
    names = list(options)
    action = rng.choices(names, [2 if name in MOVES else 1 for name in names])[0]
    return action, options[action]


def _paint_clip(rng: random.Random, actors: Sequence[Actor]) -> list[Image.Image]:
    color = rng.choice(list(BACKGROUNDS))
    frames = []
    for i in range(FRAMES):
        canvas = background(color, 3 * CELL, 3 * CELL)
        for actor in actors:
            state = actor.states[i]
            side = BIG if state.big else SMALL
            margin = (CELL - side) // 2
            if state.shown:
                place(canvas, actor.sprite, state.cell % 3 * CELL + margin, state.cell // 3 * CELL + margin, side)
        frames.append(canvas)
    return frames


def _size(state: State) -> str:
    return "big" if state.big else "small"


DIRECTIONS = (("", PLAIN), (" Say north, south, east and west.", COMPASS))
STEPS = (
    ("What happens from picture to picture?", "{name} {act}", ", ", "; ", "{all}."),
    ("Describe the clip step by step.", "{act} for the {name}", " and ", ". ", "{all}."),
    ("How do the things move?", "the {name} {act}", " while ", ", then ", "{all}."),
    ("Tell the story of the four pictures.", "{name}: {act}", " / ", " - ", "{all}."),
    ("What changes in each step?", "{act} {name}", " plus ", "; ", "changes: {all}."),
    ("Say what each thing does, step after step.", "{name} {act}", " and ", ", ", "{all}."),
    ("Watch the clip. What goes on?", "{name} {act}", " with ", ". ", "{all}."),
    ("Report all the moves in order.", "{act} ({name})", " ", ", ", "{all}."),
    ("What do you see happening?", "{name} - {act}", ", ", " / ", "{all}."),
)


def _steps(rng: random.Random, actors: Sequence[Actor]) -> Exchange:
    question, item, inner, outer, answer = rng.choice(STEPS)
    return _told(rng, "steps", question, item, inner, outer, answer, actors, [actor.actions for actor in actors])


BACKWARD = (
    ("Play the pictures backward. What happens?", "{name} {act}", ", ", "; ", "{all}."),
    ("Tell the story from the end to the start.", "{act} for the {name}", " and ", ". ", "{all}."),
    ("If time ran backward, what would we see?", "the {name} {act}", " while ", ", then ", "{all}."),
    ("Undo each step, the last one first.", "{name}: {act}", " / ", " - ", "undo: {all}."),
    ("Describe the clip in reverse.", "{act} {name}", " plus ", "; ", "{all}."),
    ("Go from the fourth picture back to the first.", "{name} {act}", " and ", ", ", "{all}."),
    ("Rewind the clip.", "{name} {act}", " with ", ". ", "{all}."),
    ("What are the moves in reverse order?", "{act} ({name})", " ", ", ", "{all}."),
)


def _backward(rng: random.Random, actors: Sequence[Actor]) -> Exchange:
    question, item, inner, outer, answer = rng.choice(BACKWARD)
    undone = [tuple(BACK[action] for action in reversed(actor.actions)) for actor in actors]
    return _told(rng, "backward", question, item, inner, outer, answer, actors, undone)


def _told(
    rng: random.Random, kind: str, question: str, item: str, inner: str, outer: str, answer: str,
    actors: Sequence[Actor], actions: Sequence[Sequence[str]],
) -> Exchange:  # fmt: skip
    clause, names = rng.choice(DIRECTIONS)
    steps = [
        joined(
            [
                glued(item, name=fact(actor.name), act=fact(names[acts[i]]))
                for actor, acts in zip(actors, actions, strict=True)
            ],
            inner,
        )
        for i in range(FRAMES - 1)
    ]
    return exchange(kind, Wording(question + clause, answer), {"all": joined(steps, outer)})


TRACKS = (
    ("Where is each thing in the four pictures?", "{name}: {states}", "{place}", ", ", "; ", "{all}."),
    ("Follow each thing through the pictures.", "{name} {states}", "{place}", " then ", ". ", "{all}."),
    (
        "Give place and size of each thing in the four pictures.",
        "{name} {states}",
        "{place} {size}",
        ", ",
        "; ",
        "{all}.",
    ),
    (
        "List size and place of each thing, picture by picture.",
        "{name}: {states}",
        "{size} {place}",
        " / ",
        ". ",
        "{all}.",
    ),
    ("Which places does each thing visit?", "{states} for the {name}", "{place}", " and ", ", ", "{all}."),
    ("Trace the ways of all things.", "{name} way: {states}", "{place}", " to ", "; ", "{all}."),
    ("Where and how large are the things over time?", "{states} ({name})", "{place} {size}", " + ", ", ", "{all}."),
    (
        "Note for each thing size and place in every picture.",
        "{states} - {name}",
        "{size} {place}",
        ", ",
        ". ",
        "{all}.",
    ),
)


def _tracks(rng: random.Random, actors: Sequence[Actor]) -> Exchange:
    question, item, state_form, inner, outer, answer = rng.choice(TRACKS)
    parts = []
    for actor in actors:
        states = [
            glued(state_form, place=fact(PLACES[s.cell]), size=fact(_size(s))) if s.shown else fact("hidden")
            for s in actor.states
        ]
        parts.append(glued(item, name=fact(actor.name), states=joined(states, inner)))
    return exchange("tracks", Wording(question, answer), {"all": joined(parts, outer)})


SHOTS = (
    ("Describe pictures {one} and {two}.", "{size} {name} {place}", ", ", "{first}; {second}."),
    (
        "What do pictures {one} and {two} show?",
        "{name} {place} {size}",
        " and ",
        "{first} in {one}, {second} in {two}.",
    ),
    ("List everything in picture {one}, then in picture {two}.", "{place} {size} {name}", ", ", "{first}. {second}."),
    ("Compare picture {one} with picture {two}.", "{size} {name} {place}", " plus ", "{first} against {second}."),
    ("Give all details of pictures {one} and {two}.", "{name}: {size}, {place}", "; ", "{first} / {second}."),
    ("Stop the clip at {one} and at {two}. What is shown?", "{place} {name}, {size}", " and ", "{first}; {second}."),
    (
        "First tell me about picture {one}, then about {two}.",
        "{name} {size} {place}",
        " with ",
        "{first}, then {second}.",
    ),
    ("Read picture {one} and picture {two}.", "{size} {place} {name}", " / ", "{first} - {second}."),
)


def _shots(rng: random.Random, actors: Sequence[Actor]) -> Exchange:
    question, item, inner, answer = rng.choice(SHOTS)
    chosen = rng.sample(range(FRAMES), 2)
    read = []
    for i in chosen:
        seen = sorted((a for a in actors if a.states[i].shown), key=lambda actor: actor.states[i].cell)
        things = [
            glued(item, size=fact(_size(a.states[i])), name=fact(a.name), place=fact(PLACES[a.states[i].cell]))
            for a in seen
        ]
        read.append(joined(things or [fact("nothing")], inner))
    fields = {"one": chosen[0] + 1, "two": chosen[1] + 1, "first": read[0], "second": read[1]}
    return exchange("shots", Wording(question, answer), fields)


ENDS = (
    ("Compare the first and the last picture.", "{name}: {moves}, {size}", "; ", "{starts}; {all}."),
    ("What is different at the end?", "the {name} {moves} and {size}", ", ", "{all}; start: {starts}."),
    ("How far did the things get, and how large are they now?", "{name} {moves}, now {size}", ". ", "{starts}. {all}."),
    ("Sum up the whole clip.", "{moves} for the {size} {name}", "; ", "from {starts}: {all}."),
    ("Where did the things end up, seen from their start?", "{size} {name} {moves}", ", ", "{starts} - {all}."),
    ("Give the change from start to end.", "{name} ({size}): {moves}", " / ", "{all}, once {starts}."),
    ("After four pictures, what has become of the things?", "{moves} - {size} {name}", " and ", "{starts} / {all}."),
    ("Tell only the start, the total move and the final size.", "{size}, {moves} ({name})", "; ", "{starts}; {all}."),
)


def _ends(rng: random.Random, actors: Sequence[Actor]) -> Exchange:
    question, item, outer, answer = rng.choice(ENDS)
    parts = []
    for actor in actors:
        first, last = actor.states[0], actor.states[-1]
        size = _size(last) if last.shown else "hidden"
        parts.append(glued(item, name=fact(actor.name), moves=_moves(first.cell, last.cell), size=fact(size)))
    starts = [glued("{name} {place}", name=fact(a.name), place=fact(PLACES[a.states[0].cell])) for a in actors]
    fields = {"all": joined(parts, outer), "starts": joined(starts, ", ")}
    return exchange("ends", Wording(question, answer), fields)


def _moves(here: int, there: int) -> Fact:
    down, right = there // 3 - here // 3, there % 3 - here % 3
    parts = []
    if down:
        parts.append(fact(f"{number(abs(down))} {'down' if down > 0 else 'up'}"))
    if right:
        parts.append(fact(f"{number(abs(right))} {'right' if right > 0 else 'left'}"))
    return joined(parts or [fact("same place")], " ")


CLIP_KINDS: tuple[Callable[[random.Random, Sequence[Actor]], Exchange], ...] = (
    _steps, _backward, _tracks, _shots, _ends)  # fmt: skip


# ---- albums ---------------------------------------------------------------------------------------------------------
def _album(rng: random.Random, part: Slice) -> list[Page]:
    sprites = draw_sprites(rng, part, 10)
    shared = sprites[0]
    colors = rng.sample(list(BACKGROUNDS), FRAMES)
    homes = rng.sample(range(FRAMES), 2)  # the pictures that share one thing
    own = iter(sprites[1:])
    pages = []
    for i in range(FRAMES):
        things = [next(own) for _ in range(2)] + ([shared] if i in homes else [])
        cells = rng.sample(range(9), len(things))
        pages.append(Page(tuple(sorted(zip(cells, things, strict=True), key=lambda pair: pair[0])), colors[i]))
    return pages


def _paint_page(rng: random.Random, page: Page) -> Image.Image:
    canvas = background(page.color, 3 * CELL, 3 * CELL)
    for cell, sprite in page.things:
        side = rng.choice((26, 28, 30))
        x, y = (at * CELL + rng.randint(0, CELL - side) for at in (cell % 3, cell // 3))
        place(canvas, sprite, x, y, side)
    return canvas


CONTENTS = (
    ("What does each of the four pictures show?", "{things}", "{name}", " and ", "; ", "{all}."),
    ("Describe the four pictures one by one.", "{things} on {color}", "{name}", ", ", ". ", "{all}."),
    ("Name color and things of each picture.", "{color}: {things}", "{name}", ", ", "; ", "{all}."),
    ("Where are the things in each picture?", "{things}", "{name} {place}", " and ", ". ", "{all}."),
    ("Give places first, picture by picture.", "{things}", "{place} {name}", ", ", "; ", "{all}."),
    ("List the album.", "{things} - {color}", "{name}", " plus ", ", ", "album: {all}."),
    (
        "Look at all four pictures and tell me everything.",
        "{color} with {things}",
        "{name} {place}",
        " and ",
        ". ",
        "{all}.",
    ),
    ("Read the pictures in order.", "{color} / {things}", "{name}", " / ", "; ", "{all}."),
)


def _contents(rng: random.Random, pages: Sequence[Page]) -> Exchange:
    question, item, thing, inner, outer, answer = rng.choice(CONTENTS)
    parts = []
    for page in pages:
        things = [glued(thing, name=fact(s.concept.name), place=fact(PLACES[cell])) for cell, s in page.things]
        parts.append(glued(item, things=joined(things, inner), color=fact(page.color)))
    return exchange("contents", Wording(question, answer), {"all": joined(parts, outer)})


FINDS = (
    ("Which pictures show the {asked}?", "{name} {page} {place}", ", ", "{all}."),
    ("Find the {asked}.", "{name}: {place}, {page}", "; ", "{all}."),
    ("In which picture and where are the {asked}?", "{page} {place} {name}", " and ", "{all}."),
    ("I am looking for the {asked}.", "{place} in {page}: {name}", ". ", "{all}."),
    ("Tell me the picture number of the {asked}.", "{page} {name} {place}", " / ", "{all}."),
    ("Where can the {asked} be seen?", "{name} in {page} {place}", ", ", "{all}."),
    ("Point to the {asked}.", "{page}, {place}, {name}", "; ", "{all}."),
    ("Search the album for the {asked}.", "{place} {page} for {name}", " then ", "found {all}."),
)


def _finds(rng: random.Random, pages: Sequence[Page]) -> Exchange:
    question, item, outer, answer = rng.choice(FINDS)
    shown = [(i + 1, cell, sprite) for i, page in enumerate(pages) for cell, sprite in page.things]
    names = [sprite.concept.name for _, _, sprite in shown]
    chosen = rng.sample([entry for entry in shown if names.count(entry[2].concept.name) == 1], rng.choice((4, 5)))
    parts = [
        glued(item, name=fact(sprite.concept.name), page=fact(page), place=fact(PLACES[cell]))
        for page, cell, sprite in chosen
    ]
    asked = joined([sprite.concept.name for _, _, sprite in chosen], ", ", " and ").text
    return exchange("finds", Wording(question, answer), {"asked": asked, "all": joined(parts, outer)})


COLORS = (
    (
        "Which thing is in two pictures? What else is in them, and on what color?",
        "{name} in {page}",
        "{all}, on {colors}.",
    ),
    ("Two pictures share a thing. Name it, its company and the grounds.", "{page} has {name}", "{all}; {colors}."),
    ("What appears twice?", "{page}: {name}", "{all} / {colors}."),
    ("Find the thing that comes again.", "{name} ({page})", "again {all}. {colors}."),
    ("Which thing repeats, with what beside it?", "{name} - {page}", "{colors}: {all}."),
    ("Name the doubled thing, its neighbors and the two colors.", "{name} {page}", "{all} and {colors}."),
    ("What do two of the pictures have in common?", "{page} {name}", "{colors} share {all}."),
    ("Spot the same thing in two pictures.", "{name}, {page}", "{colors} show {all}."),
)


def _shared(rng: random.Random, pages: Sequence[Page]) -> Exchange:
    question, item, answer = rng.choice(COLORS)
    names = [[sprite.concept.name for _, sprite in page.things] for page in pages]
    homes = [i for i in range(FRAMES) if any(sum(name in other for other in names) == 2 for name in names[i])]
    double = next(name for name in names[homes[0]] if name in names[homes[1]])
    rows = [
        glued(
            item,
            page=fact(i + 1),
            name=joined([fact(name) for name in [double, *(n for n in names[i] if n != double)]], ", "),
        )
        for i in homes
    ]
    colors = joined([fact(pages[i].color) for i in homes], " and ")
    return exchange("shared", Wording(question, answer), {"all": joined(rows, ", "), "colors": colors})


PAIRS = (
    ("Read pictures {one} and {two}.", "{color} {things}", "{name} {place}", ", ", "; ", "{all}."),
    ("Compare pictures {one} and {two}.", "{things} on {color}", "{name} {place}", " and ", " against ", "{all}."),
    ("Describe picture {one}, then picture {two}.", "{color}: {things}", "{place} {name}", ", ", ". ", "{all}."),
    ("What is in {one} and what is in {two}?", "{things}, {color}", "{name} {place}", " and ", "; ", "{all}."),
    ("Tell me the details of {one} and {two}.", "{color} / {things}", "{place} {name}", " / ", ", ", "{all}."),
    ("Open the album at {one}, then at {two}.", "{things} ({color})", "{name} {place}", ", ", " then ", "{all}."),
    ("Show me {one} and {two} only.", "{things} - {color}", "{place} {name}", " with ", "; ", "{all}."),
    ("List {one} and after it {two}.", "{color} with {things}", "{name} {place}", " plus ", ", ", "{all}."),
)


def _pairs(rng: random.Random, pages: Sequence[Page]) -> Exchange:
    question, item, thing, inner, outer, answer = rng.choice(PAIRS)
    chosen = rng.sample(range(FRAMES), 2)
    parts = []
    for i in chosen:
        things = [glued(thing, name=fact(s.concept.name), place=fact(PLACES[cell])) for cell, s in pages[i].things]
        parts.append(glued(item, things=joined(things, inner), color=fact(pages[i].color)))
    fields = {"one": chosen[0] + 1, "two": chosen[1] + 1, "all": joined(parts, outer)}
    return exchange("pairs", Wording(question, answer), fields)


ALBUM_KINDS: tuple[Callable[[random.Random, Sequence[Page]], Exchange], ...] = (_contents, _finds, _shared, _pairs)
