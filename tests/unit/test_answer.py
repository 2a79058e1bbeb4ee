"""Stopping, budgets, streaming and batches around the loop, on a target with exact answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from laws.families import FAMILIES, TABLE, V
from paceline.answer import Answer, generate, stream
from paceline.core import Prompt
from paceline.errors import UsageError
from paceline.identity import compare
from paceline.sampling import Sampling
from paceline.targets.table import TableTarget

LETTERS = "abcd"
NONE = FAMILIES["none"]
DRAFTERS = ["none", "lookup", "lm", "chosen-tree"]
TALK = [{"role": "user", "content": "bcb"}]
FREE = Sampling(temperature=1, seed=5, max_new_tokens=40)


@dataclass(frozen=True)
class Spelled(TableTarget):
    """A table target whose tokens are letters; token 3 ends a text when asked."""

    end_ids: tuple[int, ...] = ()
    max_length: int = 1000

    @property
    def device(self) -> torch.device:
        return self.table.device

    def encode(self, messages: Sequence[Any], *, longest_edge: int | None = None) -> Prompt:
        return Prompt(torch.tensor([LETTERS.index(c) for c in messages[0]["content"]]))

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(LETTERS[i] for i in ids)

    def astype(self, dtype: torch.dtype) -> Spelled:
        return Spelled(self.table.to(dtype), self.end_ids)


TARGET = Spelled(TABLE)


def plain(sampling: Sampling, target: Spelled = TARGET) -> Answer:
    return generate(target, NONE, TALK, sampling)


@pytest.mark.parametrize("name", DRAFTERS)
def test_the_budget_is_exact(name: str) -> None:
    for budget in (1, 2, 7):
        answer = generate(TARGET, FAMILIES[name], TALK, Sampling(temperature=1, seed=5, max_new_tokens=budget))
        assert answer.n_tokens == budget == len(answer.text) == len(answer.accepted)
        assert answer.token_ids == plain(FREE).token_ids[:budget]
        assert answer.n_tokens == 1 + sum(r.committed for r in answer.trace.rounds)


@pytest.mark.parametrize("name", DRAFTERS)
def test_an_end_id_is_emitted_and_not_spelled(name: str) -> None:
    whole = plain(FREE).token_ids
    answer = generate(Spelled(TABLE, end_ids=(3,)), FAMILIES[name], TALK, FREE)
    at = whole.index(3)
    assert answer.token_ids == whole[: at + 1]
    assert answer.text == TARGET.decode(whole[:at])


@pytest.mark.parametrize("name", DRAFTERS)
def test_a_stop_string_across_rounds_cuts_exactly(name: str) -> None:
    text = plain(FREE).text
    stop = text[9:12]
    sampling = Sampling(temperature=1, seed=5, max_new_tokens=40, stop_strings=(stop, "zz"))
    answer = generate(TARGET, FAMILIES[name], TALK, sampling)
    at = text.index(stop)
    assert answer.text == text[:at]
    assert answer.token_ids == plain(FREE).token_ids[: at + len(stop)]


@pytest.mark.parametrize("name", DRAFTERS)
def test_pieces_join_to_the_answer(name: str) -> None:
    pieces = list(stream(TARGET, FAMILIES[name], TALK, FREE))
    answer = generate(TARGET, FAMILIES[name], TALK, FREE)
    assert "".join(piece.text for piece in pieces) == answer.text
    assert tuple(i for piece in pieces for i in piece.token_ids) == answer.token_ids
    assert tuple(a for piece in pieces for a in piece.accepted) == answer.accepted
    assert [piece.finished for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert len(pieces) == 1 + answer.rounds == answer.trace.nfe


@pytest.mark.parametrize("name", DRAFTERS)
def test_rows_of_a_batch_end_at_their_own_time_and_equal_those_alone(name: str) -> None:
    target = Spelled(TABLE, end_ids=(3,))
    talks = [[{"role": "user", "content": text}] for text in ("ab", "cdbba", "dd", "abc")]
    together = generate(target, FAMILIES[name], talks, FREE)
    assert len({answer.n_tokens for answer in together}) > 1
    for i, answer in enumerate(together):
        alone = generate(target, FAMILIES[name], talks[i], Sampling(temperature=1, seed=5 + i, max_new_tokens=40))
        assert answer.token_ids == alone.token_ids
        assert answer.trace.rounds == alone.trace.rounds


def test_a_stream_left_early_leaves_nothing_behind() -> None:
    pieces = stream(TARGET, FAMILIES["lm"], TALK, FREE)
    next(pieces)
    pieces.close()
    assert generate(TARGET, FAMILIES["lm"], TALK, FREE).token_ids == plain(FREE).token_ids


def test_a_stream_leaves_the_callers_autograd_alone() -> None:
    pieces = stream(TARGET, FAMILIES["lm"], TALK, FREE)
    next(pieces)
    assert not torch.is_inference_mode_enabled()
    assert next(pieces).token_ids


def test_phases_are_told_and_add_up() -> None:
    answer = generate(TARGET, FAMILIES["lm"], TALK, FREE)
    assert {"preprocess", "prefill", "condition", "draft", "target", "settle", "commit"} <= set(answer.phases_ms)
    assert all(ms >= 0 for ms in answer.phases_ms.values())


@pytest.mark.parametrize(("messages", "coupling"), [([], "gumbel"), (TALK, "gumbell")])
def test_bad_calls_are_usage_errors(messages: list[Any], coupling: str) -> None:
    with pytest.raises(UsageError, match=r"messages is empty|did you mean 'gumbel'"):
        generate(TARGET, NONE, messages, FREE, coupling=coupling)


def test_the_answer_may_fill_the_context_and_no_more() -> None:
    assert generate(Spelled(TABLE, max_length=10), FAMILIES["lm"], TALK, FREE).n_tokens == 10 - 3


@pytest.mark.parametrize("sampling", [Sampling(max_new_tokens=20), FREE])
def test_a_wrong_token_is_a_fault_and_a_near_one_a_tie(sampling: Sampling) -> None:
    prompt = TARGET.encode(TALK)
    text = list(plain(sampling).token_ids)
    assert compare(TARGET, prompt, sampling, sampling.seed, text, text).identical
    wrong = [*text[:6], (text[6] + 1) % V, *text[7:]]
    verdict = compare(TARGET, prompt, sampling, sampling.seed, wrong, text)
    assert (verdict.identical, verdict.ties, verdict.faults, verdict.first) == (False, 0, 1, 6)
    assert compare(TARGET, prompt, sampling, sampling.seed, text[:-1], text).faults == 1


def test_a_margin_below_the_kernel_noise_is_a_tie() -> None:
    table = torch.zeros(V, V, V)
    table[..., 1] = 1e-9 + 1.0
    table[..., 2] = 1.0
    shifted = Spelled(table + torch.randn(V, V, V, generator=torch.Generator().manual_seed(1)) * 1e-7)

    class Close(Spelled):
        def astype(self, dtype: torch.dtype) -> Spelled:
            return Spelled(table.to(dtype))

    prompt = TARGET.encode(TALK)
    verdict = compare(Close(shifted.table), prompt, Sampling(), 0, [1, 1], [2, 1])
    assert (verdict.ties, verdict.faults) == (1, 0)
