"""The visual benchmark on toys: every row adds up, exact is identical, biased and lossy rows are named, plots exist."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from paceline.bench.visual import report
from paceline.bench.visual.arms import COPY, CopyFrame, arms
from paceline.bench.visual.benchmark import VisualPlan, benchmark, captions_of, task_names, task_of
from paceline.bench.visual.measure import FIELDS, draw, ledger, measures, ratios
from paceline.bench.visual.prompts import Caption
from paceline.core import Draft, Prompt, Rule, Verdict, decode
from paceline.couplings import Maximal
from paceline.drafters.free.none import NoDraft
from paceline.errors import UsageError
from paceline.law import Dense
from paceline.pictures.codebook import Codebook
from paceline.sampling import Sampling
from unit.bench.visual.toy import toy

WARM, COOL = Sampling(temperature=1, max_new_tokens=999), Sampling(temperature=0.7, max_new_tokens=999)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    targets = {"image": toy(), "video": toy(2, 3)}
    plan = VisualPlan(targets, windows=(6,))
    captions = {task: captions_of(target, 2, None) for task, target in targets.items()}
    steps: list[str] = []
    found = benchmark(plan, captions, [COOL, WARM], step=lambda arm, task, t: steps.append(arm))
    assert len(steps) == sum(plan.drawings(2, 2, task) for task in targets)
    return json.loads(json.dumps(found))


def rows(document: dict[str, Any], **wanted: Any) -> list[dict[str, Any]]:
    return [r for r in document["rows"] if all(r[key] == value for key, value in wanted.items())]


def test_exact_is_identical_to_plain_everywhere(document: dict[str, Any]) -> None:
    raced = rows(document, method="scd-exact") + rows(document, method="ar")
    assert len(raced) == 2 * 2 * 3 * 2  # tasks, temperatures, parts; one window, and plain
    assert all(r["identical"] and r["faults"] == r["ties"] == 0 for r in raced)
    assert document["summary"]["faults"] == 0
    assert document["summary"]["compared"] == 2 * 2 * 2 * 2  # with plain decoding itself
    assert {r["identical"] for r in rows(document, method="sjd")} == {None}


def test_rows_add_up(document: dict[str, Any]) -> None:
    for r in document["rows"] + document["lossy"]:
        plain = rows(document, method="ar", task=r["task"], temperature=r["temperature"], part=r["part"])[0]
        size = int(np.prod(document["meta"]["layouts"][r["task"]]))
        assert plain["nfe"] == size
        assert r["nfe_ratio"] == pytest.approx(size / r["nfe"])
        assert r["n_tokens"] == size * r["n_captions"]
        assert r["n_captions"] == (2 if r["part"] == "all" else 1)
        assert r["nfe_ratio_ci"] is None  # two captions make no interval
        assert r["wall_ms"] == pytest.approx(sum(r["phases_ms"].values()), rel=1e-6)
        assert 0 < r["entropy"] < np.log(16)
        assert r["accepted_variance"] >= 0
    assert rows(document, method="ar")[0]["wall_share"] == pytest.approx(1)


def test_the_biased_rule_and_lossy_methods_are_named(document: dict[str, Any]) -> None:
    assert {r["kind"] for r in document["rows"] if "biased" in r["method"]} == {"biased"}
    assert len(rows(document, kind="biased")) == 2 * 2 * 3
    assert {r["method"] for r in document["lossy"]} == {"gsd (groups of 10)"}
    assert {r["kind"] for r in document["rows"]} == {"exact", "biased"}


def test_coupled_guesses_need_fewer_forwards_than_redrawn_ones(document: dict[str, Any]) -> None:
    sjd, coupled = (rows(document, method=m, task="image", temperature=1, window=6, part="all")[0] for m in
                    ("sjd", "scd-maximal"))  # fmt: skip
    assert coupled["nfe"] < sjd["nfe"]
    assert coupled["collisions"] > sjd["collisions"]
    [gain] = [g for g in document["summary"]["gains"] if (g["task"], g["temperature"], g["window"], g["method"]) == (
        "image", 1, 6, "scd-maximal")]  # fmt: skip
    assert gain["over_sjd"] == pytest.approx(sjd["nfe"] / coupled["nfe"])


def test_slots_and_settling_rounds(document: dict[str, Any]) -> None:
    for entry in document["slots"]:
        assert len(entry["slots"]) <= entry["window"] - 1
    for entry in document["settled"]:
        assert entry["rounds"][0] == 0
        assert entry["rounds"] == sorted(entry["rounds"])
        assert len(entry["rounds"]) == np.prod(document["meta"]["layouts"][entry["task"]])


def test_tables_hold_every_row(document: dict[str, Any]) -> None:
    text = report.markdown(document)
    assert text.count("| ar | 1 |") == 2 * 2 * 3
    assert "BIASED" in text
    assert "**lossy, image" in text
    assert "(unseen)" in text
    assert "nats a token" in text


def test_plots_are_written(document: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from paceline.bench.visual import plots

    small = {**document, **{key: [r for r in document[key] if (r["task"], r["temperature"]) == ("video", 1)]
                            for key in ("rows", "lossy", "settled")}}  # fmt: skip
    made = plots.write(small, tmp_path / "plots")
    assert sorted(path.name for path in made) == [
        "video-t1-nfe-ratio.png", "video-t1-nfe-ratio.svg", "video-t1-settling.png", "video-t1-settling.svg",
    ]  # fmt: skip
    assert all(path.stat().st_size > 2000 for path in made)


def test_ratios_of_a_ledger_by_hand() -> None:
    index = {name: i for i, name in enumerate(FIELDS)}
    plain, ours = np.zeros(len(FIELDS)), np.zeros(len(FIELDS))
    for line, values in ((plain, (2, 200, 200, 4.0, 4.2, 2.0, 1.0, 198, 0, 0, 100)),
                         (ours, (2, 200, 50, 2.0, 2.1, 1.5, 0.3, 48, 150, 600, 90))):  # fmt: skip
        line[:] = values
    found = ratios(ours, plain)
    assert found["nfe"] == 25
    assert found["nfe_ratio"] == 4
    assert found["wall_ratio"] == 2
    assert found["forward_ms"] == pytest.approx(1000 * 1.5 / 48)
    assert found["wall_share"] == pytest.approx(2 / (4 * (2 / 198) / (1.5 / 48)))
    assert found["coupling_share"] == pytest.approx(0.2)
    assert found["tau"] == pytest.approx(1 + 150 / 48)
    assert found["accepted_variance"] == pytest.approx(600 / 48 - (150 / 48) ** 2)
    assert found["entropy"] == 0.45
    assert index["nfe"] == 2


def test_enough_captions_make_intervals() -> None:
    [plain, arm] = arms(["scd-exact"], [4], [], toy().layout)
    drawn = {
        a.name: [draw(toy(), a, "a b", Sampling(temperature=1, seed=s), 1.0) for s in range(8)] for a in (plain, arm)
    }
    found = measures(drawn[arm.name], drawn[plain.name])
    low, high = found["nfe_ratio_ci"]  # type: ignore[misc]
    assert low <= found["nfe_ratio"] <= high  # type: ignore[operator]
    assert low < high
    assert ledger(drawn[arm.name]).shape == (8, len(FIELDS))


class Pretending(CopyFrame):
    """The mutant: says that its guesses were drawn, all codes alike, where they were chosen."""

    def open(self, *args: Any, **kwargs: Any) -> Any:
        session = super().open(*args, **kwargs)
        honest = session.propose

        def propose(verdict: Verdict) -> Draft:
            draft = honest(verdict)
            rows, n = draft.tokens.shape
            return Draft.chain(draft.tokens, Dense(torch.full((rows, n + 1, 16), 1 / 16)))

        session.propose = propose  # type: ignore[method-assign]
        return session


def first_tokens(drafter: Any, seeds: int) -> np.ndarray:
    """[seeds, 6]; the first six tokens of two frames of 2 x 2 codes, verified by the maximal coupling."""
    prompts = [Prompt(torch.zeros(1, dtype=torch.long))] * seeds
    rule, done = Rule(Sampling(temperature=0.3).law, Maximal()), [list[int]() for _ in range(seeds)]
    for verdict in decode(toy(2, 2), drafter, rule, prompts, torch.arange(seeds)):
        for row, own, n in zip(done, verdict.tokens.tolist(), verdict.length.tolist(), strict=True):
            row += own[:n]
        if min(map(len, done)) >= 6:
            return np.array([row[:6] for row in done])
    raise AssertionError("decode ended")


def excess(one: np.ndarray, other: np.ndarray, columns: tuple[int, int]) -> float:
    """How many standard deviations the chi-square of two tables of a pair of tokens lies above its mean."""
    a, b = (np.bincount(x[:, columns[0]] * 16 + x[:, columns[1]], minlength=256) for x in (one, other))
    kept = a + b >= 20
    chi2 = ((a - b)[kept] ** 2 / (a + b)[kept]).sum()
    return float((chi2 - kept.sum()) / np.sqrt(2 * kept.sum()))


def test_copying_frames_keeps_the_law_and_a_pretender_does_not() -> None:
    plain, layout = first_tokens(NoDraft(), 4000), toy(2, 2).layout
    copied, pretended = (first_tokens(kind(4, layout), 4000) for kind in (CopyFrame, Pretending))
    assert all(excess(copied, plain, columns) < 4.5 for columns in ((0, 4), (4, 5)))
    assert any(excess(pretended, plain, columns) > 9 for columns in ((0, 4), (4, 5)))


def test_copied_guesses_are_those_of_the_frame_before() -> None:
    layout = toy(2, 3).layout
    session = CopyFrame(8, layout).open(None, type("C", (), {"prompts": [0]})(), None)  # type: ignore[arg-type]
    session.text = [[5, 6, 7, 8]]
    assert session._row(session.text[0]) == [5, 6, 7, 8]
    assert session._row([5, 6]) == []
    assert session._row([5, 6, 7, 8, 1]) == [6, 7, 8, 1]
    assert session._row([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]) == [7]  # the last code is the verifier's


def test_lossy_rules_say_so_and_save_forwards() -> None:
    target, book = toy(), Codebook(np.random.default_rng(0).random((16, 3), dtype=np.float32), 1)
    found = arms(["sjd", "gsd", "lantern"], [8], [], target.layout, book)
    assert [arm.kind for arm in found] == ["exact", "exact", "lossy", "lossy"]
    assert [arm.build(target.layout)[1].exact for arm in found] == [True, True, False, False]
    nfe = [sum(draw(target, arm, "a b", Sampling(temperature=1, seed=s), 1.0).nfe for s in range(12)) for arm in found]
    assert nfe[0] == 12 * 16
    assert nfe[2] < nfe[1]
    assert nfe[3] < nfe[1]


def test_bad_names_are_refused_before_anything_is_drawn() -> None:
    layout = toy().layout
    with pytest.raises(UsageError, match="did you mean 'scd-exact'"):
        arms(["scd-exakt"], [4], [], layout)
    with pytest.raises(UsageError, match=r"window is 200; it must be in 1 … 128"):
        arms(["sjd"], [200], [], layout)
    with pytest.raises(UsageError, match="unknown method"):
        arms([COPY], [4], [], layout)  # of clips only
    with pytest.raises(UsageError, match="did you mean 'video'"):
        task_names(["vidio"])


def test_tasks_and_captions(tmp_path: Path) -> None:
    assert task_names([]) == task_names(["all"]) == ["image", "video"]
    assert (task_of(toy()), task_of(toy(3, 3))) == ("image", "video")
    parts = [caption.part for caption in captions_of(toy(), 5, None)]
    assert parts == ["seen", "unseen", "seen", "unseen", "seen"]
    (tmp_path / "own.txt").write_text("one\ntwo\n", encoding="utf-8")
    assert captions_of(toy(), 9, tmp_path / "own.txt") == [Caption("one"), Caption("two")]
