"""The loop's laws on a target with exact answers: drafted = plain, together = alone, the joint law is the target's."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from scipy.stats import chisquare

from laws.families import COUPLINGS, FAMILIES, PROMPTS, TABLE, TARGET, V, run
from paceline.core import Decoding, Prompt, Rule, decode
from paceline.couplings import Gumbel
from paceline.sampling import Sampling

GREEDY, FREE = Sampling(), Sampling(temperature=1)
SETTINGS = {
    "t0": GREEDY,
    "t0.5": Sampling(temperature=0.5),
    "t1": FREE,
    "top-k": Sampling(temperature=1, top_k=3),
    "top-p": Sampling(temperature=1, top_p=0.8),
    "both": Sampling(temperature=0.5, top_k=3, top_p=0.9),
    "min-p": Sampling(temperature=1, min_p=0.2),
}
SHORT = {"jacobi-sjd", "jacobi-scd"}  # toys that keep dense laws only
NONE = FAMILIES["none"]
ALPHA = 0.01  # of all chi-square tests of one run together


def fits(name: str, sampling: Sampling) -> bool:
    return name not in SHORT or sampling in (SETTINGS["t0.5"], FREE)


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("name", FAMILIES)
def test_greedy_equals_plain_greedy(name: str, coupling: str) -> None:
    if not fits(name, GREEDY):
        pytest.skip("dense laws only")
    seed = torch.arange(3)
    plain = run(NONE, Gumbel(), GREEDY, PROMPTS, seed, 40)
    assert run(FAMILIES[name], COUPLINGS[coupling], GREEDY, PROMPTS, seed, 40) == plain


@pytest.mark.parametrize("setting", [name for name in SETTINGS if name != "t0"])
@pytest.mark.parametrize("name", FAMILIES)
def test_gumbel_equals_plain_sampling_token_for_token(name: str, setting: str) -> None:
    if not fits(name, SETTINGS[setting]):
        pytest.skip("dense laws only")
    seed = torch.arange(3) + 7
    plain = run(NONE, Gumbel(), SETTINGS[setting], PROMPTS, seed, 60)
    assert run(FAMILIES[name], Gumbel(), SETTINGS[setting], PROMPTS, seed, 60) == plain


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_row_does_not_see_its_batch_mates(name: str, coupling: str) -> None:
    seed = torch.tensor([5, 6, 7])
    together = run(FAMILIES[name], COUPLINGS[coupling], FREE, PROMPTS, seed, 30)
    alone = [run(FAMILIES[name], COUPLINGS[coupling], FREE, [p], seed[i : i + 1], 30)[0] for i, p in enumerate(PROMPTS)]
    assert together == alone


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("name", FAMILIES)
def test_rows_that_leave_do_not_change_those_that_stay(name: str, coupling: str) -> None:
    seed = torch.tensor([5, 6, 7])
    alone = run(FAMILIES[name], COUPLINGS[coupling], FREE, [PROMPTS[2]], seed[2:], 40)[0]
    rounds = decode(TARGET, FAMILIES[name], Rule(FREE.law, COUPLINGS[coupling]), PROMPTS, seed)
    text, row = list[int](), 2
    for number, verdict in enumerate(rounds):
        text += verdict.tokens[row, : verdict.length[row]].tolist()
        if number == 2:
            rounds.keep(torch.tensor([2, 0]))
            row = 0
        if number == 5:
            rounds.keep(torch.tensor([0]))
        if len(text) >= 40:
            break
    assert text[:40] == alone


def joined(drafter: Any, coupling: Any, seed: torch.Tensor, n: int, kind: Any = Decoding) -> dict[int, list[int]]:
    """Tokens of three rows: the last joins the first in round 2, the other in round 4; the first leaves in round 6."""
    rule, text, rows = Rule(FREE.law, coupling), dict[int, list[int]]({0: [], 1: [], 2: []}), [0]

    def start(row: int) -> Any:
        return kind(TARGET, drafter, rule, [PROMPTS[row]], seed[row : row + 1])

    def hear(rounds: Any, rows: list[int]) -> None:
        verdict = next(rounds)
        for row, tokens, length in zip(rows, verdict.tokens.tolist(), verdict.length.tolist(), strict=True):
            text[row] += tokens[:length]

    rounds = start(0)
    for number in itertools.count():
        hear(rounds, rows)
        if number in (2, 4):
            late = {2: 2, 4: 1}[number]
            other = start(late)
            for _ in range(number // 2):  # one of them fresh, the other a round older
                hear(other, [late])
            rounds.join(other)
            rows = [*rows, late]
        if number == 6:
            rounds.keep(torch.tensor([2, 1]))
            rows = [rows[2], rows[1]]
        if number > 6 and min(len(text[1]), len(text[2])) >= n:
            return text
    raise AssertionError("decode ended")


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("name", FAMILIES)
def test_rows_that_join_a_running_decode_go_on_as_they_would_alone(name: str, coupling: str) -> None:
    seed = torch.tensor([5, 6, 7])
    for row, text in joined(FAMILIES[name], COUPLINGS[coupling], seed, 30).items():
        alone = run(FAMILIES[name], COUPLINGS[coupling], FREE, [PROMPTS[row]], seed[row : row + 1], len(text))[0]
        assert text == alone, row


def exact_law(prompt: list[int], k: int, sampling: Sampling) -> torch.Tensor:
    """[V ** k]; the probability of each continuation of k tokens."""
    p = sampling.law(TABLE).dense(V)
    want = torch.zeros(V**k, dtype=torch.float64)
    for i, word in enumerate(itertools.product(range(V), repeat=k)):
        a, b, chance = prompt[-2], prompt[-1], 1.0
        for token in word:
            chance *= p[a, b, token].item()
            a, b = b, token
        want[i] = chance
    return want


def joint_law_pvalue(drafter: Any, coupling: Any, sampling: Sampling, n: int, k: int = 4, seed: int = 1000) -> float:
    """Chi-square of the first k tokens of n rows against the exact joint law, rare words pooled."""
    prompt = Prompt(torch.tensor([1, 2, 1]))
    rows = run(drafter, coupling, sampling, [prompt] * n, torch.arange(n) + seed, k)
    code = (torch.tensor(rows) * V ** torch.arange(k - 1, -1, -1)).sum(1)
    want, got = exact_law([1, 2, 1], k, sampling), torch.bincount(code, minlength=V**k).double()
    if bool((got[want == 0] > 0).any()):
        return 0.0  # a word outside the support
    common = want * n >= 5
    seen = torch.cat([got[common], got[~common].sum()[None]])
    hoped = torch.cat([want[common], want[~common].sum()[None]]) * n
    real = hoped > 0
    return float(chisquare(seen[real], hoped[real]).pvalue)


@pytest.mark.law
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("setting", ["t1", pytest.param("both", marks=pytest.mark.slow)])
def test_joint_law_of_four_tokens_is_the_targets(name: str, coupling: str, setting: str) -> None:
    if not fits(name, SETTINGS[setting]):
        pytest.skip("dense laws only")
    tests = 2 * len(FAMILIES) * len(COUPLINGS)
    assert joint_law_pvalue(FAMILIES[name], COUPLINGS[coupling], SETTINGS[setting], 20_000) > ALPHA / tests
