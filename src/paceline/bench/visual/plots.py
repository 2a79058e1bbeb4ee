"""Plots of the visual benchmark: forwards saved by window, and the grid coloured by the round that settled it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paceline.drafters.free.jacobi import PLAIN
from paceline.errors import UsageError

Record = Mapping[str, Any]
KINDS = ("png", "svg")
STYLE = {"exact": "-", "biased": ":", "lossy": "--"}


def write(document: Record, folder: Path) -> list[Path]:
    """Write every plot as PNG and SVG into the folder, which is made. Raises UsageError without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        raise UsageError("--plots needs matplotlib: pip install 'paceline[report]'") from None
    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    rows = [r for r in (*document["rows"], *document["lossy"]) if r["part"] == "all"]
    for task, temperature in dict.fromkeys((r["task"], r["temperature"]) for r in rows):
        here = [r for r in rows if (r["task"], r["temperature"]) == (task, temperature)]
        stem = f"{task}-t{temperature:g}"
        made += _save(ratio_by_window(here, f"{task}, T = {temperature:g}"), folder / f"{stem}-nfe-ratio")
        grids = [s for s in document["settled"] if (s["task"], s["temperature"]) == (task, temperature)]
        made += _save(settling(grids, document["meta"]["layouts"][task]), folder / f"{stem}-settling")
    return made


def ratio_by_window(rows: Sequence[Record], title: str) -> Any:
    """A figure: nfe ratio against L, a line for each method and start, with its interval where there is one."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    lines = dict.fromkeys((r["method"], r["start"], r["kind"]) for r in rows if r["method"] != PLAIN)
    for method, start, kind in lines:
        own = sorted((r for r in rows if (r["method"], r["start"]) == (method, start)), key=lambda r: r["window"])
        windows, values = [r["window"] for r in own], [r["nfe_ratio"] for r in own]
        [line] = axes.plot(windows, values, STYLE[kind], marker="o", label=f"{method}, {start}")
        if all(r["nfe_ratio_ci"] for r in own):
            low, high = zip(*(r["nfe_ratio_ci"] for r in own), strict=True)
            axes.fill_between(windows, low, high, color=line.get_color(), alpha=0.15)
    axes.axhline(1, color="grey", linewidth=0.8)
    axes.set(xlabel="window L", ylabel="forwards of plain decoding / forwards", title=title)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted({r["window"] for r in rows if r["window"] > 1}), minor=False)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.legend(fontsize=7)
    return figure


def settling(grids: Sequence[Record], layout: Sequence[int]) -> Any:
    """A figure: one picture for each method at the widest window, its codes coloured by the round that settled them."""
    from matplotlib.figure import Figure

    widest = max(grid["window"] for grid in grids)
    shown = [grid for grid in grids if grid["window"] == widest]
    figure = Figure(figsize=(2.4 * len(shown), 3.0), layout="constrained")
    for axes, grid in zip(np.atleast_1d(figure.subplots(1, len(shown))), shown, strict=True):
        rounds = np.array(grid["rounds"])
        tiles = list(rounds[-layout[0] * layout[1] * layout[2] :].reshape(layout))
        axes.imshow(_mosaic(tiles), cmap="viridis", interpolation="nearest")
        axes.set_title(f"{grid['method']}\n{rounds.max() + 1} forwards", fontsize=8)
        axes.set_axis_off()
    figure.suptitle(f"round that settled each code, L = {widest}: {grids[0]['caption']}", fontsize=8)
    return figure


def _mosaic(tiles: Sequence[np.ndarray]) -> np.ndarray:
    """Frames in a square as far as they go, a line of nothing between them."""
    columns = int(np.ceil(np.sqrt(len(tiles))))
    padded = [np.pad(tile.astype(float), ((0, 1), (0, 1)), constant_values=np.nan) for tile in tiles]
    blank = np.full_like(padded[0], np.nan)
    padded += [blank] * (-len(padded) % columns)
    lines = [np.concatenate(padded[i : i + columns], 1) for i in range(0, len(padded), columns)]
    return np.concatenate(lines)[:-1, :-1]


def _save(figure: Any, stem: Path) -> list[Path]:
    paths = [stem.with_name(f"{stem.name}.{kind}") for kind in KINDS]
    for path in paths:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths
