"""MMT-like family: things on a 3 x 3 grid are listed, counted, located, connected, sorted and told apart."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from PIL import Image

from paceline.tasks.material import BACKGROUNDS, Concept, Sprite, background, draw_slice, draw_sprites, place
from paceline.tasks.scene import Exchange, Slice, Split
from paceline.tasks.wording import Fact, Wording, a, ask, exchange, fact, glued, joined, number

CELL = 32  # pixels; exactly 2 x 2 visual tokens
PLACES = (
    *("top left", "top middle", "top right"),
    *("middle left", "center", "middle right"),
    *("bottom left", "bottom middle", "bottom right"),
)
UPPER = (
    *("upper left", "upper center", "upper right"),
    *("far left", "very center", "far right"),
    *("lower left", "lower center", "lower right"),
)
PLURALS = {"animal": "animals", "produce": "produce", "snack": "snacks", "plant": "plants", "vehicle": "vehicles",
           "garment": "clothes", "instrument": "instruments", "tool": "tools", "toy": "toys"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Grid:
    """Nine cells in reading order and the name of the background colour."""

    cells: tuple[Sprite | None, ...]
    color: str
    odd: Sprite | None  # the one that belongs to another category than all the rest, if the scene was made so

    def filled(self) -> list[tuple[int, Concept]]:
        """(cell, concept) of all things in reading order."""
        return [(i, sprite.concept) for i, sprite in enumerate(self.cells) if sprite]

    def name(self, cell: int) -> str:
        """The name of what the cell shows, "nothing" for an empty one."""
        sprite = self.cells[cell]
        return sprite.concept.name if sprite else "nothing"

    def where(self, concept: Concept) -> list[int]:
        """Cells that show the concept."""
        return [i for i, shown in self.filled() if shown == concept]


class Mmt:
    """Five to eight things on a coloured ground, one tile of 96 pixels."""

    name = "mmt"
    longest_edge = 96

    def draw(self, rng: random.Random, split: Split) -> tuple[Sequence[Image.Image], Sequence[Exchange], Slice]:
        """One picture and three or four exchanges of different kinds."""
        part = draw_slice(rng, split)
        grid = _odd_grid(rng, part) if rng.random() < 0.2 else _grid(rng, part)
        kinds = [kind for kind in KINDS if kind is not _odd and kind is not _list]
        chosen = [_list, *rng.sample(kinds, 2 if grid.odd else 3), *([_odd] if grid.odd else [])]
        rng.shuffle(chosen)
        exchanges = {made.kind: made for made in (kind(rng, grid) for kind in chosen)}  # a fallback may repeat a kind
        return [_paint(rng, grid)], list(exchanges.values()), part


def _grid(rng: random.Random, part: Slice) -> Grid:
    total = rng.randint(6, 8)
    sprites = draw_sprites(rng, part, rng.randint(4, total))
    shown = [*sprites, *(rng.choice(sprites) for _ in range(total - len(sprites)))]
    return _scatter(rng, shown, None)


def _odd_grid(rng: random.Random, part: Slice) -> Grid:
    home, other = rng.sample(sorted(PLURALS), 2)
    sprites = draw_sprites(rng, part, rng.randint(4, 5), home)
    odd = draw_sprites(rng, "seen", 1, other)[0]
    return _scatter(rng, [*sprites, odd], odd)


def _scatter(rng: random.Random, shown: list[Sprite], odd: Sprite | None) -> Grid:
    cells: list[Sprite | None] = [*shown, *[None] * (9 - len(shown))]
    rng.shuffle(cells)
    return Grid(tuple(cells), rng.choice(list(BACKGROUNDS)), odd)


def _paint(rng: random.Random, grid: Grid) -> Image.Image:
    canvas = background(grid.color, 3 * CELL, 3 * CELL)
    for i, sprite in enumerate(grid.cells):
        if sprite:
            side = rng.choice((26, 28, 30))
            x, y = (at * CELL + rng.randint(0, CELL - side) for at in (i % 3, i // 3))
            place(canvas, sprite, x, y, side)
    return canvas


# ---- list -----------------------------------------------------------------------------------------------------------
LIST_OPENINGS = (
    ("List everything in the picture.", "the picture shows "),
    ("What can you see here?", "I can see "),
    ("What does the picture show?", "it shows "),
    ("Name all the things.", ""),
    ("What is in this scene?", "in it: "),
    ("Say what you find.", "I find "),
    ("Give me the full list.", "here it is: "),
    ("Which things are shown?", "shown: "),
    ("Read the picture.", ""),
)
LIST_ITEMS = (
    ("", "{article} at the {place}", PLACES),
    (" Be brief.", "{name} {place}", PLACES),
    (" Put the place first.", "{place} {name}", PLACES),
    (" Say upper and lower.", "{name} {place}", UPPER),
    (" Start with upper or lower.", "{place} {name}", UPPER),
)
JOINS = (
    ("", ", ", " and "),
    (" Join them with plus.", " plus ", None),
    (" Join them with and.", " and ", None),
    (" Put semicolons between them.", "; ", None),
    (" Say then between them.", " then ", None),
    (" Use one sentence each.", ". ", None),
    (" Use slashes.", " / ", None),
    (" Use dashes.", " - ", None),
    (" Say also between them.", " also ", None),
)


def _list(rng: random.Random, grid: Grid) -> Exchange:
    question, opening = rng.choice(LIST_OPENINGS)
    form, template, places = rng.choice(LIST_ITEMS)
    join, separator, last = rng.choice(JOINS)
    if rng.random() < 0.08:  # the plain question must be well known
        question, opening, form, template, places, join, separator, last = (
            *LIST_OPENINGS[0], *LIST_ITEMS[0], *JOINS[0])  # fmt: skip
    things = [
        glued(template, name=fact(concept.name), article=fact(a(concept.name)), place=fact(places[cell]))
        for cell, concept in grid.filled()
    ]
    wording = Wording(question + form + join, opening + "{things}.")
    return exchange("list", wording, {"things": joined(things, separator, last)})


# ---- count ----------------------------------------------------------------------------------------------------------
COUNTS = (
    ("How many {one}, {two} and {three} are there, and where?", "{number} {name} ({places})", ", ", "{all}."),
    ("Count the {one}, the {two} and the {three}.", "{number} {name}: {places}", "; ", "I count {all}."),
    ("Tell me the number and place of {one}, {two} and {three}.", "{name} {number}, {places}", ". ", "{all}."),
    ("Are there any {one}, {two} or {three}?", "{number} {name} - {places}", " / ", "yes: {all}."),
    ("Find all {one}, all {two} and all {three}.", "{places}: {number} {name}", ", ", "{all}."),
    ("Where are the {one}, the {two}, the {three}, and how many?", "{places} for {number} {name}", "; ", "{all}."),
    ("I need counts of {one}, {two} and {three}.", "{number} {name} at {places}", " and ", "there you go, {all}."),
    ("Search for {one}, then {two}, then {three}.", "{number} {name} in {places}", " then ", "found {all}."),
    ("Check the picture for {one}, {two} and {three}.", "{name}, {places}, {number}", "; ", "{all}."),
)


def _count(rng: random.Random, grid: Grid) -> Exchange:
    question, item, separator, answer = rng.choice(COUNTS)
    shown = list(dict.fromkeys(concept for _, concept in grid.filled()))
    chosen = rng.sample(shown, 3)
    parts = []
    for concept in chosen:
        cells = grid.where(concept)
        places = joined([fact(PLACES[cell]) for cell in cells], " and " if separator != " and " else " with ")
        name = fact(concept.count(len(cells)))
        parts.append(glued(item, number=fact(number(len(cells))), name=name, places=places))
    plurals = dict(zip(("one", "two", "three"), (concept.plural for concept in chosen), strict=True))
    return exchange("count", Wording(question, answer), {**plurals, "all": joined(parts, separator)})


# ---- neighbours -----------------------------------------------------------------------------------------------------
STEPS = {"above": (-1, 0), "right of": (0, 1), "below": (1, 0), "left of": (0, -1)}
NEIGHBORS = (
    ("Where are the {one} and the {two}, and what is {asked} each?", "{name} {place}, {found}", ", ", "; ", "{all}."),
    (
        "Find the {one} and the {two} and say what is {asked} them.",
        "{place} {name} with {found}",
        " and ",
        ". ",
        "{all}.",
    ),
    ("Which things are {asked} the {one}, then the {two}?", "{found} for the {name} {place}", " plus ", ", ", "{all}."),
    ("Look {asked} the {one} and the {two}.", "{place}: {found}", " then ", "; ", "looking, {all}."),
    ("What touches the {one} and the {two} {asked} them?", "{found} touch {name} {place}", " and ", ", ", "{all}."),
    ("Describe the {one} and the {two}: place, and what is {asked} each.", "{place} - {found}", " / ", " - ", "{all}."),
    ("Start at the {one}, then at the {two}; look {asked} it.", "from {place} see {found}", ", ", " and ", "{all}."),
    ("Give what is {asked} the {one} and the {two}.", "{name} ({place}): {found}", " + ", " ", "{all}."),
)


def _neighbors(rng: random.Random, grid: Grid) -> Exchange:
    single = [(i, c) for i, c in grid.filled() if len(grid.where(c)) == 1]
    if len(single) < 2:
        return _lines(rng, grid)
    question, item, inner, outer, answer = rng.choice(NEIGHBORS)
    directions = rng.sample(sorted(STEPS), 3)
    chosen = rng.sample(single, 2)
    parts = [
        glued(item, name=fact(concept.name), place=fact(PLACES[cell]), found=_around(grid, cell, directions, inner))
        for cell, concept in chosen
    ]
    fields = {"one": chosen[0][1].name, "two": chosen[1][1].name, "all": joined(parts, outer)}
    return exchange("neighbors", Wording(question, answer), {**fields, "asked": joined(directions, ", ", " and ").text})


def _around(grid: Grid, cell: int, directions: Sequence[str], separator: str) -> Fact:
    found = []
    for direction in directions:
        row, column = cell // 3 + STEPS[direction][0], cell % 3 + STEPS[direction][1]
        inside = 0 <= row < 3 and 0 <= column < 3
        found.append(fact(grid.name(3 * row + column) if inside else "edge"))
    return joined(found, separator)


# ---- path -----------------------------------------------------------------------------------------------------------
PATHS = (
    ("How do I get from the {start} to {stops}?", "{moves} to the {name}", ", ", "{all}."),
    ("Lead me from the {start} to {stops}.", "go {moves} for the {name}", "; ", "{all}."),
    ("I stand on the {start}. Take me to {stops}.", "{name}: {moves}", ". ", "{all}."),
    ("Starting at the {start}, which moves reach {stops}?", "{moves} reach the {name}", " then ", "{all}."),
    ("Write the path from the {start} to {stops}.", "the {name} is {moves}", ", ", "{all}."),
    ("Walk from the {start} to {stops}.", "{moves}, now the {name}", "; ", "{all}."),
    ("Where must I step from the {start} to see {stops}?", "{moves} - {name}", " / ", "step {all}."),
    ("Jump from the {start} to {stops}.", "jump {moves} onto the {name}", " and ", "{all}."),
)


def _path(rng: random.Random, grid: Grid) -> Exchange:
    single = [(i, c) for i, c in grid.filled() if len(grid.where(c)) == 1]
    if len(single) < 3:
        return _lines(rng, grid)
    question, item, separator, answer = rng.choice(PATHS)
    stops = rng.sample(single, min(len(single), rng.choice((4, 5, 6))))
    legs = []
    for (here, _), (there, concept) in pairwise(stops):
        legs.append(glued(item, moves=_moves(there // 3 - here // 3, there % 3 - here % 3), name=fact(concept.name)))
    names = [f"the {concept.name}" for _, concept in stops[1:]]
    fields = {"start": stops[0][1].name, "stops": joined(names, ", then ").text, "all": joined(legs, separator)}
    return exchange("path", Wording(question, answer), fields)


def _moves(down: int, right: int) -> Fact:
    parts = []
    if down:
        parts.append(fact(f"{number(abs(down))} {'down' if down > 0 else 'up'}"))
    if right:
        parts.append(fact(f"{number(abs(right))} {'right' if right > 0 else 'left'}"))
    return joined(parts, " ")


# ---- groups ---------------------------------------------------------------------------------------------------------
GROUPS = (
    ("Sort the things in the picture into groups.", "{group}: {names}", "{name} {place}", ", ", "; ", "{all}."),
    ("Which kinds of things are shown?", "{group} ({names})", "{name} {place}", ", ", " and ", "{all}."),
    ("Group everything by kind.", "{names} as {group}", "{place} {name}", " and ", ". ", "{all}."),
    ("Put like with like.", "{group} - {names}", "{name} {place}", " / ", ", ", "{all}."),
    ("What belongs together?", "{names} for {group}", "{name} {place}", ", ", "; ", "{all}."),
    ("Name the classes and their members.", "{group} with {names}", "{name} {place}", " plus ", ", ", "{all}."),
    ("Make boxes and fill them.", "{group} box: {names}", "{place} {name}", " then ", ". ", "{all}."),
    ("Tell me what sort each thing is.", "{names} = {group}", "{name} {place}", " + ", ", ", "{all}."),
    ("Make one line for each kind.", "{names}: {group}", "{name} {place}", " & ", " | ", "{all}."),
)


def _groups(rng: random.Random, grid: Grid) -> Exchange:
    question, item, member, inner, outer, answer = rng.choice(GROUPS)
    members: dict[str, list[Fact]] = {}
    for cell, concept in grid.filled():
        thing = glued(member, name=fact(concept.name), place=fact(PLACES[cell]))
        members.setdefault(concept.category, []).append(thing)
    parts = [
        glued(item, group=fact(PLURALS[category]), names=joined(things, inner)) for category, things in members.items()
    ]
    return exchange("groups", Wording(question, answer), {"all": joined(parts, outer)})


# ---- odd one out ----------------------------------------------------------------------------------------------------
ODD = (
    Wording("Which thing does not belong?", "the {odd} ({place}): {rest} are {home}, it is {kind}."),
    Wording("What is the odd one out, and why?", "{odd}, {place}. It is {kind}; {home} are {rest}."),
    Wording("Find the stranger.", "{place} {odd}, {kind} among {home}: {rest}."),
    Wording("One thing is different. Which?", "{kind}, the {odd} {place}, is not one of the {home}: {rest}."),
    Wording("Remove what does not fit.", "remove {odd} {place}, {kind}; keep {rest}, all {home}."),
    Wording("What is out of place here?", "{rest} count as {home} while the {odd} {place} is {kind}."),
    Wording("Which of these is of another kind?", "of another kind is the {odd}: {kind}, {place}. {home}: {rest}."),
    Wording("Spot the thing in the wrong group.", "{home} ({rest}) do not include {odd}, {kind}, {place}."),
)


def _odd(rng: random.Random, grid: Grid) -> Exchange:
    assert grid.odd is not None
    odd = grid.odd.concept
    rest = [concept for _, concept in grid.filled() if concept != odd]
    plurals = {"rest": joined([fact(concept.plural) for concept in rest], ", ", " and ")}
    kind = {"garment": "clothing", "produce": "produce"}.get(odd.category) or a(odd.category)
    return ask(rng, "odd", ODD, {
        **plurals, "odd": fact(odd.name), "place": fact(PLACES[grid.where(odd)[0]]),
        "kind": fact(kind), "home": fact(PLURALS[rest[0].category])})  # fmt: skip


# ---- rows, columns, corners -----------------------------------------------------------------------------------------
LINES = {
    "top row": (0, 1, 2), "middle row": (3, 4, 5), "bottom row": (6, 7, 8), "left column": (0, 3, 6),
    "middle column": (1, 4, 7), "right column": (2, 5, 8), "first diagonal": (0, 4, 8), "second diagonal": (2, 4, 6),
}  # fmt: skip
READS = (
    ("Read the {first}, the {second} and the {third}.", "{first}: {one}. {second}: {two}. {third}: {three}.", ", "),
    (
        "What is in the {first}, the {second} and the {third}?",
        "{one} in the first, {two} there, {three} last.",
        " and ",
    ),
    ("Show me the {first}, then the {second}, then the {third}.", "{one}; {two}; {three}.", " - "),
    ("What makes up the {first}, the {second} and the {third}?", "{one} first, {two} second, {three} third.", " plus "),
    ("Follow the {first}, the {second}, the {third}.", "{one}, next {two}, next {three}.", " then "),
    ("Spell out the {first}, the {second}, the {third}.", "{one} / {two} / {three}.", ", "),
    ("Go through the {first}, after that the {second} and the {third}.", "{one}. {two}. {three}.", " and "),
    ("Copy the {first}, the {second} and the {third}.", "{one} | {two} | {three}", " / "),
)
BACKWARD = " Read backward."


def _lines(rng: random.Random, grid: Grid) -> Exchange:
    question, answer, separator = rng.choice(READS)
    lines = rng.sample(sorted(LINES), 3)
    backward = rng.random() < 0.3
    read = [
        joined([fact(grid.name(cell)) for cell in (reversed(LINES[line]) if backward else LINES[line])], separator)
        for line in lines
    ]
    names = dict(zip(("first", "second", "third"), lines, strict=True))
    found = dict(zip(("one", "two", "three"), read, strict=True))
    return exchange("lines", Wording(question + (BACKWARD if backward else ""), answer), {**names, **found})


GROUNDS = (
    (
        "What is the color of the background, and what is in the corners and sides?",
        "{color}; {corners}; {sides}.",
        ", ",
    ),
    ("Describe the corners, the sides and the background.", "{corners} then {sides} on {color}.", " and "),
    ("Which color lies behind, and what fills sides and corners?", "{color} behind {sides} / {corners}.", " / "),
    ("Tell me the ground color, then the corners, then the sides.", "{color}, {corners}, {sides}.", " then "),
    ("What do corners and sides hold, and on what color?", "{corners}, sides {sides}, all on {color}.", "; "),
    ("Name the color of the ground and everything around the center.", "{color} ground: {corners}, {sides}.", " plus "),
    ("Go round the sides and corners and say the color behind.", "{sides} - {corners} - {color}.", " - "),
    ("Is the picture pink or blue or what? And its sides, its corners?", "it is {color}: {sides}. {corners}.", ", "),
)


def _ground(rng: random.Random, grid: Grid) -> Exchange:
    question, answer, separator = rng.choice(GROUNDS)
    clockwise = rng.random() < 0.5
    corners, sides = ((0, 2, 8, 6), (1, 5, 7, 3)) if clockwise else ((0, 2, 6, 8), (1, 3, 5, 7))
    fields = {
        "color": fact(grid.color),
        "corners": joined([fact(grid.name(cell)) for cell in corners], separator),
        "sides": joined([fact(grid.name(cell)) for cell in sides], separator),
    }
    return exchange("ground", Wording(question + (" Go clockwise." if clockwise else ""), answer), fields)


Kind = Callable[[random.Random, Grid], Exchange]
KINDS: tuple[Kind, ...] = (_list, _count, _neighbors, _path, _groups, _odd, _lines, _ground)
