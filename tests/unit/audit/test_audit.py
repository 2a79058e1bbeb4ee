"""The command on the small vision-language model: verdicts, exit codes, a mask leak, logs of foreign engines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from paceline.answer import generate
from paceline.cli import main
from paceline.drafters import method
from paceline.hf.masks import Masks
from paceline.sampling import Sampling
from paceline.targets import load_target
from unit.cli.checkpoint import Shelf, furnish


@dataclass(frozen=True)
class Told:
    code: int
    record: Any
    err: str


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    return furnish(tmp_path_factory.mktemp("audited"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], shelf: Shelf) -> Callable[..., Told]:
    def command(*arguments: object) -> Told:
        code = main(["audit", "--target", str(shelf.target), "--json", "--quiet", *map(str, arguments)])
        out, err = capsys.readouterr()
        return Told(code, json.loads(out) if out else None, err)

    return command


@pytest.fixture
def traffic(shelf: Shelf, tmp_path: Path) -> list[object]:
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"prompt": "What is it?", "images": "picture.png"}\n{"prompt": "a red apple, a blue car"}\n')
    return ["--prompts", asked, "--images", shelf.picture.parent, "--max-new-tokens", 24]


def outcomes(record: Any) -> dict[str, str]:
    return {check["name"]: check["outcome"] for check in record["checks"]}


@pytest.mark.parametrize("drafter", ["lookup", "lm"])
def test_a_sound_drafter(
    run: Callable[..., Told], shelf: Shelf, traffic: list[object], tmp_path: Path, drafter: str
) -> None:
    given = shelf.lm if drafter == "lm" else drafter
    page = tmp_path / "report.html"
    told = run("--drafter", given, *traffic, "--samples", 48, "--html", page, "-o", tmp_path / "a.json")
    assert told.code == 0, told.record
    assert told.record["verdict"] == "lossless"
    found = outcomes(told.record)
    assert set(found.values()) == {"pass"}
    assert {"plain = plain, float32", "greedy identity, float32", "greedy identity, bfloat16"} < set(found)
    assert json.loads((tmp_path / "a.json").read_text()) == told.record
    assert "<script" not in page.read_text()
    assert "lossless" in page.read_text()


def test_a_mask_leak(
    run: Callable[..., Told], shelf: Shelf, traffic: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guesses see one another ahead: the drafted text is another one, and the audit says where and by how much."""

    def leaky(self: Masks, n: int, top: int, device: torch.device) -> torch.Tensor:
        return torch.zeros(1, 1, n, top, dtype=self.dtype, device=device)

    monkeypatch.setattr(Masks, "_band", leaky)
    told = run("--drafter", shelf.lm, *traffic, "--samples", 0, "--no-bf16")
    assert told.code == 1
    assert told.record["verdict"] == "not lossless"
    assert outcomes(told.record)["plain = plain, float32"] == "pass"
    assert outcomes(told.record)["greedy identity, float32"] == "fail"
    first = told.record["first_divergence"]
    assert first["kind"] == "fault"
    assert first["margin"] > 100 * first["noise"] > 0
    assert "far beyond" in first["explained"]


def line(shelf: Shelf, answer: Any, **more: Any) -> str:
    return json.dumps({"prompt": "What is it?", "images": ["picture.png"], "token_ids": list(answer.token_ids), **more})


@pytest.fixture(scope="module")
def target(shelf: Shelf) -> Any:
    return load_target(str(shelf.target))


def asked(shelf: Shelf) -> list[dict[str, Any]]:
    parts = [{"type": "image", "image": str(shelf.picture)}, {"type": "text", "text": "What is it?"}]
    return [{"role": "user", "content": parts}]


def test_greedy_logs(run: Callable[..., Told], shelf: Shelf, target: Any, tmp_path: Path) -> None:
    answer = generate(target, method("lookup")(), asked(shelf), Sampling(max_new_tokens=30))
    log = tmp_path / "engine.jsonl"
    log.write_text(line(shelf, answer, temperature=0) + "\n")
    told = run("--log", log, "--images", shelf.picture.parent)
    assert (told.code, told.record["verdict"]) == (0, "lossless")
    ids = list(answer.token_ids)
    ids[7] = (ids[7] + 1) % target.vocab_size
    log.write_text(json.dumps({"prompt": "What is it?", "images": "picture.png", "token_ids": ids}) + "\n")
    told = run("--log", log, "--images", shelf.picture.parent)
    assert (told.code, told.record["verdict"]) == (1, "not lossless")
    assert told.record["first_divergence"]["position"] == 7
    blind = json.dumps({"prompt": "What is it?", "token_ids": list(answer.token_ids)})
    log.write_text(blind + "\n")
    assert run("--log", log).code == 1, "an answer to another prompt"


def test_drawn_logs(run: Callable[..., Told], shelf: Shelf, target: Any, tmp_path: Path) -> None:
    log = tmp_path / "engine.jsonl"

    def audited(drawn_at: float, claimed: dict[str, float], count: int) -> Told:
        sampling = [Sampling(temperature=drawn_at, seed=100 + i, max_new_tokens=40, stop_ids=()) for i in range(count)]
        answers = [generate(target, method("lookup")(), asked(shelf), each) for each in sampling]
        log.write_text("\n".join(line(shelf, answer, **claimed) for answer in answers))
        return run("--log", log, "--images", shelf.picture.parent)

    assert audited(1.0, {"temperature": 1.0, "seed": 100}, 10).record["verdict"] == "lossless"
    assert audited(1.0, {"temperature": 0.5}, 10).code == 1
    assert audited(1.0, {"temperature": 1.0, "top_k": 2}, 2).record["checks"][0]["figures"]["impossible"] > 0
    few = audited(1.0, {"temperature": 1.0}, 2)
    assert (few.code, few.record["verdict"]) == (0, "undecided")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"), ("{", "line 1 is not JSON"), ('{"token_ids": [1]}', 'no "prompt"'),
        ('{"prompt": "a"}', "token_ids"), ('{"prompt": "a", "token_ids": [1], "temperature": -1}', "temperature is -1"),
        ('{"prompt": "a", "token_ids": [1], "images": "x.png"}', "no picture"),
        ('{"prompt": "a", "token_ids": [999999]}', "999999"), ('{"prompt": "a", "token_ids": ["b"]}', "token_ids"),
    ],
)  # fmt: skip
def test_logs_that_cannot_be_read(run: Callable[..., Told], tmp_path: Path, text: str, says: str) -> None:
    log = tmp_path / "engine.jsonl"
    log.write_text(text)
    told = run("--log", log)
    assert told.code == 2
    assert told.err.count("\n") == 1
    assert says in told.err
    assert run("--log", tmp_path / "none.jsonl").code == 2


def test_options_that_do_not_fit(run: Callable[..., Told], tmp_path: Path) -> None:
    assert "above 0" in run("--temperature", 0).err
    assert "two audits" in run("--log", tmp_path / "a", "--sampler", "a:b").err
    assert "did you mean 'lookup'" in run("--drafter", "lokup", "--tasks", "mmt", "--limit", 1).err
