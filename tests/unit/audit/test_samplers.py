"""Foreign samplers: the sound ones pass, each fault is caught."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.audit.laws import ALPHA
from paceline.audit.samplers import sampler
from paceline.audit.statistics import against, two_samples
from paceline.cli import main
from paceline.errors import UsageError
from unit.audit import samplers as foreign

COUNT = 3000


@pytest.mark.parametrize("run", [foreign.sound, foreign.shared_race], ids=lambda run: run.__name__)
def test_sound_samplers_pass(run: Callable[..., Any]) -> None:
    check = sampler(run, count=COUNT)
    assert check.outcome == "pass", check.says
    assert check.figures["pvalue"] > ALPHA


@pytest.mark.parametrize(
    "run", [foreign.residual_free, foreign.unprocessed_q, foreign.stale_q, foreign.one_gumbel_vector],
    ids=lambda run: run.__name__,
)  # fmt: skip
def test_faults_are_caught(run: Callable[..., Any]) -> None:
    check = sampler(run, count=COUNT)
    assert check.outcome == "fail"
    assert check.figures["pvalue"] < 1e-6


def test_a_round_gives_tokens() -> None:
    with pytest.raises(UsageError, match="gives 1 or more ids"):
        sampler(foreign.endless, count=10)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where, page = Path(foreign.__file__), tmp_path / "a.html"
    assert (
        main(["audit", "--sampler", f"{where}:residual_free", "--samples", "600", "--json", "-q", "--html", str(page)])
        == 1
    )
    record = json.loads(capsys.readouterr().out)
    assert record["verdict"] == "not lossless"
    assert [check["outcome"] for check in record["checks"]] == ["fail"]
    assert "not lossless" in page.read_text()
    for reference, says in (("nothing", "module:function"), ("no.such:f", "no"), (f"{where}:f", "no function 'f'"),
                            (f"{tmp_path}/x.py:f", "no such file")):  # fmt: skip
        assert main(["audit", "--sampler", reference]) == 2
        assert says in capsys.readouterr().err


def test_chi_squares() -> None:
    """Worked by hand: ten and thirty of two words against twenty and twenty."""
    two = two_samples(["a"] * 10 + ["b"] * 30, ["a"] * 20 + ["b"] * 20)
    assert two.freedom == 1
    assert two.statistic == pytest.approx(2 * (25 / 15 + 25 / 25))
    one = against(["a"] * 10 + ["b"] * 30, {"a": 0.5, "b": 0.5})
    assert one.statistic == pytest.approx(10.0)
    assert one.pvalue == pytest.approx(0.001565, rel=1e-3)
    assert against(["c"], {"a": 1.0}).pvalue == 0
