"""`paceline imagine` and `paceline bench --suite visual` on a target without weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from paceline.cli import imagining
from paceline.errors import UsageError
from paceline.identity import Comparison
from paceline.pictures.codebook import Codebook
from paceline.train.architecture import TextConfig, build_language_model
from paceline.train.visual import DefaultsConfig, train_tokenizer, write
from unit.bench.visual.toy import Toy, toy

Run = Callable[..., Any]
KEYS = {"tokens", "nfe", "nfe_ratio", "wall_ms", "tau", "path"}


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Toy:
    """What every name opens, while the command runs in an empty directory."""
    model = toy()
    _opens(monkeypatch, model)
    monkeypatch.chdir(tmp_path)
    return model


def _opens(monkeypatch: pytest.MonkeyPatch, model: Toy) -> None:
    for verb in ("imagine", "bench_visual"):
        monkeypatch.setattr(f"paceline.cli.{verb}.open_visual", lambda name, size, **options: model)


def test_a_picture_and_its_document(run: Run, target: Toy) -> None:
    told = run("imagine", "--prompt", "Red apple, on blue!", "--window", 6, "--json")
    assert told.code == 0
    document = json.loads(told.out)
    assert set(document) >= KEYS
    assert document["path"] == "red-apple-on-blue.png"
    assert len(document["tokens"]) == 16
    assert document["nfe_ratio"] == pytest.approx(16 / document["nfe"])
    assert document["nfe"] < 16
    with Image.open(document["path"]) as picture:
        assert picture.size == (16, 16)  # a pixel a code, four times as large
    assert told.err == ""


def test_exact_equals_ar_with_the_same_seed_whatever_the_window(run: Run, target: Toy) -> None:
    def tokens(*options: object) -> list[int]:
        return json.loads(run("imagine", "--prompt", "a b", "--json", *options).out)["tokens"]

    plain = tokens("--method", "ar", "--seed", 5)
    assert all(tokens("--method", "scd-exact", "--window", w, "--seed", 5) == plain for w in (1, 2, 7, 128))
    assert tokens("--method", "ar", "--seed", 6) != plain


def test_all_methods_side_by_side(run: Run, target: Toy) -> None:
    told = run("imagine", "--prompt", "a b", "--compare", "--window", 8, "--json")
    rows = json.loads(told.out)["compare"]
    assert [row["method"] for row in rows] == ["ar", "sjd", "scd-maximal", "scd-gumbel", "scd-exact"]
    assert rows[0]["nfe"] == 16
    assert rows[0]["wall_ratio"] == 1
    assert [row["identical"] for row in rows] == [True, None, None, None, True]
    assert all(len(row["survival"]) == 7 for row in rows[1:])


def test_the_comparison_says_whether_exact_is_plain(run: Run, target: Toy) -> None:
    told = run("imagine", "--prompt", "a b", "--compare")
    assert told.code == 0
    assert "scd-exact identical to plain with this seed: yes" in told.err
    assert "scd-maximal" in told.err


def test_a_fault_is_told_and_counted(run: Run, target: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Comparison(False, 0, 1, 3, 1.0, 0.0)
    monkeypatch.setattr(imagining, "compare_tokens", lambda *given: wrong)
    told = run("imagine", "--prompt", "a b", "--compare")
    assert told.code == 1
    assert "identical to plain with this seed: no" in told.err


def test_a_batch_is_the_single_results(run: Run, target: Toy) -> None:
    many = json.loads(run("imagine", "--prompt", "a b", "--batch", 3, "--seed", 4, "--json", "-o", "x.png").out)
    assert many["path"] == ["x-0.png", "x-1.png", "x-2.png"]
    for i, path in enumerate(many["path"]):
        one = json.loads(run("imagine", "--prompt", "a b", "--seed", 4 + i, "--json", "-o", "y.png").out)
        assert one["tokens"] == many["tokens"][i]
        assert Path(path).read_bytes() == Path("y.png").read_bytes()


def test_a_clip_is_a_gif(run: Run, target: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    _opens(monkeypatch, toy(3, 3))
    told = run("imagine", "--prompt", "a b", "--json")
    document = json.loads(told.out)
    assert document["path"] == "a-b.gif"
    assert document["start"] == "previous-frame-law"
    with Image.open("a-b.gif") as clip:
        assert clip.n_frames == 3  # type: ignore[attr-defined]
        assert clip.size == (12, 12)
    assert run("imagine", "--prompt", "a b", "-o", "a.png").code == 2


def test_tokens_are_the_result_where_codes_cannot_be_decoded(
    run: Run, target: Toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def frames(self: Toy, tokens: object) -> None:
        raise UsageError("toy has no decoder for its codes")

    monkeypatch.setattr(Toy, "frames", frames)
    document = json.loads(run("imagine", "--prompt", "a b", "--json").out)
    assert document["path"] is None
    assert len(document["tokens"]) == 16
    assert "tokens only" in run("imagine", "--prompt", "a b").err
    for asked in (("-o", "a.png"), ("--frames", "rounds")):
        told = run("imagine", "--prompt", "a b", *asked)
        assert told.code == 2
        assert "no decoder" in told.err
    assert not list(Path().iterdir())


def test_every_round_is_kept(run: Run, target: Toy) -> None:
    told = run("imagine", "--prompt", "a b", "--frames", "rounds", "--scale", 1, "--json")
    document, kept = json.loads(told.out), sorted(Path("rounds").iterdir())
    assert len(kept) == document["nfe"]
    with Image.open(kept[0]) as first, Image.open(kept[-1]) as last, Image.open(document["path"]) as done:
        assert first.getpixel((3, 3)) == (128, 128, 128)  # not yet drawn
        assert last.tobytes() == done.convert("RGB").tobytes()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--prompt", "  "), "--prompt is empty"),
        (("--prompt", "a", "--method", "scd-exakt"), "did you mean 'scd-exact'"),
        (("--prompt", "a", "--window", 0), "1 … 128"),
        (("--prompt", "a", "--window", 129), "1 … 128"),
        (("--prompt", "a", "--start", "abvoe"), "did you mean 'above'"),
        (("--prompt", "a", "--guidance", 3), "no unconditional branch"),
        (("--prompt", "a", "--temperature", -1), "temperature is -1"),
        (("--prompt", "a", "-o", "a.gif"), "a picture is written as .png"),
        (("--prompt", "a", "-o", "nowhere/a.png"), "there is no directory nowhere"),
        (("--prompt", "a", "--batch", 0), "batch"),
    ],
)
def test_bad_input_writes_nothing(run: Run, target: Toy, options: tuple[object, ...], says: str) -> None:
    told = run("imagine", *options)
    assert told.code == 2
    assert says in told.err
    assert len(told.err.strip().splitlines()) == 1
    assert not list(Path().iterdir())


@pytest.fixture(scope="module")
def painter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random language model over 4 x 4 codes, as the trainer writes them."""
    where = tmp_path_factory.mktemp("painter")
    tokenizer = train_tokenizer(["a red apple", "a blue car"] * 3, 270, 16)
    model = build_language_model(TextConfig(2, 32, 32, 2, 1, 64), tokenizer, 0)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(12)
    table = np.random.default_rng(0).random((16, 12), dtype=np.float32)
    write(model, tokenizer, Codebook(table, 2), (4, 4), DefaultsConfig(guidance=2.0), where)
    return where


