"""OCR family: receipts and word boards in clean lettering, to be read, copied and looked up (192 px)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from PIL import Image, ImageDraw

from paceline.tasks.lettering import ROW, Color, Face, faces, paper, write
from paceline.tasks.listing import Listing, list_rows
from paceline.tasks.material import concepts, draw_slice
from paceline.tasks.scene import Exchange, Slice, Split
from paceline.tasks.wording import Wording, ask, fact, joined

SIDE = 192
SIZE = 18  # pixels per em
GROCERIES = (
    "bread cheese milk honey rice tea coffee juice soup salad butter sugar salt corn onion garlic bean "
    "pepper potato jam"
).split()
SIGNS = (
    "open closed sale fresh hot cold old big small left right stop go slow fast exit enter pull push "
    "stairs ticket gate park "
    "river bridge street road town market shop bank school hotel garden beach lake hill north south east "
    "west water fire light "
    "night day morning sunday free full empty wait here turn keep clean quiet walk ride swim play read "
    "eat drink music film "
    "dance game today now later red blue green white black gold"
).split()
SHOPS = (
    "market shop bank school hotel garden beach lake hill bridge gate park river road street town north south east west"
).split()
UNSEEN_WORDS = "castle museum forest island window winter summer paper silver monday flour oil".split()

READ = (
    Listing("Read the receipt from top to bottom.", "{name} {price}", ", ", "{shop}: {rows}, total {total}."),
    Listing(
        "What does each thing cost, from top to bottom?", "{name} costs {price}", ", ", "{rows}; {shop} total {total}."
    ),
    Listing("List all prices and the total.", "{name}: {price}", "; ", "{rows}; total {total}, {shop}."),
    Listing("Write out every line of the bill.", "{name} - {price}", ", ", "{shop}, {rows}, total - {total}."),
    Listing(
        "Go through the bill from the first line to the last.", "{name} {price}", "; ", "{shop}; {rows}; total {total}."
    ),
    Listing("Give the price and then the name of each thing.", "{price} {name}", ", ", "{rows}, {total} total."),
    Listing("Which prices are paid for which things?", "{price} for {name}", "; ", "{rows}; {total} in total."),
    Listing("Name each thing at its price.", "{name} at {price}", ", ", "{rows}, total {total}, {shop}."),
    Listing("Copy the bill, price first.", "{price}: {name}", " / ", "{rows} / {total}: total."),
    Listing("Copy the bill, one thing after the other.", "{name} {price}", " / ", "{shop} / {rows} / total {total}."),
)
UPWARD = (
    Listing("Read the receipt from bottom to top.", "{name} {price}", ", ", "Total {total}, {rows}."),
    Listing("List the prices upward, the total first.", "{price} for {name}", ", ", "{total} in total, {rows}."),
    Listing(
        "Go through the bill from the last line to the first.", "{name} {price}", "; ", "Total {total}; {rows}; {shop}."
    ),
    Listing("What does each thing cost, from bottom to top?", "{name} costs {price}", "; ", "{rows}; total {total}."),
    Listing("Write out the bill in reverse.", "{name} - {price}", ", ", "{rows}, {shop}."),
    Listing("Copy the bill upward, price first.", "{price}: {name}", " / ", "{total} / {rows} / {shop}."),
    Listing(
        "Name each thing at its price, starting at the bottom.", "{name} at {price}", " and ", "{rows}; total {total}."
    ),
    Listing("Start at the bottom and read every line.", "{name}: {price}", "; ", "Total: {total}; {rows}."),
)
LOOKUP = (
    Listing("What do {asked} cost, and what is the total?", "{name} {price}", ", ", "{rows}, total {total}."),
    Listing("Find the prices of {asked} and the name on top.", "{name}: {price}", "; ", "{shop}; {rows}."),
    Listing("How much are {asked}?", "{price} for {name}", ", ", "{rows}, out of {total}."),
    Listing("Look up {asked}.", "{name} costs {price}", " and ", "{shop}: {rows}."),
    Listing("I need the prices of {asked}.", "{name} - {price}", ", ", "{rows}; total {total}."),
    Listing("Tell me what I pay for {asked} and in all.", "{name} {price}", "; ", "{rows}; {total} in all."),
    Listing("Prices of {asked}, please, and the total first.", "{name} at {price}", ", ", "{total} in total, {rows}."),
    Listing("At what price do they sell {asked}?", "{name} at {price}", "; ", "{rows}, {shop}."),
)
EXTREMES = (
    Wording(
        "What is the dearest thing, what is the cheapest, and what is the total?",
        "{high} is the dearest at {most}, {low} the cheapest at {least}, total {total}; {middle} between.",
    ),
    Wording(
        "Which thing costs least and which costs most?",
        "{low} costs {least} and {high} costs {most}, out of {total} in all; else {middle}.",
    ),
    Wording("Name the highest and the lowest price.", "{most} for {high} and {least} for {low}; {shop} total {total}."),
    Wording(
        "Name the lowest and the highest price.",
        "{least} for {low}, {most} for {high}, {total} for all, also {middle}.",
    ),
    Wording(
        "What is the cheapest thing at this shop?",
        "{shop}: {low} is cheapest with {least}; then {middle}; {high} costs {most}.",
    ),
    Wording(
        "What is the dearest thing at this shop?",
        "{shop}: {high} is dearest with {most}; less for {middle}; {low} costs {least}.",
    ),
    Wording(
        "Compare the top price with the bottom price.",
        "Top: {high} {most}; bottom: {low} {least}; total: {total}, {shop}.",
    ),
    Wording(
        "Which price is smallest, which is largest?",
        "Smallest {least}, {low}; largest {most}, {high}; others {middle}; total {total}.",
    ),
)
FALLING = (
    Listing("Sort the things from dear to cheap.", "{name} {price}", ", ", "{rows}; total {total}."),
    Listing("Rank the prices, the highest first.", "{price} for {name}", "; ", "{rows}, {total} in all."),
    Listing("Start with the dearest thing and go down.", "{name}: {price}", "; ", "{shop}: {rows}."),
    Listing("What costs most, and what follows?", "{name} costs {price}", ", ", "{shop}: {rows}."),
)
RISING = (
    Listing("Sort the things from cheap to dear.", "{name} {price}", "; ", "{rows}; {total} for all."),
    Listing("Rank the prices, the lowest first.", "{price} for {name}", ", ", "{rows}; total {total}."),
    Listing("Start with the cheapest thing and go up.", "{name} - {price}", ", ", "{shop}: {rows}."),
    Listing("What costs least, and what follows?", "{name} at {price}", " then ", "{shop}: {rows}."),
)
BY_ROW = (
    Listing("Copy the words row by row.", "{left} {right}", ", "),
    Listing("What does the board say?", "{left} {right}", " "),
    Listing("Read the board from left to right, line by line.", "{left} and {right}", "; "),
    Listing("Copy each line of the board.", '"{left} {right}"', " "),
    Listing("Write down all words in reading order.", "{left}, {right}", ", "),
    Listing("Give the two words of each line.", "{left} - {right}", ", "),
    Listing("Spell out the lines of the sign.", "{left} {right}", " / "),
    Listing("Read every line backward, from right to left.", "{right} {left}", ", "),
    Listing("Give each line with the right word first.", "{right}, {left}", "; "),
)
UP_ROW = (
    Listing("Copy the lines from bottom to top.", "{left} {right}", ", "),
    Listing("Start at the bottom line and read upward.", "{left} {right}", " / "),
    Listing("What does the board say from the last line to the first?", "{left} {right}", " "),
    Listing("Read the sign upward, the right word of each line first.", "{right} {left}", "; "),
    Listing("Give the lines in reverse, two words each.", "{left} - {right}", ", "),
    Listing("Write the lines upward with quotes.", '"{left} {right}"', ", "),
    Listing("Read everything from the bottom right backward.", "{right} {left}", " "),
    Listing("Name the words of every line from the bottom.", "{left} and {right}", ", "),
)
BY_COLUMN = (
    Wording("Copy the left column, then the right one.", "{left}; {right}."),
    Wording("Read the board column by column.", "{left_plain} / {right_plain}."),
    Wording("What stands on the right side, and what on the left?", "Right: {right}. Left: {left}."),
    Wording("What stands on the left side, and what on the right?", "Left: {left}. Right: {right}."),
    Wording("Read down the right column and then down the left.", "{right}; {left}."),
    Wording("Copy both columns downward.", '"{left_plain}" and "{right_plain}".'),
    Wording("Copy both columns upward.", "{left_up}; {right_up}."),
    Wording("Read up the right column and down the left.", "{right_up} / {left_plain}."),
)
PARTNERS = (
    Listing("Which words share a line with {asked}?", "{word} with {other}", ", "),
    Listing("What is written beside {asked}?", "{other} beside {word}", "; "),
    Listing("Find the partner of each word: {asked}.", "{word} - {other}", ", "),
    Listing("Complete the lines of {asked}.", "{word} and {other}", "; "),
    Listing("On the lines of {asked}, what else is there?", "{other} by {word}", ", "),
    Listing("Look for {asked}; what stands next to them?", "next to {word}: {other}", ", "),
    Listing("Pair up {asked} with their neighbors.", "{word} + {other}", " / "),
    Listing("Give the neighbors of {asked}.", "{other} ({word})", ", "),
)


@cache
def goods() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names that may stand on a receipt: (seen, held out), each of at most eight letters."""
    stuff = [c for c in concepts() if c.category not in ("animal", "vehicle") and c.name.isalpha() and len(c.name) <= 8]
    seen = dict.fromkeys([*GROCERIES, *(c.name for c in stuff if c.hold != "new")])
    return tuple(seen), tuple(c.name for c in stuff if c.hold == "new")


