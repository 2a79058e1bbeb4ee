"""The server through the real `openai` client: texts are offline ones, whatever shares their batch."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
import torch

from paceline.answer import answer_prompts, generate
from paceline.core import Prompt
from paceline.drafters import method
from paceline.sampling import Sampling
from unit.cli.checkpoint import Shelf
from unit.serve.conftest import NAME, Live

openai = pytest.importorskip("openai", reason="the extra `dev` is not installed")
TALK: list[Any] = [{"role": "user", "content": "What is it?"}]


@pytest.fixture(scope="module")
def client(live: Live) -> Any:
    return openai.OpenAI(base_url=live.url + "/v1", api_key="none", max_retries=0)


def said(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def seen(shelf: Shelf) -> list[Any]:
    data = base64.b64encode(shelf.picture.read_bytes()).decode()
    url = f"data:image/png;base64,{data}"
    parts = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is it?"}]
    return [{"role": "user", "content": parts}]


def offline(target: Any, messages: Any, drafter: str = "lookup", **sampling: Any) -> Any:
    return generate(target, method(drafter)(), messages, Sampling(**sampling))


def test_models(client: Any) -> None:
    [model] = client.models.list()
    assert model.id == NAME
    assert client.models.retrieve(NAME).owned_by == "paceline"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_a_whole_answer_is_the_offline_one(client: Any, target: Any, shelf: Shelf) -> None:
    for messages in (TALK, seen(shelf)):
        told = client.chat.completions.create(model=NAME, messages=messages, temperature=0.8, seed=5, max_tokens=24)
        wanted = offline(target, messages, temperature=0.8, seed=5, max_new_tokens=24)
        assert told.choices[0].message.content == wanted.text
        assert told.choices[0].finish_reason in ("length", "stop")
        assert told.usage.completion_tokens == wanted.n_tokens
        assert told.usage.total_tokens == wanted.n_tokens + wanted.trace.prompt_length
        figures = told.usage.speculative_decoding
        assert figures["rounds"] == wanted.rounds
        assert figures["tau"] == pytest.approx(wanted.tau)
        assert figures["num_accepted_tokens"] == sum(r.accepted for r in wanted.trace.rounds)
        details = told.usage.completion_tokens_details
        assert details.accepted_prediction_tokens == figures["num_accepted_tokens"]


def test_a_stream_joins_to_the_whole_answer(client: Any, target: Any) -> None:
    chunks = list(client.chat.completions.create(
        model=NAME, messages=TALK, temperature=0, max_tokens=30, stream=True,
        stream_options={"include_usage": True},
    ))  # fmt: skip
    wanted = offline(target, TALK, max_new_tokens=30)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == wanted.text
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks if c.choices].count("length") == 1
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 30


def test_rounds_are_told_on_request(client: Any, target: Any) -> None:
    chunks = list(client.chat.completions.create(
        model=NAME, messages=TALK, temperature=0, max_tokens=30, stream=True,
        extra_body={"stream_options": {"include_rounds": True}},
    ))  # fmt: skip
    told = [c.choices[0].round for c in chunks if c.choices and hasattr(c.choices[0], "round")]
    wanted = offline(target, TALK, max_new_tokens=30)
    assert [r["number"] for r in told] == list(range(len(told)))
    assert [r["accepted"] for r in told[1:]] == [r.accepted for r in wanted.trace.rounds]
    assert sum(r["tokens"] for r in told) == 30
    assert any(r["guessed"] for r in told)


def test_plain_decoding_on_request_says_the_same(client: Any) -> None:
    ask = {"model": NAME, "messages": TALK, "temperature": 1, "seed": 3, "max_tokens": 20}
    drafted, plain = (client.chat.completions.create(**ask, extra_body={"drafter": d}) for d in ("default", "none"))
    assert drafted.choices[0].message.content == plain.choices[0].message.content
    assert plain.usage.speculative_decoding["num_drafts"] == 0


def test_stop_and_n(client: Any, target: Any) -> None:
    wanted = [offline(target, TALK, temperature=1, seed=9 + i, max_new_tokens=20) for i in range(3)]
    told = client.chat.completions.create(model=NAME, messages=TALK, seed=9, n=3, max_tokens=20)
    assert [c.message.content for c in told.choices] == [answer.text for answer in wanted]
    assert len({c.message.content for c in told.choices}) > 1
    stop = wanted[0].text[6:9]
    cut = client.chat.completions.create(model=NAME, messages=TALK, seed=9, max_tokens=20, stop=[stop, "zzz"])
    assert cut.choices[0].message.content == wanted[0].text.partition(stop)[0]
    assert cut.choices[0].finish_reason == "stop"


def test_completions_continue_text_and_ids(client: Any, target: Any) -> None:
    ids = target.tokenizer.encode("a red apple")
    prompt = Prompt(torch.tensor(ids))
    [wanted] = answer_prompts(target, method("lookup")(), [prompt], Sampling(max_new_tokens=12))
    for given in ("a red apple", ids):
        told = client.completions.create(model=NAME, prompt=given, temperature=0, max_tokens=12)
        assert told.choices[0].text == wanted.text
    pieces = client.completions.create(model=NAME, prompt=ids, temperature=0, max_tokens=12, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == wanted.text


@pytest.mark.parametrize("drafter", ["lookup", "none"])
def test_a_seed_says_the_same_in_any_batch(live: Live, target: Any, shelf: Shelf, drafter: str) -> None:
    """Twenty requests of unlike prompts, lengths and temperatures at once, on four rows."""

    def asks() -> list[dict[str, Any]]:
        return [
            {
                "messages": seen(shelf) if i % 4 == 0 else said(f"w{i:03d} list " * (i % 5 + 1)),
                "temperature": (0, 0.7, 1.0)[i % 3], "top_p": 0.9 if i % 2 else 1.0,
                "seed": i, "max_tokens": 6 + 3 * (i % 7),
            }
            for i in range(20)
        ]  # fmt: skip

    async def all_at_once() -> list[str]:
        how = {"model": NAME, "extra_body": {"drafter": "none"} if drafter == "none" else {}}
        async with openai.AsyncOpenAI(base_url=live.url + "/v1", api_key="none", max_retries=0) as client:
            told = await asyncio.gather(*(client.chat.completions.create(**how, **ask) for ask in asks()))
        return [each.choices[0].message.content for each in told]

    wanted = [
        offline(
            target, ask["messages"], temperature=ask["temperature"], seed=ask["seed"], max_new_tokens=ask["max_tokens"],
            top_p=ask["top_p"],
        ).text
        for ask in asks()
    ]  # fmt: skip
    assert asyncio.run(all_at_once()) == wanted
    assert live.idle()
