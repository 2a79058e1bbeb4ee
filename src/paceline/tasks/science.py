"""Science family: mixtures of chemical elements, and things to be named, told apart and sorted by kind (96 px)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from PIL import Image, ImageDraw

from paceline.tasks.lettering import LABEL, Color, Face, faces, write
from paceline.tasks.listing import Listing, list_rows
from paceline.tasks.material import Sprite, background, draw_slice, draw_sprites, place
from paceline.tasks.scene import Exchange, Slice, Split
from paceline.tasks.tables import UNSEEN_ELEMENTS, Element, elements
from paceline.tasks.wording import Fact, Wording, a, ask, fact, glued, joined

SIDE = 96
CELL = 48  # pixels; cells of things are WIDTH wide
WIDTH = 32
CORNERS = ("top left", "top right", "bottom left", "bottom right")
LETTERS = ("A", "B", "C", "D", "E", "F")
PLACES = ("top left", "top middle", "top right", "bottom left", "bottom middle", "bottom right")
STATE_COLORS: dict[str, Color] = {"gas": (206, 240, 206), "liquid": (190, 222, 252), "solid": (250, 226, 186)}
INK: Color = (22, 24, 40)

READ = (
    Listing("List the elements of the mixture with their atoms.", "{count} of {name}", ", ", "{rows}."),
    Listing("Read the four cells in order.", "{name} {count}", ", ", "{rows}."),
    Listing("How many atoms of each element are there?", "{name} has {count}", "; ", "{rows}."),
    Listing("Which elements are mixed here?", "{name} with {count} atoms", " and ", "{rows}."),
    Listing("Write the mixture with symbols and names.", "{count} {symbol}, {name}", "; ", "{rows}."),
    Listing("Write the formula of the mixture.", "{symbol} {count}", " + ", "{rows}, that is {names}."),
    Listing("Name the elements and give the numbers.", "{name}: {count}", ", ", "{rows}."),
    Listing("What is in each corner?", "{place} {count} {name}", ", ", "{rows}."),
    Listing("Give the number of atoms, then the element.", "{count} {name}", "; ", "{rows}."),
)
BACKWARD = (
    Listing("List the elements from the last cell to the first.", "{count} of {name}", "; ", "{rows}."),
    Listing("Read the four cells backward.", "{name} {count}", ", ", "{rows}."),
    Listing("Going up from the bottom right, how many atoms are there?", "{name} has {count}", ", ", "{rows}."),
    Listing("Which elements are mixed here, last one first?", "{name} with {count} atoms", "; ", "{rows}."),
    Listing("Write the formula backward.", "{symbol} {count}", " + ", "{rows}, that is {names}."),
    Listing("Name the elements in reverse with their numbers.", "{name}: {count}", "; ", "{rows}."),
    Listing("What is in each corner, from the bottom right?", "{place} {count} {name}", "; ", "{rows}."),
    Listing("Give the atoms of the cells in reverse.", "{count} {name}", ", ", "{rows}."),
)
FALLING = (
    Listing("Sort the elements by atoms, most first.", "{name} {count}", ", ", "{rows}."),
    Listing("Which element has most atoms, and which follow?", "{name} has {count}", ", ", "{rows}."),
    Listing("Rank the numbers of atoms from large to small.", "{count} of {name}", "; ", "{rows}."),
    Listing("Order the mixture downward.", "{count} {name}", " then ", "{rows}."),
)
RISING = (
    Listing("Sort the elements by atoms, fewest first.", "{name} {count}", "; ", "{rows}."),
    Listing("Which element has fewest atoms, and which follow?", "{name} has {count}", "; ", "{rows}."),
    Listing("Rank the numbers of atoms from small to large.", "{count} of {name}", ", ", "{rows}."),
    Listing("Order the mixture upward.", "{count} {name}", " then ", "{rows}."),
)
OPTIONS = (
    Listing("Which is not in the mixture? (1) {o1} (2) {o2} (3) {o3}", "({n}) {name} {count}", ", ", "{out}; {rows}."),
    Listing("What is missing? (1) {o1} (2) {o2} (3) {o3}", "{count} {name}", " and ", "{out}; there are {rows}."),
    Listing("Find {o1}, {o2} and {o3} in the mixture.", "{name} {count} {place}", ", ", "{rows}; {absent} is absent."),
    Listing("How many atoms have (1) {o1}, (2) {o2}, (3) {o3}?", "({n}) {count}, {place}", "; ", "{rows}; {out}."),
    Listing("Is any of these absent: {o1}, {o2}, {o3}?", "{place} {name} {count}", ", ", "{absent} absent; {rows}."),
    Listing("Check (1) {o1}, (2) {o2} and (3) {o3}.", "({n}) {place}, {count} {name}", "; ", "{out}; {rows}."),
    Listing("Where are {o1}, {o2} and {o3}?", "{name} {place}, {count} atoms", ", ", "{rows}, {absent} nowhere."),
    Listing("Do we have {o1}, {o2} and {o3}?", "{count} of {name}", ", ", "no {absent}, but {rows}."),
)
STATES = (
    Wording("Which of the elements are gases, and which are not?", "Gases: {gas}. Others: {rest}."),
    Wording("Which of the elements are no gases, and which are?", "No gases: {rest}. Gases: {gas}."),
    Wording("Split the mixture into gases and the rest, with atoms.", "As gases {gas_count}, as others {rest_count}."),
    Wording("Split the mixture into the rest and gases, with atoms.", "As others {rest_count}, as gases {gas_count}."),
    Wording("What would fly away, and what would stay?", "Flying away: {gas_count}; staying: {rest_count}."),
    Wording("What would stay, and what would fly away?", "Staying: {rest_count}; flying away: {gas_count}."),
    Wording("Where are the gases, and what else is there?", "Gases: {gas_place}; else {rest_count}."),
    Wording(
        "Where are the solids and liquids, and which gases are there?", "{rest_place} with no gas; gases: {gas_count}."
    ),
)
NAME = (
    Listing("Name {order}.", "{letter} {name}", ", ", "{rows}."),
    Listing("What do {order} stand for?", "{letter}: {name}", "; ", "{rows}."),
    Listing("What is shown at {order}?", "{thing} at {letter}", ", ", "{rows}."),
    Listing("Label {order}.", "{name} ({letter})", ", ", "{rows}."),
    Listing("Which things are {order}?", "{letter} is {thing}", "; ", "{rows}."),
    Listing("Describe the samples {order}.", "{letter} shows {thing}", " and ", "{rows}."),
    Listing("Give me the names for {order}.", "{name} {letter}", "; ", "{rows}."),
    Listing("Read the letters {order} with their things.", "{letter} - {name}", ", ", "{rows}."),
)
KIND = (
    Listing("To which kinds do {order} belong?", "{name} {kind}", ", ", "{rows}."),
    Listing("Give kind and name of {order}.", "{kind} {name}", ", ", "{rows}."),
    Listing("Sort {order} into kinds.", "{kind} {letter} {name}", "; ", "{rows}."),
    Listing("What kinds of things are {order}?", "{name} ({kind})", ", ", "{rows}."),
    Listing("Find the places of {order}, and say what they are.", "{place} {name}", "; ", "{rows}."),
    Listing("What is {order}, and where is it?", "{name} {place}", ", ", "{rows}."),
    Listing("Say letter, thing and kind for {order}.", "{letter} {name} {kind}", ", ", "{rows}."),
    Listing("Go to {order} and tell me name and kind.", "{name}, {kind}", "; ", "{rows}."),
)
CHOICE = (
    Listing("Which of these is not shown? (1) {o1} (2) {o2} (3) {o3}", "({n}) {name} {letter}", ", ", "{out}; {rows}."),
    Listing("Find (1) {o1}, (2) {o2} and (3) {o3}.", "{n} {place} {name}", "; ", "{rows}; {out}."),
    Listing("Where are the {o1}, the {o2} and the {o3}?", "{name} {place}", ", ", "{rows}, no {absent}."),
    Listing("Is there no {o1}, no {o2} or no {o3}?", "{letter} {name}", " and ", "no {absent}, but {rows}, {others}."),
    Listing(
        "Which letters have the {o1}, the {o2}, the {o3}?",
        "{letter} for {name}",
        ", ",
        "{rows}, none for {absent}; also {others}.",
    ),
    Listing(
        "Match {o1}, {o2} and {o3} with letters.",
        "{name} {letter}",
        ", ",
        "{rows}, {absent} none; the others are {others}.",
    ),
    Listing("One is absent: {o1}, {o2} or {o3}?", "{letter} {name}", ", ", "{absent}; I see {rows} and {others}."),
    Listing("Check {o1}, {o2}, {o3} for me.", "{name} at {letter}", "; ", "{rows}; {absent} missing; also {others}."),
)
PROPERTIES = {  # what a question may ask -> categories that have it
    "are alive": ("animal", "plant"),
    "are animals": ("animal",),
    "are produce or snacks": ("produce", "snack"),
    "are vehicles": ("vehicle",),
    "can be worn": ("garment",),
    "are instruments": ("instrument",),
}
SORT = (
    Wording("Which of A to F {what}?", "{yes_letter}; not {no_name}."),
    Wording("Which things here {what}, and which do not belong?", "{yes_name}; {no_letter} not."),
    Wording("Sort A to F: which {what}?", "Yes {yes_bracket}; no {no_bracket}."),
    Wording("Name first what does not fit, then those that {what}.", "Not {no_bracket}; but {yes_name}."),
    Wording("Tell me all that {what} and then the others.", "{yes_bracket}; others {no_letter}."),
    Wording("Look for things that {what}.", "Found {yes_place}; besides {no_name}."),
    Wording("Which letters do not fit if all should {what_bare}?", "No fit for {no_letter}; fit for {yes_name}."),
    Wording("Where are those that {what}?", "{yes_place}; the rest: {no_letter}."),
)


class Science:
    """Cells with element symbols and atom counts, or six lettered things."""

    name = "science"
    longest_edge = SIDE

    def draw(self, rng: random.Random, split: Split) -> tuple[Sequence[Image.Image], Sequence[Exchange], Slice]:
        """One 96-px picture with four or five exchanges."""
        part = draw_slice(rng, split)
        picture, exchanges = mixture(rng, part) if rng.random() < 0.5 else samples(rng, part)
        return [picture], exchanges, part


def choose_elements(rng: random.Random, part: Slice, number: int) -> list[Element]:
    """`number` distinct elements; in the "new" slice half of them are held out."""
    pool = elements(part)
    held_out = [e for e in pool if e.name in UNSEEN_ELEMENTS]
    chosen = rng.sample(held_out, number // 2) if held_out else []
    chosen += rng.sample([e for e in pool if e not in held_out], number - len(chosen))
    rng.shuffle(chosen)
    return chosen


def mixture(rng: random.Random, part: Slice) -> tuple[Image.Image, list[Exchange]]:
    """Four elements with their numbers of atoms."""
    *shown, absent = choose_elements(rng, part, 5)
    counts = rng.sample(range(2, 100), 4)
    rows: list[dict[str, Fact]] = [
        {"name": fact(e.name), "symbol": fact(e.symbol), "count": fact(c), "place": fact(p)}
        for e, c, p in zip(shown, counts, CORNERS, strict=True)
    ]
    ranked = [row for _, row in sorted(zip(counts, rows, strict=True), key=lambda pair: pair[0])]
    order = ("falling", FALLING, ranked[::-1]) if rng.random() < 0.5 else ("rising", RISING, ranked)
    exchanges = [
        list_rows(rng, "read", READ, rows, {"names": joined(row["name"] for row in rows)}),
        list_rows(rng, "backward", BACKWARD, rows[::-1], {"names": joined(row["name"] for row in rows[::-1])}),
        list_rows(rng, *order, {}),
        options(rng, OPTIONS, rng.sample(rows, 2), absent.name, "missing"),
        states(rng, shown, rows),
    ]
    return draw_mixture(rng, shown, counts, rng.choice(faces(part))), exchanges


def options(
    rng: random.Random,
    listings: Sequence[Listing],
    rows: Sequence[Mapping[str, Fact]],
    absent: str,
    gone: str,
    others: Fact | str = "",
) -> Exchange:
    """Three options in the question, two of which are in the picture."""
    names = [row["name"].text for row in rows]
    names.insert(rng.randrange(3), absent)
    numbered = [{**row, "n": fact(names.index(row["name"].text) + 1)} for row in rows]
    numbered.sort(key=lambda row: int(row["n"].text))
    out = glued("({n}) {name} is {gone}", n=fact(names.index(absent) + 1), name=fact(absent), gone=gone)
    asked = {f"o{i}": name for i, name in enumerate(names, 1)}
    return list_rows(
        rng, "options", listings, numbered, {**asked, "out": out, "absent": fact(absent), "others": others}
    )


def states(rng: random.Random, shown: Sequence[Element], rows: Sequence[Mapping[str, Fact]]) -> Exchange:
    """Gases against the rest."""
    fields: dict[str, Fact | str | int] = {}
    for key, wanted in (("gas", True), ("rest", False)):
        group = [row for e, row in zip(shown, rows, strict=True) if (e.state == "gas") == wanted]
        fields[key] = some((glued("{name}", **row) for row in group), ", ")
        fields[f"{key}_count"] = some((glued("{count} {name}", **row) for row in group), ", ")
        fields[f"{key}_place"] = some((glued("{place} {name}", **row) for row in group), " and ")
    return ask(rng, "states", STATES, fields)


def some(facts: Iterable[Fact], separator: str) -> Fact:
    """Facts in a row, or the word none."""
    every = list(facts)
    return joined(every, separator) if every else fact("none")


def draw_mixture(rng: random.Random, shown: Sequence[Element], counts: Sequence[int], face: Face) -> Image.Image:
    """Four square cells, coloured by state: symbol above, number of atoms below."""
    canvas = background(rng.choice(("white", "gray", "blue", "purple")), SIDE, SIDE)
    draw = ImageDraw.Draw(canvas)
    for i, (element, count) in enumerate(zip(shown, counts, strict=True)):
        x, y = i % 2 * CELL, i // 2 * CELL
        draw.rounded_rectangle((x + 1, y + 1, x + 46, y + 46), 5, fill=STATE_COLORS[element.state], outline=INK)
        write(draw, x + 24, y + 22, element.symbol, face, 21, INK, "ms")
        write(draw, x + 24, y + 42, str(count), face, 17, (150, 30, 30), "ms")
    return canvas


def samples(rng: random.Random, part: Slice) -> tuple[Image.Image, list[Exchange]]:
    """Four things with the letters A to F."""
    while True:
        *shown, absent = draw_sprites(rng, part, len(LETTERS) + 1)
        fitting = [
            w for w, kinds in PROPERTIES.items() if 1 <= sum(s.concept.category in kinds for s in shown) < len(LETTERS)
        ]
        if fitting:
            break
    rows: list[dict[str, Fact]] = [
        {
            "letter": fact(letter),
            "name": fact(s.concept.name),
            "thing": Fact(a(s.concept.name), (s.concept.name,)),
            "kind": fact(s.concept.category),
            "place": fact(p),
        }
        for s, letter, p in zip(shown, LETTERS, PLACES, strict=True)
    ]
    asked = rng.sample(rows, 2)
    others = joined((row["name"] for row in rows if row not in asked), " and ")
    exchanges = [
        in_order(rng, "name", NAME, rng.sample(rows, len(rows))),
        in_order(rng, "kind", KIND, rng.sample(rows, len(rows))),
        options(rng, CHOICE, asked, absent.concept.name, "not shown", others),
        by_property(rng, rng.choice(fitting), shown, rows),
    ]
    return draw_samples(rng, shown), exchanges


def in_order(
    rng: random.Random, kind: str, listings: Sequence[Listing], rows: Sequence[Mapping[str, Fact]]
) -> Exchange:
    """The things in the order of letters that the question gives."""
    return list_rows(rng, kind, listings, rows, {"order": joined((row["letter"].text for row in rows), ", ", " and ")})


def by_property(rng: random.Random, what: str, shown: Sequence[Sprite], rows: Sequence[Mapping[str, Fact]]) -> Exchange:
    """Those that have the property against those that have not."""
    fields: dict[str, Fact | str | int] = {
        "what": what,
        "what_bare": what.replace("are ", "be ").replace("can be", "be"),
    }
    for key, wanted in (("yes", True), ("no", False)):
        group = [r for s, r in zip(shown, rows, strict=True) if (s.concept.category in PROPERTIES[what]) == wanted]
        fields[f"{key}_name"] = joined((glued("{name}", **row) for row in group), " and ")
        fields[f"{key}_letter"] = joined((glued("{letter} {name}", **row) for row in group), ", ")
        fields[f"{key}_bracket"] = joined((glued("{name} ({letter})", **row) for row in group), ", ")
        fields[f"{key}_place"] = joined((glued("{place} {name}", **row) for row in group), " and ")
    return ask(rng, "property", SORT, fields)


def draw_samples(rng: random.Random, shown: Sequence[Sprite]) -> Image.Image:
    """Six cells of 32 x 48 px: the letter above, the thing below."""
    canvas = background(rng.choice(("white", "gray", "yellow", "green", "blue", "pink")), SIDE, SIDE)
    draw = ImageDraw.Draw(canvas)
    for i, sprite in enumerate(shown):
        x, y = i % 3 * WIDTH, i // 3 * CELL
        write(draw, x + 4 + rng.randint(0, 2), y + 15, LETTERS[i], LABEL, 15, INK)
        place(canvas, sprite, x + 2 + rng.randint(-1, 1), y + 17 + rng.randint(-1, 1), 28)
    return canvas
