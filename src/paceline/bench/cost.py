"""What one round costs: target forwards by rows, our plain loop and Hugging Face `generate` a token, in one run.

The figures behind every speed-up: a drafter pays once its tokens a round exceed t(rows) / t(1). Contenders take turns
inside each lap, ratios are formed lap by lap, and intervals are bootstrapped over laps, so that a machine that slows
down for a while slows all of them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from paceline.bench.hf import untouched
from paceline.bench.intervals import INSIDE
from paceline.bench.meta import meta_of
from paceline.clock import Stopwatch
from paceline.core import Decoding, Draft, Prompt, Rule, decode, settle
from paceline.couplings import Gumbel
from paceline.dice import VERIFIER, Dice
from paceline.drafters.free.none import NoDraft
from paceline.sampling import Sampling

TOKENS = 10  # that each contender writes a lap
TRIES = 4  # forwards of one width a lap; their median counts
Laps = dict[str, list[float]]  # milliseconds of each contender, lap by lap


def measure(target: Any, rows: Sequence[int], context: int, seconds: float, sampling: Sampling) -> dict[str, Any]:
    """Costs behind a prompt of `context` random tokens, for about `seconds` seconds; a document ready for JSON.

    Raises ValueError for rows below 2, no time or no context.
    """
    if min(rows) < 2 or seconds <= 0 or context < 1:
        raise ValueError("rows must be at least 2, seconds above 0, context at least 1")
    prompt = Prompt(torch.randint(4, target.vocab_size, (context,), generator=torch.Generator().manual_seed(0)))
    shares: list[float] = []
    laps: Laps = {"loop": [], "hf": [], "settle": [], **{f"forward {n}": [] for n in (1, *rows)}}
    contenders = _contenders(target, prompt, rows, sampling, shares)
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(laps["loop"]) < 3:
        order = list(contenders)
        order = order[len(laps["loop"]) % len(order) :] + order[: len(laps["loop"]) % len(order)]
        found = {name: contenders[name]() for name in order}
        for name, spent in found.items():
            laps[name].append(1000 * spent)
    gain, gain_ci = _ratio(laps["hf"], laps["loop"])
    return {
        "forwards": [_forward(n, laps) for n in (1, *rows)],
        "loop_ms": float(np.median(laps["loop"])),
        "hf_ms": float(np.median(laps["hf"])),
        "plain_gain": gain,
        "plain_gain_ci": gain_ci,
        "overhead_share": float(np.median(shares)),
        "settle_rows": max(rows),
        "settle_ms": float(np.median(laps["settle"])),
        "laps": len(laps["loop"]),
    }


def _contenders(
    target: Any, prompt: Prompt, rows: Sequence[int], sampling: Sampling, shares: list[float]
) -> dict[str, Callable[[], float]]:
    """Each writes its share of a lap and returns seconds a token, or a forward."""
    session, _, _ = target.open([prompt])
    one = torch.ones(1, dtype=torch.long)
    session.commit(one[None] - 1, one)
    root = torch.full((1,), int(prompt.ids[-1]))
    guesses = torch.randint(4, target.vocab_size, (1, max(rows) - 1), generator=torch.Generator().manual_seed(1))
    rule = Rule(sampling.law, Gumbel())

    def settled() -> float:
        draft = Draft.chain(guesses)
        seen = session.forward(root, draft)
        session.commit(-one[None], one - 1)
        begin = time.perf_counter()
        settle(draft, seen, rule, Dice(one, session.length, one, VERIFIER))
        return time.perf_counter() - begin

    def forward(n: int) -> Callable[[], float]:
        draft = Draft.chain(guesses[:, : n - 1])

        def run() -> float:
            spent = []
            for _ in range(TRIES + 1):  # the first warms the caches
                begin = time.perf_counter()
                session.forward(root, draft)
                spent.append(time.perf_counter() - begin)
            session.commit(-one[None], one - 1)
            return float(np.median(spent[1:]))

        return run

    return {
        "loop": lambda: _loop(decode(target, NoDraft(), rule, [prompt], one - 1), shares),
        "hf": _hf(target, prompt, sampling),
        "settle": settled,
        **{f"forward {n}": forward(n) for n in (1, *rows)},
    }


def _loop(decoding: Decoding, shares: list[float]) -> float:
    """Seconds a round of our plain loop; the share outside the target's forward goes to `shares`."""
    next(decoding)
    clock = decoding.clock = Stopwatch(str(decoding.session.length.device))
    begin = time.perf_counter()
    for _ in range(TOKENS):
        next(decoding)
    spent = time.perf_counter() - begin
    shares.append(1 - clock.seconds["target"] / spent)
    return spent / TOKENS


def _hf(target: Any, prompt: Prompt, sampling: Sampling) -> Callable[[], float]:
    """Seconds a token of an untouched model's `generate`, prefill taken out by a second, shorter call."""
    from transformers import GenerationConfig

    model = untouched(target)
    ids = prompt.ids[None].to(target.device)
    drawn: dict[str, Any] = {"do_sample": False}
    if sampling.temperature > 0:
        drawn = {"do_sample": True, "temperature": sampling.temperature, "top_k": sampling.top_k}

    def call(tokens: int) -> float:
        model.generation_config = GenerationConfig(max_new_tokens=tokens, eos_token_id=None, pad_token_id=0, **drawn)
        begin = time.perf_counter()
        model.generate(input_ids=ids, attention_mask=torch.ones_like(ids))
        return time.perf_counter() - begin

    return lambda: (call(1 + TOKENS) - call(1)) / TOKENS


def _forward(rows: int, laps: Laps) -> dict[str, Any]:
    own = laps[f"forward {rows}"]
    to_one, interval = _ratio(own, laps["forward 1"])
    return {"rows": rows, "ms": float(np.median(own)), "ratio": to_one, "ratio_ci": interval}


def _ratio(top: Sequence[float], bottom: Sequence[float]) -> tuple[float, list[float]]:
    """The median ratio of laps, and its 95 % interval."""
    ratios = np.array(top) / np.array(bottom)
    drawn = np.random.default_rng(0).integers(len(ratios), size=(1000, len(ratios)))
    low, high = np.percentile(np.median(ratios[drawn], axis=1), INSIDE)
    return float(np.median(ratios)), [float(low), float(high)]


def lines(document: dict[str, Any]) -> Iterator[str]:
    """The document as a table, line by line."""
    for entry in document["forwards"]:
        low, high = entry["ratio_ci"]
        yield f"forward, {entry['rows']:3d} rows  {entry['ms']:8.2f} ms   {entry['ratio']:.2f}x [{low:.2f}, {high:.2f}]"
    low, high = document["plain_gain_ci"]
    yield f"settle,  {document['settle_rows']:3d} rows  {document['settle_ms']:8.2f} ms"
    yield f"plain loop         {document['loop_ms']:8.2f} ms a token, overhead {document['overhead_share']:.1%}"
    gain = f"{document['plain_gain']:.2f}x [{low:.2f}, {high:.2f}]"
    yield f"HF generate        {document['hf_ms']:8.2f} ms a token; our loop is {gain} as fast"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the costs of a target as a table, or as JSON."""
    from paceline.errors import UsageError
    from paceline.targets import load_target

    parser = argparse.ArgumentParser(prog="python -m paceline.bench.cost", description=__doc__)
    parser.add_argument("target", help="bundled name, directory or hub id")
    parser.add_argument("--rows", default="8", help="widths beside 1, such as 2,4,8,16")
    parser.add_argument("--context", type=int, default=256, help="tokens of the prompt")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    try:
        target = load_target(given.target, threads=given.threads)
        rows = [int(n) for n in given.rows.split(",")]
        sampling = Sampling(temperature=given.temperature, top_k=given.top_k)
        with torch.inference_mode():
            found = measure(target, rows, given.context, given.seconds, sampling)
    except (UsageError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.json:
        settings = {"target": given.target, "context": given.context, "temperature": given.temperature}
        print(json.dumps({"meta": meta_of(target, settings), **found}, indent=1))
    else:
        print("\n".join(lines(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
