"""Jacobi drafters on tiny models that draw, what they refuse, and what they cost the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from paceline.core import Draft, Needs, Rule, Verdict, decode
from paceline.couplings import Gumbel, Maximal
from paceline.drafters.free.jacobi import METHODS, Jacobi, Sibling, pair
from paceline.drafters.free.jacobi_starts import STARTS
from paceline.drafters.free.none import NoDraft
from paceline.errors import UsageError
from paceline.law import Dense, Sparse
from paceline.layout import Layout
from paceline.loading import load_drafter
from paceline.sampling import Sampling
from unit.targets.drawn import drawn

LAYOUT = Layout.raster(4, 4, codes=(2, 10))


def painted(
    target: Any, drafter: Any, coupling: Any, sampling: Sampling, prompts: Any, seed: Tensor
) -> list[list[int]]:
    """Every row's tokens, to the end of the layout."""
    rows, size = [[] for _ in prompts], target.layout.size
    for verdict in decode(target, drafter, Rule(target.rule_law(sampling), coupling), prompts, seed):
        for row, tokens, length in zip(rows, verdict.tokens.tolist(), verdict.length.tolist(), strict=True):
            row += tokens[:length]
        if min(map(len, rows)) >= size:
            return [row[:size] for row in rows]
    raise AssertionError("decode ended")


CASES = [("visual_clip", "previous-frame"), ("visual_clip", "uniform"), ("emu3", "above"), ("lumina", "random")]


@pytest.mark.parametrize(("name", "start"), CASES)
def test_exact_equals_plain_under_top_k_guidance_and_grammar(name: str, start: str) -> None:
    made, sampling = drawn(name), Sampling(temperature=1.0, top_k=9)
    target = made.target.guided(2.5) if name == "emu3" else made.target
    prompts, seed = made.prompts(), torch.tensor([3, 4, 5])
    want = painted(target, NoDraft(), Gumbel(), sampling, prompts, seed)
    for length in (1, 2, 7, 32):
        drafter = Jacobi("scd-exact", length, start, target.layout)
        assert painted(target, drafter, Gumbel(), sampling, prompts, seed) == want
    alone = Jacobi("scd-exact", 7, start, target.layout)
    assert painted(target, alone, Gumbel(), sampling, prompts[1:2], seed[1:2]) == want[1:2]


def test_a_draft_tells_the_law_of_each_guess_and_none_past_the_end() -> None:
    made = drawn("visual_clip")
    target, size = made.target, made.target.layout.size
    for top_k, form in ((0, Dense), (7, Sparse)):
        drafter, coupling = pair("scd-maximal", window=8, start="uniform", layout=target.layout)
        done, before = torch.zeros(3, dtype=torch.long), None
        rule = Rule(target.rule_law(Sampling(temperature=1, top_k=top_k)), coupling)
        for verdict in decode(target, drafter, rule, made.prompts(), torch.arange(3)):
            tokens = verdict.draft.tokens
            assert ((tokens >= 0).sum(1) == (size - done - 1).clamp(0, 7)).all() or before is None
            if tokens.shape[1]:
                q = verdict.draft.q
                assert isinstance(q, form)
                assert (q.prob(pad(tokens, (0, 1))[..., None])[:, :-1, 0][tokens >= 0] > 0).all()
            if before is not None:
                _newest_law_stands_by_each_survivor(before, verdict)
            done, before = done + verdict.length, verdict
            if bool((done >= size).all()):
                break


def _newest_law_stands_by_each_survivor(before: Verdict, verdict: Verdict) -> None:
    """q := p, whether the guess had agreed or not."""
    for row in range(3):
        n, old = int(before.length[row]), int((before.draft.tokens[row] >= 0).sum())
        for column in range(min(old + 1 - n, int((verdict.draft.tokens[row] >= 0).sum()))):
            assert verdict.draft.q is not None
            told, law = (
                verdict.draft.q[row : row + 1, column].dense(64),
                before.law[row : row + 1, n + column].dense(64),
            )
            torch.testing.assert_close(told, law, rtol=0, atol=0)