def test_a_checkpoint_on_disk_with_guidance(run: Run, painter: Path, tmp_path: Path) -> None:
    told = run("imagine", "--target", painter, "--prompt", "a red apple", "--window", 8, "--compare", "--json",
               "--size", "8x8", "-o", tmp_path / "x.png")  # fmt: skip
    document = json.loads(told.out)
    assert told.code == 0
    assert document["guidance"] == 2
    assert len(set(document["tokens"])) > 3
    assert all(270 <= token < 286 for token in document["tokens"])
    assert document["compare"][-1]["identical"] is True
    with Image.open(tmp_path / "x.png") as picture:
        assert picture.size == (32, 32)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--size", "5x4"), "cannot draw 5 x 4"),
        (("--size", "big"), "give WIDTHxHEIGHT"),
        (("--guidance", "0.5"), "guidance is 0.5"),
    ],
)
def test_bad_input_to_a_checkpoint(run: Run, painter: Path, options: tuple[str, ...], says: str) -> None:
    told = run("imagine", "--target", painter, "--prompt", "a", *options)
    assert told.code == 2
    assert says in told.err


def test_a_target_that_draws_nothing_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    told = run("imagine", "--prompt", "a", "--target", tmp_path)
    assert told.code == 2
    assert "draws" in told.err


def test_the_visual_suite(run: Run, target: Toy) -> None:
    asked = ("bench", "--suite", "visual", "--target", "toy", "--drafters", "sjd,scd-exact", "--windows", "4",
             "--limit", 2, "--temperature", "1")  # fmt: skip
    told = run(*asked, "--json", "-o", "r.md", "--plots", "plots")
    assert told.code == 0
    document = json.loads(told.out)
    assert {(r["method"], r["window"]) for r in document["rows"]} == {("ar", 1), ("sjd", 4), ("scd-exact", 4)}
    assert {r["part"] for r in document["rows"]} == {"all", "seen", "unseen"}
    assert all(Path(path).is_file() for path in document["plots"])
    assert "| scd-exact | 4 |" in Path("r.md").read_text()
    shown = run(*asked)
    assert "nats a token" in shown.out
    assert shown.out.count("scd-exact") == 4  # three parts, and the line of its gain


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--windows", "8,x"), "whole numbers"),
        (("--windows", "0"), "1 … 128"),
        (("--drafters", "sdj"), "did you mean 'sjd'"),
        (("--tasks", "imge"), "did you mean 'image'"),
        (("--prompts", "missing.tsv"), "no such file"),
        (("--suite", "visul"), "did you mean 'visual'"),
    ],
)
def test_bad_input_of_the_visual_suite(run: Run, target: Toy, options: tuple[object, ...], says: str) -> None:
    told = run("bench", "--suite", "visual", "--target", "toy", *options)
    assert told.code == 2
    assert says in told.err
