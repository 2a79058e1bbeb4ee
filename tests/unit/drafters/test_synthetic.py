"""The what-if drafter: accepts at the rate that it was given, and is the oracle at rate 1."""

from __future__ import annotations

import pytest
import torch

from laws.families import FAMILIES, TARGET, run
from paceline.core import Prompt, Rule, decode
from paceline.couplings import Gumbel, Maximal
from paceline.drafters.free.synthetic import Synthetic, rate_of
from paceline.errors import UsageError
from paceline.sampling import Sampling
from paceline.trace import Round, survival, tau

SETTINGS = {"greedy": Sampling(), "t1": Sampling(temperature=1)}
ROWS, LENGTH = 40, 120
PROMPTS = [Prompt(torch.tensor([i % 4, i // 4 % 4, i % 3])) for i in range(ROWS)]
SEED = torch.arange(ROWS) + 5


def rounds(drafter: Synthetic, sampling: Sampling, coupling: object = Gumbel()) -> list[Round]:
    """All full rounds of a batch."""
    done: list[Round] = []
    told = decode(TARGET, drafter, Rule(sampling.law, coupling), PROMPTS, SEED)  # type: ignore[arg-type]
    next(told)
    for verdict in told:
        if int(verdict.proposed.min()) < drafter.guesses:
            return done
        lengths = verdict.length.tolist()
        done += [Round(drafter.guesses, n - 1, n) for n in lengths]
    raise AssertionError("decode ended")


def known(sampling: Sampling) -> list[list[int]]:
    return run(FAMILIES["none"], Gumbel(), sampling, PROMPTS, SEED, LENGTH)


@pytest.mark.parametrize("setting", SETTINGS)
def test_guesses_survive_at_the_given_rate(setting: str) -> None:
    drafter = Synthetic.of_tau(known(SETTINGS[setting]), 2.5, 4)
    found = rounds(drafter, SETTINGS[setting])
    assert len(found) > 800
    spread = 5 / len(found) ** 0.5
    assert tau(found) == pytest.approx(2.5, abs=1.5 * spread)
    assert survival(found) == pytest.approx([drafter.rate**k for k in range(1, 5)], abs=0.5 * spread)


@pytest.mark.parametrize("setting", SETTINGS)
def test_rate_one_is_the_oracle_and_rate_zero_is_never_right(setting: str) -> None:
    answers = tuple(map(tuple, known(SETTINGS[setting])))
    assert {r.accepted for r in rounds(Synthetic(answers, 1.0, 4), SETTINGS[setting])} == {4}
    assert {r.accepted for r in rounds(Synthetic(answers, 0.0, 4), SETTINGS[setting])} == {0}


def test_under_maximal_the_text_is_not_known_and_the_rate_not_kept() -> None:
    answers = tuple(map(tuple, known(SETTINGS["t1"])))
    assert tau(rounds(Synthetic(answers, 1.0, 4), SETTINGS["t1"], Maximal())) < 3


def test_a_round_fails_anew() -> None:
    """A guess that was spoilt and not reached is not spoilt for ever: failures of rounds are independent."""
    drafter = Synthetic.of_tau(known(SETTINGS["greedy"]), 2.0, 4)
    told = [r.accepted for r in rounds(drafter, SETTINGS["greedy"])]
    first = torch.tensor(told[: len(told) // ROWS * ROWS]).view(-1, ROWS).double()
    pairs = torch.stack([first[:-1].flatten(), first[1:].flatten()])
    assert abs(float(torch.corrcoef(pairs)[0, 1])) < 4 / pairs.shape[1] ** 0.5


@pytest.mark.parametrize(("rate", "guesses"), [(0.0, 3), (0.5, 1), (0.83, 7), (1.0, 8)])
def test_rate_and_tau_are_inverse(rate: float, guesses: int) -> None:
    assert rate_of(sum(rate**k for k in range(guesses + 1)), guesses) == pytest.approx(rate, abs=1e-9)


@pytest.mark.parametrize("tau_", [0.5, 5.1])
def test_a_tau_out_of_reach_is_refused(tau_: float) -> None:
    with pytest.raises(UsageError, match="between 1 and 5"):
        rate_of(tau_, 4)


def test_it_must_know_the_answers() -> None:
    with pytest.raises(UsageError, match=f"has 0 for {ROWS} prompt"):
        rounds(Synthetic(), SETTINGS["greedy"])
    with pytest.raises(UsageError, match=f"has 2 for {ROWS} prompt"):
        rounds(Synthetic(((1,), (2,))), SETTINGS["greedy"])


@pytest.mark.parametrize("bad", [{"guesses": 0}, {"rate": 1.5}, {"rate": -0.1}])
def test_values_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="synthetic needs"):
        Synthetic(((1,),), **bad)  # type: ignore[arg-type]
