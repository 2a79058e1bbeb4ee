"""MathVista-like family: equations with things, clocks, rectangles, prices, counts and number rows, worked out."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from PIL import Image, ImageDraw

from paceline.tasks.lettering import LABEL, write
from paceline.tasks.material import BACKGROUNDS, Sprite, background, draw_slice, draw_sprites, place
from paceline.tasks.scene import Exchange, Slice, Split
from paceline.tasks.wording import Fact, Wording, exchange, fact, glued, joined

SIDE = 96  # pixels
LIGHT = tuple(name for name in BACKGROUNDS if name not in ("black", "gray"))
INK = (24, 26, 40)
Drawn = tuple[Image.Image, list[Exchange]]


class Math:
    """One picture of 96 pixels that holds a small calculation."""

    name = "math"
    longest_edge = SIDE

    def draw(self, rng: random.Random, split: Split) -> tuple[Sequence[Image.Image], Sequence[Exchange], Slice]:
        """One picture and three exchanges."""
        part = draw_slice(rng, split)
        puzzle = rng.choice(PUZZLES)
        picture, exchanges = puzzle(rng, part)
        return [picture], exchanges, "seen" if puzzle in (_clock, _rectangle, _rows) else part


def _sheet(rng: random.Random) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    canvas = background(rng.choice(LIGHT), SIDE, SIDE)
    return canvas, ImageDraw.Draw(canvas)


def _three(
    rng: random.Random, kind: str, forms: Sequence[tuple[str, str]], facts: Sequence[dict[str, Fact | str | int]]
) -> list[Exchange]:
    """One exchange per set of facts, each in another form."""
    chosen = rng.sample(forms, len(facts))
    return [exchange(kind, Wording(*form), fields) for form, fields in zip(chosen, facts, strict=True)]


def _numbers(**values: int | str) -> dict[str, Fact | str | int]:
    return {name: fact(value) for name, value in values.items()}


# ---- equations ------------------------------------------------------------------------------------------------------
EQUATIONS = (
    (
        "What is the {asked}? Show your work.",
        "{total} / 2 = {a}, {sum} - {a} = {b}, {mix}: the {x} is {a}, the {y} {b}.",
    ),
    ("Solve the equations.", "{x} = {total} / 2 = {a}; {y} = {sum} - {a} = {b}; {mix}."),
    ("Find the value of each thing and the last line.", "{a} for {x} ({a} + {a} = {total}), {b} for {y}. {mix}."),
    (
        "How much is each thing worth?",
        "two {xs} are {total}, one is {a}; {sum} less {a} leaves {b} for the {y}; {mix}.",
    ),
    ("Work out the missing number.", "{mix}, since {x} {a} and {y} {b} ({total} / 2, {sum} - {a})."),
    ("Explain the puzzle line by line.", "{a} + {a} = {total}. {a} + {b} = {sum}. {mix}. {x} {a}, {y} {b}."),
    ("Which numbers stand for the things?", "{y} {b}, {x} {a}: {sum} - {a} = {b}, {a} = {total} / 2; {mix}."),
    ("Give only the solved lines.", "{x} {a} + {a} = {total} / {x} {a} + {y} {b} = {sum} / {mix}."),
    ("Compute the last line with reasons.", "half of {total} is {a} ({x}); {b} ({y}) remains of {sum}; {mix}."),
)


def _equations(rng: random.Random, part: Slice) -> Drawn:
    first, second = draw_sprites(rng, part, 2)
    a, b = rng.randint(1, 9), rng.randint(1, 9)
    sign = rng.choice("+-") if a >= b else "+"
    canvas, draw = _sheet(rng)
    rows = ((first, "+", first, str(2 * a)), (first, "+", second, str(a + b)), (first, sign, second, "?"))
    for i, (left, between, right, result) in enumerate(rows):
        _equation(canvas, draw, 32 * i, left, between, right, result)
    last = a + b if sign == "+" else a - b
    mixed = glued("{a} {sign} {b} = {last}", a=fact(a), sign=sign, b=fact(b), last=fact(last))
    names = {"x": fact(first.concept.name), "y": fact(second.concept.name), "xs": fact(first.concept.plural)}
    fields = {**_numbers(a=a, b=b, total=2 * a, sum=a + b), **names, "mix": mixed, "asked": second.concept.name}
    return canvas, _three(rng, "equation", EQUATIONS, [fields] * 3)


def _equation(
    canvas: Image.Image, draw: ImageDraw.ImageDraw, y: int, left: Sprite, sign: str, right: Sprite, result: str
) -> None:
    place(canvas, left, 1, y + 4, 24)
    write(draw, 32, y + 23, sign, LABEL, 18, INK, "ms")
    place(canvas, right, 39, y + 4, 24)
    write(draw, 68, y + 23, "=", LABEL, 18, INK, "ms")
    write(draw, 85, y + 23, result, LABEL, 18, INK, "ms")


# ---- clocks ---------------------------------------------------------------------------------------------------------
CLOCKS = (
    ("What time will it be in {add} minutes and in {more}?", "{now} now; {soon}, then {late}."),
    ("Read the clock, then add {add} and {more} minutes.", "{now} + {add} = {soon}, {now} + {more} = {late}."),
    ("A film starts in {add} minutes, a train goes in {more}. When?", "film {soon}, train {late}, now {now}."),
    (
        "The cake needs {add} minutes, the bread {more}. When are they done?",
        "cake at {soon}, bread at {late} (now {now}).",
    ),
    ("What do the hands show, and what {add} and {more} minutes later?", "{now}; {soon}; {late}."),
    ("Tell the time now, after {add} and after {more} minutes.", "now {now}, {add} later {soon}, {more} later {late}."),
    ("Wait {add} minutes, then {more} in all. Which times are these?", "{soon} and {late}, from {now}."),
    ("If you leave in {add} minutes and arrive in {more}, when is that?", "leave {soon}, arrive {late}; it is {now}."),
    ("Set two alarms: {add} and {more} minutes from now.", "alarms {soon} / {late}, clock {now}."),
)


def _clock(rng: random.Random, part: Slice) -> Drawn:
    del part  # the clock is drawn, not taken from the sprites
    canvas, draw = _sheet(rng)
    hour, minute = rng.randint(1, 12), rng.randrange(0, 60, 5)
    draw.ellipse(
        (3, 3, 93, 93), fill=(255, 255, 255), outline=rng.choice(((40, 60, 120), (120, 40, 40), (40, 90, 60))), width=4
    )
    for tick in range(12):
        x, y = _polar(tick / 12, 36)
        write(draw, x, y + 5, str(tick or 12), LABEL, 13, INK, "ms")
    draw.line((48, 48, *_polar((hour + minute / 60) / 12, 18)), fill=INK, width=6)
    draw.line((48, 48, *_polar(minute / 60, 28)), fill=(200, 30, 40), width=3)
    draw.ellipse((45, 45, 51, 51), fill=INK)
    facts = []
    for _ in range(3):
        add, more = rng.randrange(5, 60, 5), rng.randrange(60, 180, 5)
        now, soon, late = (_time(60 * hour + minute + later) for later in (0, add, more))
        facts.append({**_numbers(now=now, soon=soon, late=late), "add": add, "more": more})
    return canvas, _three(rng, "clock", CLOCKS, facts)


def _polar(turn: float, radius: float) -> tuple[float, float]:
    return 48 + radius * math.sin(2 * math.pi * turn), 48 - radius * math.cos(2 * math.pi * turn)


def _time(minutes: int) -> str:
    return f"{minutes // 60 % 12 or 12}:{minutes % 60:02d}"


# ---- rectangles -----------------------------------------------------------------------------------------------------
PAINTS = {"orange": (255, 160, 90), "red": (240, 110, 110), "green": (130, 210, 120), "brown": (205, 160, 120),
          "violet": (190, 150, 235), "gold": (245, 205, 60)}  # fmt: skip
RECTANGLES = (
    ("What are the areas, and the sum?", "{p} {w} x {h} = {a}, {q} {v} x {k} = {b}, {a} + {b} = {all}."),
    ("How long are the two borders?", "{p}: {w} + {h} = {s}, twice {s2}; {q}: {v} + {k} = {t}, twice {t2}."),
    ("Compare the rectangles.", "{p} has {a} from {w} x {h}, {q} {b} from {v} x {k}, gap {gap}."),
    ("Which shape is larger, by how much?", "{big} by {gap}: {p} {a}, {q} {b} ({w} x {h}, {v} x {k})."),
    ("How many tiles does each floor take?", "{w} x {h} is {a} ({p}); {v} x {k} is {b} ({q}); in all {all}."),
    ("A fence goes round each shape. How long are both?", "{s2} for {p} ({s} + {s}), {t2} for {q}, {fence} together."),
    ("Give sides, border and area of both.", "{p} {w}, {h}, {s2}, {a}; {q} {v}, {k}, {t2}, {b}."),
    ("Read the sizes from below.", "{q} {v} by {k} makes {b} / {p} {w} by {h} makes {a} / {all}."),
    ("Add the areas, then name the larger one.", "{a} + {b} = {all}, {w} x {h} and {v} x {k}: {big}."),
)


def _rectangle(rng: random.Random, part: Slice) -> Drawn:
    del part
    canvas, draw = _sheet(rng)
    (p, q), sizes = rng.sample(sorted(PAINTS), 2), []
    for i, paint in enumerate((p, q)):
        w, h = rng.randint(4, 9), rng.randint(2, 5)
        sizes.append((w, h))
        left, top, right, bottom = 48 - 5 * w, 24 + 48 * i - 10 - 2 * h, 48 + 5 * w, 24 + 48 * i + 10 + 2 * h
        draw.rectangle((left, top, right, bottom), fill=PAINTS[paint], outline=INK, width=2)
        write(draw, 48, 30 + 48 * i, f"{w} x {h}", LABEL, 17, INK, "ms")
    (w, h), (v, k) = sizes
    a, b, s, t = w * h, v * k, w + h, v + k
    fields = {
        **_numbers(p=p, q=q, w=w, h=h, v=v, k=k, a=a, b=b, s=s, t=t, s2=2 * s, t2=2 * t),
        **_numbers(all=a + b, gap=abs(a - b), fence=2 * s + 2 * t, big="equal" if a == b else p if a > b else q),
    }
    return canvas, _three(rng, "rectangle", RECTANGLES, [fields] * 3)


# ---- prices ---------------------------------------------------------------------------------------------------------
PRICES = (
    ("What do {n} {xs}, {m} {ys} and {k} {zs} cost?", "{n} x {a} = {na}, {m} x {b} = {mb}, {k} x {c} = {kc}: {all}."),
    (
        "I buy {n} {xs}, {m} {ys}, {k} {zs}. How much is that?",
        "{na} for {xs} at {a}, {mb} for {ys} at {b}, {kc} for {zs} at {c}, {all}.",
    ),
    ("Add up {n} {xs}, {m} {ys}, {k} {zs}.", "{xs} {na}, {ys} {mb}, {zs} {kc}, sum {all} from {a}, {b}, {c}."),
    (
        "Find the price of {n} {xs}, {m} {ys} and {k} {zs}.",
        "{a} x {n} + {b} x {m} + {c} x {k} = {na} + {mb} + {kc} = {all}.",
    ),
    ("How much money for {k} {zs}, {m} {ys} and {n} {xs}?", "{kc} + {mb} + {na} = {all}; {z} {c}, {y} {b}, {x} {a}."),
    ("Write a bill for {n} {xs}, {m} {ys}, {k} {zs}.", "{n} {xs} {na} / {m} {ys} {mb} / {k} {zs} {kc} / {all}."),
    (
        "Can I get {n} {xs}, {m} {ys} and {k} {zs} for {budget}?",
        "{verdict}: {na} + {mb} + {kc} = {all} ({x} {a}, {y} {b}, {z} {c}).",
    ),
    ("Pay {n} {xs}, {m} {ys}, {k} {zs}.", "{all}, which is {na}, {mb} and {kc} at {a}, {b} and {c}."),
    (
        "What is the total of {m} {ys}, {n} {xs} and {k} {zs}?",
        "total {all}: {m} x {b} is {mb}, {n} x {a} is {na}, {k} x {c} is {kc}.",
    ),
)


def _prices(rng: random.Random, part: Slice) -> Drawn:
    canvas, draw = _sheet(rng)
    sprites = draw_sprites(rng, part, 3)
    prices = rng.sample(range(2, 10), 3)
    for i, (sprite, price) in enumerate(zip(sprites, prices, strict=True)):
        place(canvas, sprite, 6, 32 * i + 2, 28)
        write(draw, 72, 32 * i + 24, str(price), LABEL, 21, INK, "ms")
    facts = []
    for _ in range(3):
        (x, a), (y, b), (z, c) = rng.sample([(s.concept, p) for s, p in zip(sprites, prices, strict=True)], 3)
        n, m, k = (rng.randint(2, 5) for _ in range(3))
        total = n * a + m * b + k * c
        budget = total + rng.choice((-3, -2, -1, 1, 2, 3))
        facts.append({
            **_numbers(a=a, b=b, c=c, na=n * a, mb=m * b, kc=k * c, all=total, x=x.name, y=y.name, z=z.name),
            **_numbers(xs=x.plural, ys=y.plural, zs=z.plural, verdict="yes" if total <= budget else "no"),
            "n": n, "m": m, "k": k, "budget": budget,
        })  # fmt: skip
    return canvas, _three(rng, "price", PRICES, facts)


# ---- counting sums --------------------------------------------------------------------------------------------------
SUMS = (
    ("Count each kind and add up.", "{a} {xs} + {b} {ys} + {c} {z} = {all}."),
    ("How many {xs} and {ys} are there, and how many {zs}? Sum?", "{a} {xs} + {b} {ys} = {ab}, + {c} {z} = {all}."),
    ("How many things are there in all, and of which kinds?", "{all}: {xs} {a}, {ys} {b}, {z} {c}."),
    ("If two {xs} go away, what is left?", "{xs} {a} - 2 = {less}, {ys} {b}, {z} {c}, so {rest} of {all}."),
    ("Double the {zs} and count again.", "{c} {z} x 2 = {double}, {a} {xs}, {b} {ys}, so {grown}; before {all}."),
    (
        "Three more {xs} come. Count before and after.",
        "{a} {xs}, {b} {ys}, {c} {z}, {all}; after {plus} {xs}, {more}.",
    ),
    ("Multiply the counts of {xs} and {ys}.", "{xs} {a} x {ys} {b} = {times}; {z} {c}, all {all}."),
    ("How do the three kinds compare?", "{xs} {a}, {ys} {b}, {z} {c}; gaps {gap} and {gap2}."),
    ("Take the {ys} away from the whole.", "{all} - {b} {ys} = {ac}: {a} {xs}, {c} {z}."),
)


def _sums(rng: random.Random, part: Slice) -> Drawn:
    canvas, _ = _sheet(rng)
    a, b, c = rng.choice(((4, 3, 2), (4, 3, 1), (5, 3, 1), (4, 2, 1), (5, 2, 1), (3, 2, 1), (6, 2, 1)))
    sprites = draw_sprites(rng, part, 3)  # in falling order of their counts, as the answers name them
    cells = rng.sample(range(9), a + b + c)
    for cell, sprite in zip(cells, [s for s, n in zip(sprites, (a, b, c), strict=True) for _ in range(n)], strict=True):
        x, y = cell % 3 * 32 + rng.randint(0, 4), cell // 3 * 32 + rng.randint(0, 4)
        place(canvas, sprite, x, y, 28)
    xs, ys, zs = (sprite.concept for sprite in sprites)
    fields = {
        **_numbers(a=a, b=b, c=c, ab=a + b, ac=a + c, all=a + b + c, gap=a - b, gap2=b - c, less=a - 2, double=2 * c),
        **_numbers(rest=a + b + c - 2, grown=a + b + 2 * c, plus=a + 3, more=a + b + c + 3, times=a * b),
        **_numbers(xs=xs.plural, ys=ys.plural, zs=zs.plural, z=zs.count(c)),
    }
    return canvas, _three(rng, "sum", SUMS, [fields] * 3)


# ---- number rows ----------------------------------------------------------------------------------------------------
ROWS = (
    ("Continue the row of numbers.", "{seen}: step {step}; {next}.", ", "),
    ("Which numbers come next, and why?", "{next}, as {seen} grow by {step}.", " and "),
    ("Find the rule and three more numbers.", "+ {step}. {seen}, {next}.", " / "),
    ("What is the step, and what follows?", "{step}; {next} follow {seen}.", " then "),
    ("Read the numbers and go on.", "{seen} / {next} / {step}.", " - "),
    ("How does the row go on after the last number?", "from {seen} on with {step}: {next}.", "; "),
    ("Write the whole row, with the next three.", "{seen}, {next} ({step} more each).", " < "),
    ("Say the last three of six, then the first three.", "{next}; {seen}; step {step}.", " to "),
    ("What does the question mark hide, and what comes later?", "{next} after {seen}, step {step}.", " on "),
)


def _rows(rng: random.Random, part: Slice) -> Drawn:
    del part
    canvas, draw = _sheet(rng)
    start, step = rng.randint(1, 40), rng.randint(2, 19)
    values = [start + i * step for i in range(6)]
    for i, text in enumerate([*map(str, values[:3]), "?"]):
        write(draw, 24 + 48 * (i % 2), 32 + 46 * (i // 2), text, LABEL, 24, INK, "ms")
    exchanges = []
    for question, answer, separator in rng.sample(ROWS, 3):
        fields = {
            "seen": joined([fact(value) for value in values[:3]], separator),
            "next": joined([fact(value) for value in values[3:]], separator), "step": fact(step),
        }  # fmt: skip
        exchanges.append(exchange("row", Wording(question, answer), fields))
    return canvas, exchanges


PUZZLES: tuple[Callable[[random.Random, Slice], Drawn], ...] = (
    *(_equations, _equations, _prices, _prices, _prices, _sums, _sums),
    *(_clock, _clock, _rectangle, _rows),
)
