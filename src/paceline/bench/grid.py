"""What Jacobi decoding saves on a synthetic picture: forwards by method and window, without weights, in a minute."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from paceline.bench.stale import NAME, Stale
from paceline.clock import Clock, silent
from paceline.core import Context, Draft, Needs, Pass, Prompt, Rule, decode
from paceline.couplings import Maximal
from paceline.drafters.free.jacobi import LONGEST, pair
from paceline.errors import UsageError
from paceline.layout import Layout
from paceline.sampling import Sampling

SIDE, VOCAB = 8, 64
ROWS = (  # method, start
    ("sjd", "random"),
    ("scd-maximal", "random"),
    (NAME, "random"),
    ("scd-gumbel", "random"),
    ("scd-exact", "random"),
    ("scd-maximal", "uniform"),
    ("scd-maximal", "left"),
    ("scd-gumbel", "above"),
)


@dataclass(frozen=True)
class StreamTarget:
    """A target that is a function of the tokens generated so far; what the prompt says does not matter."""

    logits: Callable[[Tensor, Tensor], Tensor]  # (text [B, M], offsets [B, n]) -> [B, n, V]; reads left of each offset
    vocab_size: int
    size: int  # tokens that it can be asked for

    def open(
        self, prompts: Sequence[Prompt], needs: Needs = Needs(), *, clock: Clock = silent
    ) -> tuple[StreamSession, Context, Pass]:
        """Read the prompts, of one token or more each."""
        ids = torch.nn.utils.rnn.pad_sequence([p.ids for p in prompts], batch_first=True, padding_value=-1)
        session = StreamSession(self, (ids >= 0).sum(1))
        context = Context(tuple(prompts), ids, ids >= 0, torch.zeros_like(ids, dtype=torch.bool))
        root = torch.stack([p.ids[-1] for p in prompts])
        return session, context, session.forward(root, Draft.none(root))


class StreamSession:
    """Each row's text, and how much of it is committed."""

    def __init__(self, target: StreamTarget, prompt: Tensor) -> None:
        self.target, self.prompt = target, prompt
        self.length = prompt - 1
        self.text = torch.zeros(len(prompt), target.size + 2 * LONGEST, dtype=torch.long)

    def forward(self, root: Tensor, draft: Draft, start: int = 0) -> Pass:
        """Read root and draft, a chain, behind what is committed."""
        if not draft.tree.is_chain:
            raise UsageError("this synthetic target reads chains only; the drafter offered a tree")
        column = torch.arange(draft.tree.size + 1)
        at = (self.length - self.prompt)[:, None] + column  # the prompt's last token is at -1
        self.block = torch.cat([root[:, None], draft.tokens.clamp(min=0)], 1)
        last = self.text.shape[1] - 1  # a dump for what is not text
        self.text.scatter_(1, at.where((at >= 0) & (at < last), last), self.block)
        return Pass(self.target.logits(self.text, (at + 1).clamp(max=self.target.size - 1)[:, start:]))

    def commit(self, path: Tensor, length: Tensor) -> None:
        self.length = self.length + length  # a chain's path is a prefix, which stands where it was written

    def keep(self, rows: Tensor) -> None:
        self.length, self.prompt, self.text = self.length[rows], self.prompt[rows], self.text[rows]

    def join(self, other: StreamSession) -> None:
        self.length = torch.cat([self.length, other.length])
        self.prompt = torch.cat([self.prompt, other.prompt])
        self.text = torch.cat([self.text, other.text])


def synthetic_grid(side: int = SIDE, vocab: int = VOCAB, seed: int = 0) -> StreamTarget:
    """A square of tokens that depend on their left and upper neighbours; flat, as visual laws are (3.2 of 4.2 nats)."""
    noise = np.random.default_rng(seed)
    mine, theirs = noise.normal(size=(vocab, 8)), noise.normal(size=(vocab, 8)) / math.sqrt(8)
    left = torch.tensor(mine @ theirs.T, dtype=torch.float32)
    above = torch.tensor(noise.normal(size=(vocab, 8)) @ theirs.T, dtype=torch.float32)
    base = torch.tensor(0.6 * noise.normal(size=vocab), dtype=torch.float32)

    def logits(text: Tensor, offsets: Tensor) -> Tensor:
        beside = text.gather(1, (offsets - 1).clamp(min=0))
        over = text.gather(1, (offsets - side).clamp(min=0))
        from_left = left[beside] * (offsets % side > 0)[..., None]
        return base + from_left + above[over] * (offsets >= side)[..., None]

    return StreamTarget(logits, vocab, side * side)


