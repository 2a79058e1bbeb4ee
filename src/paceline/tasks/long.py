"""Long answers: grids of coloured, numbered things and tables of numbers, transcribed cell by cell."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from paceline.tasks.lettering import LABEL, write
from paceline.tasks.material import BACKGROUNDS, Sprite, draw_slice, draw_sprites, place
from paceline.tasks.scene import Exchange, Slice, Split
from paceline.tasks.wording import Fact, Wording, exchange, fact, glued, joined

SIDE, CELL = 192, 32  # pixels: 2 x 2 tiles, a cell is 2 x 2 visual tokens
COLORS = {name: top for name, (top, _) in BACKGROUNDS.items() if name != "black"}
DARK, INK = (48, 50, 60), (20, 20, 24)
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


@dataclass(frozen=True, slots=True)
class Cell:
    """A thing on a coloured ground with a number from 1 to 9 beside it."""

    sprite: Sprite
    color: str
    digit: int


class Long:
    """A 192-pixel picture whose full reading takes 200 to 400 tokens."""

    name = "long"
    longest_edge = SIDE

    def draw(self, rng: random.Random, split: Split) -> tuple[Sequence[Image.Image], Sequence[Exchange], Slice]:
        """One picture and one exchange."""
        part = draw_slice(rng, split)
        picture, told = _grid(rng, part) if rng.random() < 0.7 else _table(rng, part)
        return [picture], [told], part


# ---- grids ----------------------------------------------------------------------------------------------------------
READINGS = (  # question, cell, between cells, before a row
    ("Copy the whole grid.", "{color} {name} with {digit}", ", ", "{nth} row: "),
    ("Transcribe every cell, row by row.", "{name} {digit}, {color}", "; ", "{nth}: "),
    ("Read the grid aloud.", "{digit} {name} on {color}", ", ", "row {nth} - "),
    ("Write down all cells with number first.", "{digit}: {color} {name}", " / ", "{nth} row "),
    ("Describe all the squares.", "{name} on {color} with {digit}", ", ", "{nth} row. "),
    ("Say each thing, its color and its number.", "{name}, {color}, {digit}", " then ", "{nth} "),
    ("List color, number and thing of each square.", "{color} {digit} by {name}", ", ", "in row {nth} "),
    ("Tell me number, thing and color of all cells.", "{digit} {name} ({color})", " ", "{nth} row: "),
    ("Go through the grid from top left to bottom right.", "{name} and {digit} on {color}", ", ", ""),
)
ORDERS = ("", " Go column by column.", " Start at the bottom row.", " Read each row from the right.")


Lines = Sequence[Sequence[Cell]]


def _grid(rng: random.Random, part: Slice) -> tuple[Image.Image, Exchange]:
    grid = _cells(rng, part)
    question, form, between, label = rng.choice(READINGS)
    order = rng.choice(ORDERS)
    if order == ORDERS[1]:
        label = label.replace("row", "column")
    told = []
    for ordinal, line in zip(ORDINALS, _arranged(grid, order), strict=True):
        cells = [glued(form, name=fact(c.sprite.concept.name), color=fact(c.color), digit=fact(c.digit)) for c in line]
        told.append(glued(label + "{cells}", nth=ordinal, cells=joined(cells, between)))
    return _paint(grid), exchange("grid", Wording(question + order, "{all}."), {"all": joined(told, ". ")})


def _cells(rng: random.Random, part: Slice) -> Lines:
    sprites = draw_sprites(rng, part, 30)
    return [
        [Cell(rng.choice(sprites), rng.choice(list(COLORS)), rng.randint(1, 9)) for _ in ORDINALS] for _ in ORDINALS
    ]


def _arranged(grid: Lines, order: str) -> Lines:
    """The lines of the grid in the order that the clause asks for."""
    if order == ORDERS[1]:
        return list(zip(*grid, strict=True))
    if order == ORDERS[2]:
        return grid[::-1]
    if order == ORDERS[3]:
        return [row[::-1] for row in grid]
    return grid


def _paint(grid: Lines) -> Image.Image:
    canvas = Image.new("RGB", (SIDE, SIDE), (250, 250, 250))
    draw = ImageDraw.Draw(canvas)
    for i, row in enumerate(grid):
        for j, cell in enumerate(row):
            x, y = j * CELL, i * CELL
            draw.rectangle((x, y, x + CELL - 2, y + CELL - 2), fill=COLORS[cell.color])
            place(canvas, cell.sprite, x, y + 1, 22)
            draw.rectangle(
                (x + 20, y + 16, x + CELL - 2, y + CELL - 2), fill=COLORS[cell.color]
            )  # keeps digits legible
            write(draw, x + 25, y + 29, str(cell.digit), LABEL, 16, INK, "ms")
    return canvas


# ---- tables ---------------------------------------------------------------------------------------------------------
TABLES = (  # question, entry, between entries, before a line of the first and of the second pass
    ("Read the table row by row, then column by column.", "{name} {value}", ", ", "{line}: "),
    ("Copy the table twice: by rows, then by columns.", "{value} {name}", "; ", "{line} "),
    ("Transcribe rows, after that columns.", "{value} for {name}", " and ", "{line} - "),
    ("Say every number, along the rows and then down the columns.", "{name} is {value}", ", ", "the {line}: "),
    ("First the rows, then the columns of the table.", "{name}: {value}", " / ", "{line} = "),
    ("Give all entries by row and all entries by column.", "{value} ({name})", " ", "{line} "),
    ("Write out the table across and then down.", "{name} {value}", " then ", "{line} with "),
    ("Tell me all rows, then all columns.", "{value} at {name}", ", ", "for {line} "),
)


def _table(rng: random.Random, part: Slice) -> tuple[Image.Image, Exchange]:
    sprites = draw_sprites(rng, part, 9)
    heads, sides = sprites[:4], sprites[4:]
    values = [[rng.randint(10, 99) for _ in heads] for _ in sides]
    question, form, between, label = rng.choice(TABLES)

    def told(line: Sprite, entries: Sequence[tuple[Sprite, int]]) -> Fact:
        cells = [glued(form, name=fact(sprite.concept.name), value=fact(value)) for sprite, value in entries]
        return glued(label + "{cells}", line=fact(line.concept.name), cells=joined(cells, between))

    rows = [told(side, list(zip(heads, row, strict=True))) for side, row in zip(sides, values, strict=True)]
    columns = [
        told(head, [(side, row[j]) for side, row in zip(sides, values, strict=True)]) for j, head in enumerate(heads)
    ]
    picture = _paint_table(rng, heads, sides, values)
    return picture, exchange("table", Wording(question, "{all}."), {"all": joined([*rows, *columns], ". ")})


def _paint_table(
    rng: random.Random, heads: Sequence[Sprite], sides: Sequence[Sprite], values: Sequence[Sequence[int]]
) -> Image.Image:
    canvas = Image.new("RGB", (SIDE, SIDE), (252, 252, 252))
    draw = ImageDraw.Draw(canvas)
    color = COLORS[rng.choice([name for name in COLORS if name != "white"])]
    draw.rectangle((0, 0, SIDE, CELL - 1), fill=color)
    draw.rectangle((0, 0, CELL - 1, SIDE), fill=color)
    for j, head in enumerate(heads):
        place(canvas, head, 34 + 40 * j, 2, 28)
    for i, (side, row) in enumerate(zip(sides, values, strict=True)):
        y = CELL * (i + 1)
        place(canvas, side, 2, y + 2, 28)
        draw.line((0, y, SIDE, y), fill=DARK)
        for j, value in enumerate(row):
            write(draw, 48 + 40 * j, y + 23, str(value), LABEL, 19, INK, "ms")
    return canvas