def test_a_comb_is_the_uniform_law_in_few_ids() -> None:
    """Over all combs every code is guessed about equally often, and each law is that of its comb."""
    made = drawn("visual")
    low, high = made.target.layout.codes
    drafter, coupling = pair("scd-maximal", window=33, start="uniform", layout=made.target.layout)
    prompts, counts = made.prompts((5,)) * 40, torch.zeros(64)
    rounds = decode(
        made.target, drafter, Rule(Sampling(temperature=1, top_k=5).law, coupling), prompts, torch.arange(40)
    )
    next(rounds)
    draft: Draft = next(rounds).draft
    assert isinstance(draft.q, Sparse)
    assert draft.q.ids.shape[-1] == 5
    assert draft.q.ids.diff(dim=-1).min() > 0
    counts = torch.bincount(draft.tokens.flatten(), minlength=64)
    assert counts[:low].sum() == counts[high:].sum() == 0
    mean = counts[low:high].double().mean()
    assert (counts[low:high] - mean).abs().max() < 6 * mean**0.5


def test_the_drafter_waits_for_the_device_at_most_once_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    made = drawn("visual")
    drafter, coupling = pair("scd-maximal", window=16, start="left", layout=made.target.layout)
    waits = list[str]()
    for name in ("tolist", "item", "__bool__", "__int__", "__float__", "nonzero", "cpu", "numpy"):
        real = getattr(Tensor, name)

        def noted(self: Tensor, *given: Any, _name: str = name, _real: Any = real, **more: Any) -> Any:
            waits.append(_name)
            return _real(self, *given, **more)

        monkeypatch.setattr(Tensor, name, noted)
    rule = Rule(Sampling(temperature=1).law, coupling)
    for rows, allowed in ((1, []), (3, ["tolist"])):
        session, context, _ = made.target.open(made.prompts()[:rows])
        guesser = drafter.open(session, context, rule)
        verdicts = decode(made.target, drafter, rule, made.prompts()[:rows], torch.arange(rows))
        for _ in range(4):
            verdict = next(verdicts)
            waits.clear()
            guesser.propose(verdict)
            assert waits == allowed


def test_methods_load_by_name() -> None:
    drafter = load_drafter("jacobi", None, method="scd-maximal", window=64, start="above", layout=LAYOUT)
    assert drafter == Jacobi("scd-maximal", 64, "above", LAYOUT)
    assert {name: type(pair(name)[1]) for name in METHODS} == {
        "sjd": Maximal, "scd-maximal": Maximal, "scd-gumbel": Maximal, "scd-exact": Gumbel}  # fmt: skip
    assert pair("ar") == (NoDraft(), Gumbel())


@pytest.mark.parametrize(("bad", "said"), [
    ({"window": 0}, "window is 0; it must be in 1"),
    ({"window": 129}, "window is 129"),
    ({"method": "scd-exat"}, "did you mean 'scd-exact'"),
    ({"method": "scd", "start": "left"}, "unknown"),
    ({"start": "abve"}, "did you mean 'above'"),
    ({"start": "above"}, "needs a layout"),
    ({"start": "uniform"}, "needs a layout"),
    ({"start": "sibling"}, "belong together"),
    ({"sibling": Sibling(((1,),), (0,))}, "belong together"),
    ({"adaptive": -1.0}, "adaptive is -1"),
])  # fmt: skip
def test_what_has_no_meaning_is_refused(bad: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        pair(**{"method": "scd-exact", **bad})
    if "method" in bad:
        with pytest.raises(UsageError, match=said):
            Jacobi(**bad)


def test_siblings_are_checked() -> None:
    for tokens, seeds in (((), ()), (((),), (1,)), (((1, 2),), ())):
        with pytest.raises(UsageError, match="one row of tokens or more"):
            Sibling(tokens, seeds)
    with pytest.raises(UsageError, match="2 sibling rows for 3 prompts"):
        Sibling(((1,), (2,)), (1, 2)).rows(3)


def test_every_start_is_told_apart() -> None:
    assert {name for name, start in STARTS.items() if start.codes} == {"random", "uniform"}
    assert Jacobi.needs == Needs()