@dataclass(frozen=True, slots=True)
class Count:
    """Forwards until a stream was complete, and how calm its guesses were."""

    forwards: Tensor  # [B]; prefill included
    collisions: float  # share of guesses that a round left unsettled and unchanged

    @property
    def mean(self) -> float:
        return float(self.forwards.double().mean())


def count(target: Any, drafter: Any, coupling: Any, sampling: Sampling, seeds: Tensor, size: int) -> Count:
    """Decode one stream of `size` tokens a seed, side by side, and count. seeds: [B]."""
    prompts = [Prompt(torch.zeros(1, dtype=torch.long))] * len(seeds)
    forwards, done = torch.zeros_like(seeds), torch.zeros_like(seeds)
    same = total = 0
    before: tuple[Tensor, Tensor] | None = None  # last round's guesses, and how many were settled
    for verdict in decode(target, drafter, Rule(sampling.law, coupling), prompts, seeds):
        forwards += done < size
        if before is not None:
            guesses, settled = before
            source = torch.arange(verdict.draft.tokens.shape[1]) + settled[:, None]
            if guesses.shape[1] and source.shape[1]:
                old = guesses.gather(1, source.clamp(max=guesses.shape[1] - 1))
                both = (source < guesses.shape[1]) & (old >= 0) & (verdict.draft.tokens >= 0)
                same, total = same + int((both & (old == verdict.draft.tokens)).sum()), total + int(both.sum())
        done += verdict.length
        before = verdict.draft.tokens, verdict.length
        if bool((done >= size).all()):
            return Count(forwards, same / max(total, 1))
    raise AssertionError("decode ended")


def measure(windows: Sequence[int], streams: int = 300, seed: int = 0) -> list[dict[str, Any]]:
    """One record a window, method and start. Raises UsageError for a window out of range."""
    target, sampling = synthetic_grid(), Sampling(temperature=1)
    layout = Layout.raster(SIDE, SIDE, codes=(0, VOCAB))
    seeds = torch.arange(streams) + seed
    found = list[dict[str, Any]]()
    for window in windows:
        for method, start in ROWS:
            if method == NAME:
                drafter, coupling = Stale(window=window, start=start, layout=layout), Maximal()
            else:
                drafter, coupling = pair(method, window=window, start=start, layout=layout)
            counted = count(target, drafter, coupling, sampling, seeds, layout.size)
            error = float(counted.forwards.double().std()) / math.sqrt(streams)
            found.append({
                "window": window, "method": method, "start": start, "nfe": counted.mean, "nfe_se": error,
                "nfe_ratio": layout.size / counted.mean, "collisions": counted.collisions,
                "exact": method != NAME,
            })  # fmt: skip
    return found


def lines(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The records as a table, line by line."""
    yield f"forwards for {SIDE * SIDE} tokens ({SIDE} x {SIDE} grid, {VOCAB} symbols, T = 1); plain: {SIDE * SIDE}"
    yield f"{'window':>6}  {'method':<17}{'start':<9}{'nfe':>6}  {'+-':>5}  {'ratio':>5}  {'unchanged':>9}"
    for r in records:
        yield (
            f"{r['window']:6d}  {r['method']:<17}{r['start']:<9}{r['nfe']:6.1f}  {1.96 * r['nfe_se']:5.1f}"
            f"  {r['nfe_ratio']:5.2f}  {r['collisions']:9.2f}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(prog="python -m paceline.bench.grid", description=__doc__)
    parser.add_argument("--windows", default="4,8,16,32", help="inputs of one forward, such as 8,64")
    parser.add_argument("--streams", type=int, default=300, help="pictures a row of the table")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    try:
        found = measure([int(n) for n in given.windows.split(",")], given.streams, given.seed)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found, indent=1) if given.json else "\n".join(lines(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
