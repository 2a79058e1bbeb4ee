"""The real commands on the bundled target, as a newcomer types them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from paceline.cli.demo import PICTURE, PROMPT
from unit.bench.test_run import KEYS

SIX = ("mmt", "seed", "science", "ocr", "chart", "math")


def paceline(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def document(*arguments: object) -> Any:
    done = paceline(*arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_models() -> None:
    records = document("models", "--json")
    assert all({"name", "kind", "path", "parameters", "license"} <= set(record) for record in records)
    [target] = [record for record in records if record["name"] == "tiny-native"]
    assert target["kind"] == "target"
    assert 8e6 <= target["parameters"] <= 12e6
    assert target["license"] == "Apache-2.0"
    assert ("lm", "tiny-native") in {(record["name"], record["target"]) for record in records}


@pytest.mark.parametrize("drafter", ["none", "lookup", "lm"])
@pytest.mark.parametrize("temperature", [0, 1])
def test_generate(drafter: str, temperature: float) -> None:
    told = document(
        "generate", "--target", "tiny-native", "--drafter", drafter, "--image", PICTURE, "--prompt", PROMPT,
        "--temperature", temperature, "--seed", 3, "--threads", 1, "--json", "--check",
    )  # fmt: skip
    assert told["faults"] == 0
    assert told["identical"] or told["ties"]
    assert told["n_tokens"] > 10
    assert len(told["text"].split()) > 5
    assert {"text", "token_ids", "tau", "tau_eff", "rounds", "n_tokens", "phases_ms"} <= set(told)


def test_the_bundled_drafter_is_worth_something() -> None:
    told = document(
        "generate", "--target", "tiny-native", "--drafter", "lm", "--image", PICTURE, "--prompt", PROMPT, "--json"
    )
    assert told["tau"] > 1.3


def test_bench() -> None:
    told = document(
        "bench", "--target", "tiny-native", "--drafters", "none,lookup,lm", "--limit", 1, "--tasks", "mmt,seed,ocr",
        "--threads", 1, "--json",
    )  # fmt: skip
    assert {row["faults"] for row in told["rows"]} == {0}
    assert {(r["drafter"], r["task"], r["temperature"]) for r in told["rows"]} == {
        (d, t, float(w)) for d in ("none", "lookup", "lm") for t in ("mmt", "seed", "ocr") for w in (0, 1)
    }
    for row in told["rows"]:
        assert set(row) >= KEYS
        assert row["speedup_vs_hf"] == pytest.approx(row["plain_gain"] * row["spec_gain"])
    greedy = [e for e in told["references"] if e["temperature"] == 0 and e["name"] == "hf-generate"]
    assert [entry["faults"] for entry in greedy] == [0, 0, 0]


@pytest.mark.slow
def test_bench_as_the_issue_closes_it() -> None:
    told = document("bench", "--target", "tiny-native", "--drafters", "none,lookup,lm", "--limit", 4, "--json")
    assert {row["faults"] for row in told["rows"]} == {0}
    assert {row["task"] for row in told["rows"]} == {*SIX, "long", "human"}
    assert set(told["summary"]["tasks"]) == set(SIX)
    assert told["summary"]["faults"] == 0


def test_the_demo_in_short() -> None:
    done = paceline("demo", "--limit", 1, "--tokens", 24, "--threads", 1)
    assert done.returncode == 0, done.stderr
    assert "identical: yes" in done.stderr
    assert re.search(r"^lm +0 .*×", done.stdout, re.MULTILINE)


def test_a_misspelt_name_is_put_right(tmp_path: Path) -> None:
    done = paceline("generate", "--target", "tiny-nativ", "--prompt", "x", "-o", tmp_path / "a.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'tiny-native'" in done.stderr
    assert list(tmp_path.iterdir()) == []


README = """
import paceline
target = paceline.load_target("tiny-native")
drafter = paceline.load_drafter("lm", target)
parts = [{"type": "image", "image": PICTURE}, {"type": "text", "text": "What is this?"}]
messages = [{"role": "user", "content": parts}]
sampling = paceline.Sampling(temperature=0.7, seed=1)
answer = paceline.generate(target, drafter, messages, sampling=sampling)
assert answer.text.split() and answer.tau >= 1
assert "".join(piece.text for piece in paceline.stream(target, drafter, messages, sampling)) == answer.text
"""


def test_from_python() -> None:
    """The example of the README, and its stream."""
    code = README.replace("PICTURE", repr(str(PICTURE)))
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
