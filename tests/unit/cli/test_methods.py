"""`paceline methods`: records for programs, a table for people, filters that refuse what there is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline import drafters, taxonomy

Run = Callable[..., Any]


def names(told: Any) -> set[str]:
    assert told.code == 0, told.err
    return {record["name"] for record in json.loads(told.out)}


def test_records(run: Run) -> None:
    records = json.loads(run("methods", "--json").out)
    assert [record["name"] for record in records] == [method.name for method in taxonomy.methods()]
    (scd,) = json.loads(run("methods", "scd", "--json").out)
    assert scd["class"] == drafters.METHODS["jacobi"]
    assert (scd["level"], scd["options"], scd["runnable"]) == (0, {"method": "scd-maximal"}, True)
    assert scd["conditioning"]["source"] == ["laws"]
    (viskip,) = json.loads(run("methods", "viskip", "--json").out)
    assert (viskip["level"], viskip["class"], viskip["runnable"]) == (None, None, False)


def test_filters(run: Run) -> None:
    blocks = names(run("methods", "--level", "3", "--json"))
    assert {"dflash", "glance"} <= blocks
    assert "eagle-3" not in blocks
    assert names(run("methods", "--level", "2,3", "--json")) > blocks
    assert names(run("methods", "--level", "3", "--modality", "image", "--json")) < blocks
    free = names(run("methods", "--runnable", "--level", "0", "--json"))
    assert {"plain", "sjd", "scd", "prompt-lookup"} <= free
    assert "lookahead" not in free
    found = names(run("methods", "--where", "source=target-kv", "--where", "amount=pruned", "--json"))
    assert "triforce" in found
    assert "kangaroo" not in found
    assert names(run("methods", "--where", "target-type=native", "--json")) == set()
    assert "svip" in names(run("methods", "--where", "guarantee=unknown", "--json"))


def test_the_tables(run: Run) -> None:
    told = run("methods", "--level", "3", "--runnable")
    assert any(line.split() == ["dflash", "3", "block-diffusion", "distribution-exact", "dflash"]
               for line in told.out.splitlines())  # fmt: skip
    assert "methods" in told.err
    assert "no method has all of this" in run("methods", "--level", "0", "--modality", "action", "--kind", "ngram").out
    one = " ".join(run("methods", "dflash").out.split())
    for piece in ("2602.06036", "a block as a unit", "6.49 tau (mean; Qwen3-8B, seven tasks, T=0; bonus counted"):
        assert piece in one
    explained = run("methods", "--axes").out
    assert "verification" in explained
    assert explained.count("\n") > 100


def test_into_a_file(run: Run, tmp_path: Path) -> None:
    told = run("methods", "--level", "3", "--json", "-o", tmp_path / "three.json")
    assert json.loads((tmp_path / "three.json").read_text()) == json.loads(told.out)
    axes = json.loads(run("methods", "--axes", "--json").out)
    assert axes["level"]["3"] == taxonomy.axes()["level"]["3"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["eagl-3"], "unknown method 'eagl-3'; did you mean 'eagle-3'"),
        (["--level", "4"], "unknown level '4'"),
        (["--level", "three"], "unknown level 'three'"),
        (["--level", ","], "level is empty"),
        (["--modality", "vidio"], "unknown modality 'vidio'; did you mean 'video'?"),
        (["--kind", "eagle"], "unknown kind 'eagle'"),
        (["--where", "sorce=tokens"], "unknown axis 'sorce'; did you mean 'source'?"),
        (["--where", "source=token"], "unknown source 'token'; did you mean 'tokens'?"),
        (["--where", "source"], "--where 'source': give AXIS=WORD"),
        (["--level", "1", "--where", "level=2"], "level is asked for twice"),
        (["--axes", "--runnable"], "takes no method and no filter"),
        (["--axes", "dflash"], "takes no method and no filter"),
        (["--output", "/nowhere/x.json"], "there is no directory /nowhere"),
    ],
)
def test_bad_input(run: Run, arguments: list[str], says: str) -> None:
    told = run("methods", *arguments)
    assert (told.code, told.out) == (2, "")
    assert says in told.err
    assert told.err.count("\n") == 1
