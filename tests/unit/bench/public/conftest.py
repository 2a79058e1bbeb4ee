"""Each small table is written once a session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unit.bench.public.tables import MMSPEC_ROWS, TABLES, picture, table


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Benchmark -> a local copy: tables as Parquet, MMSpec as its JSON Lines beside `images/`."""
    root = tmp_path_factory.mktemp("public")
    found: dict[str, Path] = {}
    for name in TABLES:
        found[name] = root / f"{name}.parquet"
        table(name).to_parquet(found[name])
    found["mmspec"] = root / "mmspec" / "mmspec.jsonl"
    for i, row in enumerate(MMSPEC_ROWS):
        file = found["mmspec"].parent / "images" / row["image"]
        file.parent.mkdir(parents=True)
        picture(i).save(file)
    found["mmspec"].write_text("\n".join(map(json.dumps, MMSPEC_ROWS)) + "\n")
    return found
