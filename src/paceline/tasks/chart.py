"""Chart family: bars, columns, pies and two-line panels of real country tables, every value printed (192 px)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from PIL import Image

from paceline.tasks.charts import PALETTE, SIDE, Bar, draw_columns, draw_lines, draw_pie, draw_rows
from paceline.tasks.lettering import Face, faces
from paceline.tasks.listing import Listing, list_rows
from paceline.tasks.material import draw_slice
from paceline.tasks.scene import Exchange, Slice, Split
from paceline.tasks.tables import UNSEEN_COUNTRIES, Row, countries
from paceline.tasks.wording import Fact, Wording, ask, fact, glued, joined

SPREAD = 20  # largest ratio of two values in one chart
MEASURES = ("life", "people", "income")  # column of the table and title of the chart

READ = (
    Listing("Read all values of the chart.", "{label} {value}", ", ", "{title} {year}: {rows}."),
    Listing("What does the chart show?", "{label} with {value}", ", ", "{title}, {year}: {rows}."),
    Listing("List the values of the chart in order.", "{value} for {label}", "; ", "{rows}, {title} {year}."),
    Listing("Name each country with its value.", "{label}: {value}", "; ", "{rows}."),
    Listing("Turn the chart into a line of text.", "{label} - {value}", ", ", "{title} {year}, {rows}."),
    Listing("Which value belongs to which country?", "{value} to {label}", ", ", "{rows}."),
    Listing(
        "Give the numbers of the chart and what they belong to.", "{value} ({label})", ", ", "{rows}; {title} {year}."
    ),
    Listing("Copy the chart as a table.", "{label} {value}", " / ", "{title} {year} / {rows}."),
    Listing("Describe the chart, value by value.", "{label} has {value}", " and ", "In {year} {rows}."),
)
FALLING = (
    Listing(
        "Sort the countries from the largest to the smallest value.", "{label} {value}", ", ", "{title} {year}: {rows}."
    ),
    Listing("Rank the values, the highest first.", "{value} for {label}", "; ", "{rows} in {year}."),
    Listing("Who comes first, second and so on?", "{label} with {value}", ", ", "{title} {year}: {rows}."),
    Listing("Order the chart downward.", "{label}: {value}", "; ", "{rows}; {title} {year}."),
    Listing("Write the values in falling order.", "{value} ({label})", ", ", "{title} {year}: {rows}."),
    Listing("Start at the top value and go down.", "{label} has {value}", " then ", "{rows}."),
    Listing("Which is the largest, and which follow?", "{label} - {value}", ", ", "{title} {year}: {rows}."),
    Listing("Make a list of {title} by size, large to small.", "{label} {value}", " / ", "{year} / {rows}."),
)
RISING = (
    Listing(
        "Sort the countries from the smallest to the largest value.", "{label} {value}", "; ", "{rows}; {title} {year}."
    ),
    Listing("Rank the values, the lowest first.", "{value} for {label}", ", ", "{title}: {rows}."),
    Listing("Who comes last, who is before that, and so on?", "{label} with {value}", "; ", "{rows} in {year}."),
    Listing("Order the chart upward.", "{label}: {value}", ", ", "{title} {year}: {rows}."),
    Listing("Write the values in rising order.", "{value} ({label})", "; ", "{rows}; {title} {year}."),
    Listing("Start at the bottom value and go up.", "{label} has {value}", ", ", "{title} {year}: {rows}."),
    Listing("Which is the smallest, and which follow?", "{label} - {value}", "; ", "{rows}."),
    Listing("Make a list of {title} by size, small to large.", "{label} {value}", ", ", "{year}: {rows}."),
)
EXTREMES = (
    Wording(
        "What are the largest and the smallest value, and how far apart are they?",
        "{high} is largest with {most}, {low} smallest with {least}, {gap} apart; {middle} between.",
    ),
    Wording(
        "Which country leads and which comes last?",
        "{high} leads with {most}, then {middle}, and {low} is last with {least}.",
    ),
    Wording(
        "Find the minimum, the maximum and the difference.",
        "Minimum {least}, {low}; maximum {most}, {high}; difference {gap}; others {middle}.",
    ),
    Wording(
        "Find the maximum, the minimum and the difference.",
        "Maximum {most}, {high}; minimum {least}, {low}; difference {gap} in {year}.",
    ),
    Wording(
        "How much larger is the top value than the bottom one?",
        "By {gap}: {most} in {high} against {least} in {low}, past {middle}.",
    ),
    Wording(
        "Subtract the smallest value from the largest.", "{most} - {least} = {gap}, {high} less {low}; {title} {year}."
    ),
    Wording(
        "Which country is lowest and which is highest?",
        "{low} is lowest at {least}, {high} highest at {most}; also {middle}.",
    ),
    Wording(
        "Who has most and who has least?", "Most: {high}, {most}. Least: {low}, {least}. Gap: {gap}. Between: {middle}."
    ),
)
COLORS = (
    Listing("Which color stands for which country?", "{color} {label}, {value}", "; ", "{rows}."),
    Listing("Go through the colors of the chart.", "{color} is {label} at {value}", ", ", "{title} {year}: {rows}."),
    Listing("Name the color and the value of each country.", "{label}: {color}, {value}", "; ", "{rows}."),
    Listing(
        "Describe every mark of the chart with its color.", "{label} {color} {value}", ", ", "{title} {year}: {rows}."
    ),
    Listing("What do the colors mean?", "{color} means {label} ({value})", ", ", "{title} {year}: {rows}."),
    Listing("Give value, color and country in turn.", "{value} {color} {label}", "; ", "{rows}."),
    Listing(
        "How is each country painted, and what is its value?",
        "{label} in {color} {value}",
        ", ",
        "{title} {year}: {rows}.",
    ),
    Listing("Give country, value and color in turn.", "{label} {value} {color}", "; ", "{rows}."),
)
COMPARE = (
    Wording("Compare {one} with {two}.", "{one} has {first}, {two} {second}; {more} is {gap} ahead; besides, {rest}."),
    Wording(
        "Is the value of {one} above that of {two}?",
        "{answer}: {first} against {second}, {more} leads by {gap} in {year}.",
    ),
    Wording("Which has more, {one} or {two}?", "{more} has {gap} more: {one} {first}, {two} {second}; {title} {year}."),
    Wording(
        "Which has less, {one} or {two}?",
        "{less} has {gap} less: {first} for {one}, {second} for {two}, others {rest}.",
    ),
    Wording(
        "What is the difference between {one} and {two}?",
        "{title} {year} is {first} and {second}, so {gap}; {more} is larger.",
    ),
    Wording(
        "Look up {one} and {two}.", "{one}: {first}. {two}: {second}. {more} is above {less} by {gap}. Also {rest}."
    ),
    Wording("How far is {one} from {two}?", "{gap} apart, {first} in {one} and {second} in {two}; else {rest}."),
    Wording("Say who wins, {one} or {two}.", "{more} wins in {year}, {most} to {least}, ahead by {gap}; {rest} watch."),
)
SERIES = (
    Listing("Read both lines of the chart.", "{label} {values}", "; ", "{title}, {rows}."),
    Listing("What are the values of the two countries?", "{label}: {values}", ". ", "{rows}."),
    Listing("List the numbers along each line.", "{values} for {label}", "; ", "{rows}."),
    Listing("Copy the upper and the lower panel.", "{label} - {values}", " / ", "{title} / {rows}."),
    Listing("How did the two countries develop?", "{label} went {values}", " and ", "{rows}."),
    Listing("Give the values first, then the country, for both.", "{values}, {label}", "; ", "{rows}."),
    Listing("Follow each line from left to right.", "{label} with {values}", ", ", "{title}: {rows}."),
    Listing("Turn the two lines into text.", "{label} ({values})", ", ", "{rows}."),
)
CHANGES = (
    Listing("How much did each country change?", "{label} {change} from {start} to {end}", ", ", "{rows}."),
    Listing(
        "Compare the first and the last value of each line.",
        "{label}: first {start}, last {end}, {change}",
        "; ",
        "{rows}.",
    ),
    Listing("Where do the lines start and end?", "{label} at {start} and {end}", "; ", "{rows}."),
    Listing("What is the change of each country?", "{change} for {label}, {start} to {end}", "; ", "{rows}."),
    Listing("Give end and start of both lines.", "{label} {end} after {start}", ", ", "{rows}."),
    Listing("By how much do the lines move?", "{label} by {change}, {start} - {end}", "; ", "{rows}."),
    Listing("Subtract the first value from the last one.", "{end} - {start} = {change}, {label}", "; ", "{rows}."),
    Listing("Report the start, the change and the end.", "{label} {start}, {change}, {end}", " / ", "{rows}."),
)
BACKWARD = (
    Listing("Read both lines backward, from right to left.", "{label} {values}", "; ", "{rows}."),
    Listing("List the values of each country, the latest first.", "{values} for {label}", ", ", "{rows}."),
    Listing("Go back in time along both lines.", "{label}: {values}", ". ", "{rows}."),
    Listing("Copy the panels from right to left.", "{label} - {values}", " / ", "{rows}."),
    Listing("From the end to the start, what are the values?", "{label} with {values}", "; ", "{rows}."),
    Listing("Give each line in reverse, then its name.", "{values}, {label}", "; ", "{rows}."),
    Listing("Undo the lines step by step.", "{label} ({values})", ", ", "{rows}."),
    Listing("Which values come last, before that, and first?", "{label} has {values}", " and ", "{rows}."),
)
COLUMNS = (
    Listing(
        "Compare the two countries year by year.", "{year}: {first} and {second}", "; ", "{top} and {bottom}, {rows}."
    ),
    Listing("Give the pair of values for every year.", "{year} {first} {second}", ", ", "{rows}."),
    Listing("What does each year show, upper value first?", "{first} / {second} in {year}", ", ", "{rows}."),
    Listing("What does each year show, lower value first?", "{second} / {first} in {year}", ", ", "{rows}."),
    Listing("Read the chart column by column.", "{first} over {second} ({year})", ", ", "{rows}."),
    Listing("Put {bottom} against {top}.", "{second} to {first} in {year}", "; ", "{rows}."),
    Listing("Put {top} against {bottom}.", "{first} to {second} in {year}", "; ", "{rows}."),
    Listing("Make a table with years, {top} and {bottom}.", "{year} {first} {second}", " / ", "{rows}."),
)


class Chart:
    """Row bars, column bars, pies (three or four countries of one year) and two lines over three years."""

    name = "chart"
    longest_edge = SIDE

    def draw(self, rng: random.Random, split: Split) -> tuple[Sequence[Image.Image], Sequence[Exchange], Slice]:
        """One 192-px picture with four exchanges."""
        part = draw_slice(rng, split)
        face = rng.choice(faces(part))
        shape = rng.choice(("rows", "rows", "columns", "pie", "lines"))
        table = countries(split, part)
        if shape == "lines":
            picture, exchanges = lines(rng, countries_over_time(rng, split, part), face)
        else:
            picture, exchanges = snapshot(rng, shape, rng.choice(list(table)), table, part, face)
        return [picture], exchanges, part


def pick(rng: random.Random, rows: Sequence[Row], measure: str, part: Slice, number: int, letters: int) -> list[Row]:
    """Up to `number` rows, values positive, distinct, within SPREAD; "new" begins with held-out countries."""
    chosen: list[Row] = []
    usable = [r for r in rows if getattr(r, measure) > 0 and len(r.country) <= letters]
    rng.shuffle(usable)
    if part == "new":
        usable.sort(key=lambda r: r.country not in UNSEEN_COUNTRIES)
    for row in usable:
        values = {getattr(c, measure) for c in chosen}
        value = getattr(row, measure)
        if len(chosen) < number and value not in values and max(values | {value}) <= SPREAD * min(values | {value}):
            chosen.append(row)
    rng.shuffle(chosen)
    return chosen


def snapshot(
    rng: random.Random, shape: str, year: int, table: dict[int, tuple[Row, ...]], part: Slice, face: Face
) -> tuple[Image.Image, list[Exchange]]:
    """A chart of one measure in one year."""
    measure = rng.choice(MEASURES if shape != "pie" else ("people", "income"))
    rows = pick(rng, table[year], measure, part, rng.choice((3, 4, 4, 4)), 8 if shape == "rows" else 5)
    colors = rng.sample(list(PALETTE), len(rows))
    bars = [Bar(r.country, getattr(r, measure), c) for r, c in zip(rows, colors, strict=True)]
    draw = {"rows": draw_rows, "columns": draw_columns, "pie": draw_pie}[shape]
    return draw(rng, bars, f"{measure} {year}", face), bar_exchanges(rng, bars, {"title": measure, "year": fact(year)})


def bar_exchanges(rng: random.Random, bars: Sequence[Bar], frame: dict[str, Fact | str | int]) -> list[Exchange]:
    """Reading, sorting, extremes or comparison, and colors."""
    fields = [{"label": fact(b.label), "value": fact(b.value), "color": fact(b.color)} for b in bars]
    ranked = sorted(fields, key=lambda f: int(f["value"].text))
    low, high = ranked[0], ranked[-1]
    gap = int(high["value"].text) - int(low["value"].text)
    middle = joined((glued("{label} {value}", **row) for row in ranked[-2:0:-1]), ", ")
    extremes = {
        "middle": middle,
        "high": high["label"],
        "most": high["value"],
        "low": low["label"],
        "least": low["value"],
        "gap": fact(gap),
    }
    order = ("falling", FALLING, ranked[::-1]) if rng.random() < 0.5 else ("rising", RISING, ranked)
    return [
        list_rows(rng, "read", READ, fields, frame),
        list_rows(rng, *order, frame),
        ask(rng, "extremes", EXTREMES, {**frame, **extremes}),
        list_rows(rng, "colors", COLORS, fields, frame),
        compare(rng, bars, frame),
    ]


def compare(rng: random.Random, bars: Sequence[Bar], frame: dict[str, Fact | str | int]) -> Exchange:
    """Two of the marks, named in the question, against each other."""
    one, two = rng.sample(list(bars), 2)
    more, less = (one, two) if one.value > two.value else (two, one)
    fields = {"one": one.label, "two": two.label, "more": fact(more.label), "less": fact(less.label)}
    values = {"first": fact(one.value), "second": fact(two.value), "most": fact(more.value), "least": fact(less.value)}
    rest = joined(
        (glued("{label} {value}", label=fact(b.label), value=fact(b.value)) for b in bars if b not in (one, two)), ", "
    )
    outcome = {"rest": rest, "gap": fact(more.value - less.value), "answer": fact("yes" if one is more else "no")}
    return ask(rng, "compare", COMPARE, {**frame, **fields, **values, **outcome})


def countries_over_time(
    rng: random.Random, split: Split, part: Slice
) -> tuple[str, list[int], list[tuple[str, list[int]]]]:
    """A measure, three years, two countries with their values; val and test chart a year of their own."""
    table = countries(split, part) if split == "train" else {**countries("train", part), **countries(split, part)}
    own = list(countries(split, part))
    years = {rng.choice(own)}
    while len(years) < 3:
        years.add(rng.choice(list(table)))
    measure = rng.choice(MEASURES)
    picked = pick(rng, table[min(years)], measure, part, 2, 8)
    series = []
    for row in picked:
        values = [getattr(r, measure) for y in sorted(years) for r in table[y] if r.country == row.country]
        series.append((row.country, values))
    return measure, sorted(years), series


def lines(
    rng: random.Random, data: tuple[str, list[int], list[tuple[str, list[int]]]], face: Face
) -> tuple[Image.Image, list[Exchange]]:
    """Two panels, one country each, with three labelled points."""
    measure, years, series = data
    frame: dict[str, Fact | str | int] = {"title": measure, "top": series[0][0], "bottom": series[1][0]}
    forward = [{"label": fact(name), "values": run(values)} for name, values in series]
    backward = [{"label": fact(name), "values": run(values[::-1])} for name, values in series]
    ends = [
        {"label": fact(n), "start": fact(v[0]), "end": fact(v[-1]), "change": fact(v[-1] - v[0])} for n, v in series
    ]
    pairs = [
        {"year": fact(y), "first": fact(a), "second": fact(b)}
        for y, a, b in zip(years, series[0][1], series[1][1], strict=True)
    ]
    exchanges = [
        list_rows(rng, "series", SERIES, forward, frame),
        list_rows(rng, "backward", BACKWARD, backward, frame),
        list_rows(rng, "changes", CHANGES, ends, frame),
        list_rows(rng, "years", COLUMNS, pairs, frame),
    ]
    return draw_lines(rng, measure, years, series, face), exchanges


def run(values: Sequence[int]) -> Fact:
    """Numbers in a row as one fact with one item each."""
    return Fact(", ".join(map(str, values)), tuple(map(str, values)))
