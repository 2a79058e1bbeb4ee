"""Human-text family: WordNet glosses, drawn to be copied, or called up by a picture of what they define (192 px)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from PIL import Image, ImageDraw

from paceline.tasks.lettering import ROW, faces, paper, wrap, write
from paceline.tasks.material import BACKGROUNDS, Sprite, background, concepts, draw_slice, place
from paceline.tasks.scene import Exchange, Slice, Split
from paceline.tasks.tables import definitions, glosses
from paceline.tasks.wording import Fact, Wording, ask, fact, joined

SIDE = 192
SIZE = 18  # pixels per em
LINES = SIDE // ROW  # of a full note
PLACES = ("top left", "top right", "bottom left", "bottom right")

COPY = (
    Wording("Copy the text exactly.", "{text}"),
    Wording("What does the note say?", '"{text}"'),
    Wording("Read the note aloud.", "{text}."),
    Wording("Write the text with bars between the lines.", "{bars}"),
    Wording("Copy the note line by line.", "{slashes}"),
    Wording("Quote every line of the note.", '"{quotes}"'),
    Wording("Join the lines of the note with commas.", "{commas}."),
    Wording("Type out what is written here.", "{text} - end"),
)
BACKWARD = (
    Wording("Copy the text from the last word to the first.", "{reverse}"),
    Wording("Read the note backward.", "{reverse}."),
    Wording("Copy the lines from bottom to top.", "{up_bars}"),
    Wording("Start with the last line and go up.", "{up_slashes}"),
    Wording("Give the lines in reverse, in quotes.", '"{up_quotes}"'),
    Wording("Which words do you see, the last one first?", "{reverse_commas}."),
    Wording("Turn the order of the lines around.", "{up_commas}."),
    Wording("Quote the text backward.", '"{reverse}"'),
)
EDGES = (
    Wording("How does each line begin, and how does it end?", "Begin: {first}. End: {last}."),
    Wording("How does each line end, and how does it begin?", "End: {last}. Begin: {first}."),
    Wording("Give the first words of the lines, then the last ones.", "{first}; {last}."),
    Wording("Give the last words of the lines, then the first ones.", "{last}; {first}."),
    Wording("Which words stand at the left edge, which at the right?", "Left {first}, right {last}."),
    Wording("Which words stand at the right edge, which at the left?", "Right {last}, left {first}."),
    Wording("How many words are there, and which begin the lines?", "{number} words; {first}."),
    Wording("How many words are there, and which end the lines?", "{number} words; {last}."),
)
DEFINE = (
    Wording("Define the thing at the {p1} and the one at the {p2}.", "{d1}; {d2}."),
    Wording("What is at the {p1}, and what is at the {p2}?", "{n1}, {d1}; {n2}, {d2}."),
    Wording("Explain the {p1} picture and the {p2} one.", "{n1} is {d1} and {n2} is {d2}."),
    Wording("Give names and meanings for {p1} and {p2}.", "{n1}: {d1}. {n2}: {d2}."),
    Wording("Write entries of a dictionary for {p1} and {p2}.", "{n1} - {d1} / {n2} - {d2}"),
    Wording("Describe without names what is {p1} and what is {p2}.", "{d1}, and {d2}."),
    Wording("First the meaning, then the name: {p1} and {p2}.", "{d1}: {n1}. {d2}: {n2}."),
    Wording("What would a dictionary say about {p1} and {p2}?", '"{d1}" and "{d2}".'),
)


class Human:
    """Notes with two glosses to copy; now and then four things, two of which are to be defined."""

    name = "human"
    longest_edge = SIDE

    def draw(self, rng: random.Random, split: Split) -> tuple[Sequence[Image.Image], Sequence[Exchange], Slice]:
        """One 192-px picture with three exchanges; glosses to copy differ between splits, so "new" does not occur."""
        part: Slice = "style" if draw_slice(rng, split) != "seen" else "seen"
        picture, exchanges = note(rng, split, part) if rng.random() < 0.8 else things(rng, part)
        return [picture], exchanges, part


def note(rng: random.Random, split: Split, part: Slice) -> tuple[Image.Image, list[Exchange]]:
    """Two glosses on paper, each from a line of its own, in at most six lines."""
    face = rng.choice(faces(part))
    lines: list[str] = []
    while not 0 < len(lines) <= LINES:
        lines = [line for gloss in rng.sample(glosses(split), 2) for line in wrap(gloss, face, SIZE, SIDE - 18)]
    canvas, ink = paper(rng, SIDE, SIDE)
    draw = ImageDraw.Draw(canvas)
    top, left = ROW * rng.randint(0, LINES - len(lines)) + 22 + rng.randint(-1, 1), 7 + rng.randint(0, 3)
    for i, line in enumerate(lines):
        write(draw, left, top + i * ROW, line, face, SIZE, ink)
    return canvas, note_exchanges(rng, lines)


def note_exchanges(rng: random.Random, lines: Sequence[str]) -> list[Exchange]:
    """Copies forward and backward, and the edges of the lines."""
    down = [joined(map(fact, line.split()), " ") for line in lines]
    words = [fact(word) for line in lines for word in line.split()]
    fields: dict[str, Fact | str | int] = {
        "text": joined(words, " "),
        "reverse": joined(words[::-1], " "),
        "reverse_commas": joined(words[::-1], ", "),
        "first": joined(fact(line.split()[0]) for line in lines),
        "last": joined(fact(line.split()[-1]) for line in lines),
        "number": fact(len(words)),
    }
    for name, separator in (("bars", " | "), ("slashes", " / "), ("quotes", '" "'), ("commas", ", ")):
        fields[name] = joined(down, separator)
        fields[f"up_{name}"] = joined(down[::-1], separator)
    return [
        ask(rng, "copy", COPY, fields),
        ask(rng, "backward", BACKWARD, fields),
        ask(rng, "edges", EDGES, fields),
    ]


def things(rng: random.Random, part: Slice) -> tuple[Image.Image, list[Exchange]]:
    """Four defined concepts, one in each quarter."""
    known = [c for c in concepts() if c.name in definitions() and c.styles(part)]
    chosen = [Sprite(c, rng.choice(c.styles(part))) for c in rng.sample(known, 4)]
    canvas = background(rng.choice([name for name in BACKGROUNDS if name != "black"]), SIDE, SIDE)
    for i, sprite in enumerate(chosen):
        x, y = i % 2 * SIDE // 2, i // 2 * SIDE // 2
        place(canvas, sprite, x + 16 + rng.randint(-6, 6), y + 16 + rng.randint(-6, 6), 64)
    exchanges: list[Exchange] = []
    for i, j in ((0, 3), (2, 1), (3, 2)):
        fields: dict[str, Fact | str | int] = {}
        for k, at in ((1, i), (2, j)):
            name = chosen[at].concept.name
            fields |= {f"p{k}": PLACES[at], f"n{k}": fact(name), f"d{k}": fact(definitions()[name])}
        exchanges.append(ask(rng, "define", DEFINE, fields))
    return canvas, exchanges