def choose(rng: random.Random, seen: Sequence[str], held_out: Sequence[str], part: Slice, number: int) -> list[str]:
    """`number` distinct words; in the "new" slice about half of them are held out."""
    fresh = rng.sample(held_out, min(len(held_out), -(-number // 2))) if part == "new" else []
    words = fresh + rng.sample(seen, number - len(fresh))
    rng.shuffle(words)
    return words


class Ocr:
    """Receipts of three or four goods and boards of five or six lines with two words each."""

    name = "ocr"
    longest_edge = SIDE

    def draw(self, rng: random.Random, split: Split) -> tuple[Sequence[Image.Image], Sequence[Exchange], Slice]:
        """One 192-px picture with three or four exchanges."""
        part = draw_slice(rng, split)
        picture, exchanges = receipt(rng, part) if rng.random() < 0.5 else board(rng, part)
        return [picture], exchanges, part


def receipt(rng: random.Random, part: Slice) -> tuple[Image.Image, list[Exchange]]:
    """A bill with a shop name, priced goods and the printed total."""
    seen, held_out = goods()
    names = choose(rng, seen, held_out, part, rng.choice((3, 4, 4, 4)))
    prices = rng.sample(range(2, 100), len(names))
    shop = rng.choice(SHOPS)
    total = sum(prices)
    rows = [{"name": fact(n), "price": fact(p)} for n, p in zip(names, prices, strict=True)]
    frame = {"shop": fact(shop), "total": fact(total)}
    asked = rng.sample(rows, len(rows))
    ranked = sorted(rows, key=lambda r: int(r["price"].text))
    high, low = ranked[-1], ranked[0]
    middle = joined(row["name"] for row in (ranked[1:-1]))
    order = ("falling", FALLING, ranked[::-1]) if rng.random() < 0.5 else ("rising", RISING, ranked)
    extremes = {
        **frame,
        "middle": middle,
        "high": high["name"],
        "most": high["price"],
        "low": low["name"],
        "least": low["price"],
    }
    exchanges = [
        list_rows(rng, "read", READ, rows, frame),
        list_rows(rng, "upward", UPWARD, rows[::-1], frame),
        list_rows(
            rng, "lookup", LOOKUP, asked, {**frame, "asked": joined((r["name"].text for r in asked), ", ", " and ")}
        ),
        ask(rng, "extremes", EXTREMES, extremes),
        list_rows(rng, *order, frame),
    ]
    return draw_receipt(rng, rng.choice(faces(part)), shop, list(zip(names, prices, strict=True)), total), exchanges


def draw_receipt(
    rng: random.Random, face: Face, shop: str, lines: Sequence[tuple[str, int]], total: int
) -> Image.Image:
    """The bill as a 192-px sheet: names left, prices flush right, one line every 32 px."""
    canvas, ink = paper(rng, SIDE, SIDE)
    draw = ImageDraw.Draw(canvas)
    left, right = 7 + rng.randint(0, 3), SIDE - 7 - rng.randint(0, 3)
    baseline = 22 + rng.randint(-1, 1)
    write(draw, left, baseline, shop, face, SIZE + 2, ink)
    draw.line((left, ROW, right, ROW), fill=ink, width=2)
    for i, (name, price) in enumerate(lines, 1):
        write(draw, left, baseline + i * ROW, name, face, SIZE, ink)
        write(draw, right, baseline + i * ROW, str(price), face, SIZE, ink, "rs")
    end = (len(lines) + 1) * ROW
    draw.line((left, end, right, end), fill=ink, width=2)
    write(draw, left, baseline + end, "total", face, SIZE, ink)
    write(draw, right, baseline + end, str(total), face, SIZE, ink, "rs")
    return canvas


def board(rng: random.Random, part: Slice) -> tuple[Image.Image, list[Exchange]]:
    """A board of lines with two words each, one in each half."""
    number = rng.choice((5, 5, 6))
    words = choose(rng, SIGNS, UNSEEN_WORDS, part, 2 * number)
    pairs = list(zip(words[:number], words[number:], strict=True))
    rows = [{"left": fact(a), "right": fact(b)} for a, b in pairs]
    asked = [rng.choice([(a, b), (b, a)]) for a, b in rng.sample(pairs, 5)]
    partners = [{"word": fact(a), "other": fact(b)} for a, b in asked]
    columns = {}
    for side in ("left", "right"):
        column = [row[side] for row in rows]
        columns |= {side: joined(column), f"{side}_plain": joined(column, " "), f"{side}_up": joined(column[::-1])}
    exchanges = [
        list_rows(rng, "rows", BY_ROW, rows, {}),
        list_rows(rng, "upward", UP_ROW, rows[::-1], {}),
        ask(rng, "columns", BY_COLUMN, columns),
        list_rows(rng, "partners", PARTNERS, partners, {"asked": joined((a for a, _ in asked), ", ", " and ")}),
    ]
    return draw_board(rng, rng.choice(faces(part)), pairs), exchanges


def draw_board(rng: random.Random, face: Face, pairs: Sequence[tuple[str, str]]) -> Image.Image:
    """The board as a 192-px sheet: two columns that begin at the two halves, one line every 32 px."""
    canvas, ink = paper(rng, SIDE, SIDE)
    draw = ImageDraw.Draw(canvas)
    top = ROW * rng.randint(0, 6 - len(pairs)) + 22 + rng.randint(-1, 1)
    left = 7 + rng.randint(0, 3)
    frame: Color = tuple((3 * c + i) // 4 for c, i in zip(canvas.getpixel((1, 1)), ink, strict=True))  # type: ignore[arg-type]
    draw.rectangle((1, 1, SIDE - 2, SIDE - 2), outline=frame, width=2)
    for i, (a, b) in enumerate(pairs):
        write(draw, left, top + i * ROW, a, face, SIZE, ink)
        write(draw, left + SIDE // 2, top + i * ROW, b, face, SIZE, ink)
    return canvas
