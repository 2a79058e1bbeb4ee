"""Recipe of the two sprite atlases: fetches the emoji packages by name and packs the chosen concepts at 64 px.

    python -m paceline.tasks.assets.build [--material DIR]

Needs `npm` unless DIR already holds the unpacked packages. Overwrites noto.png and fluent.png beside this file.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import tarfile
from pathlib import Path

from PIL import Image

ASSETS = Path(__file__).parent
PACKAGES = {  # folder name -> what `npm pack` fetches
    "emoji-datasource-google-16.0.0": "emoji-datasource-google@16.0.0",
    "lobehub-fluent-emoji-3d-1.1.0": "@lobehub/fluent-emoji-3d@1.1.0",
}
SIDE = 64  # pixels of one sprite
COLUMNS = 12


def fetch(root: Path) -> None:
    """Unpacks both emoji packages below `root` (about 90 MB) unless they are there."""
    for folder, package in PACKAGES.items():
        target = root / folder
        if target.is_dir():
            continue
        root.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "pack", package], cwd=root, check=True)
        with tarfile.open(root / f"{folder}.tgz") as archive:
            archive.extractall(target, filter="data")


def squared(picture: Image.Image, side: int) -> Image.Image:
    """Crops to the visible part and fits it, centred, into a transparent square of `side` pixels."""
    picture = picture.convert("RGBA")
    alpha = picture.getchannel("A").point([255 if a > 16 else 0 for a in range(256)])
    picture = picture.crop(alpha.getbbox())
    scale = side / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    picture = picture.resize(size, Image.Resampling.LANCZOS)
    canvas = Image.new("RGBA", (side, side), (0, 0, 0, 0))
    canvas.paste(picture, ((side - size[0]) // 2, (side - size[1]) // 2))
    return canvas


def pack(pictures: list[Path], target: Path) -> None:
    """Writes one atlas, row by row in the order of concepts.tsv."""
    rows = -(-len(pictures) // COLUMNS)
    atlas = Image.new("RGBA", (COLUMNS * SIDE, rows * SIDE), (0, 0, 0, 0))
    for i, path in enumerate(pictures):
        with Image.open(path) as picture:
            atlas.paste(squared(picture, SIDE), (i % COLUMNS * SIDE, i // COLUMNS * SIDE))
    atlas.save(target, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the sprite atlases.")
    parser.add_argument("--material", type=Path, default=Path("material"), help="folder of the unpacked npm packages")
    root = parser.parse_args().material
    fetch(root)
    noto, fluent = (root / folder / "package" for folder in PACKAGES)
    with open(noto / "emoji.json", encoding="utf8") as file:
        records = {record["short_name"]: record for record in json.load(file)}
    with open(ASSETS / "concepts.tsv", encoding="utf8") as file:
        chosen = [records[row["short_name"]] for row in csv.DictReader(file, delimiter="\t")]
    pack([noto / "img/google/64" / record["image"] for record in chosen], ASSETS / "noto.png")
    pack([fluent / "assets" / f"{record['unified'].lower()}.webp" for record in chosen], ASSETS / "fluent.png")


if __name__ == "__main__":
    main()
