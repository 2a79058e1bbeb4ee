"""The floor: a back-off table of what target answers say next, blind to pictures and question alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from paceline.clock import Clock, silent
from paceline.core import Context, Draft, Needs, Rule, Target, TargetSession, Verdict
from paceline.drafters.directory import LICENSE, check
from paceline.errors import UsageError
from paceline.tasks.ngram import ORDER, Table, longest

START = -1  # stands before an answer's first token
CONFIG, RECORD, WEIGHTS = "config.json", "paceline.json", "model.safetensors"
Follows = Mapping[tuple[int, ...], int]  # context, oldest token first -> the token that follows it most often


def learn(answers: Iterable[Sequence[int]], order: int = ORDER, least: int = 1) -> Follows:
    """What follows each context of up to order - 1 tokens of these answers, which hold their end token if they ended.

    Left out, since the guesses stay the same: a context that says what its own end without the first token says. Left
    out, though they may not: contexts of two tokens and more that were seen fewer than `least` times.
    Raises UsageError without answers.
    """
    table = Table(order)
    table.learn(answers, ended=False)
    if not table.counts:
        raise UsageError("an n-gram table needs at least one answer to learn from")
    follows = dict[tuple[int, ...], int]()
    for context in sorted(table.counts, key=len):  # shorter ones first
        guess: Any = table.guess(context)
        ids: tuple[Any, ...] = tuple(START if token == "<start>" else token for token in context)
        shorter = longest(follows, ids[1:], order) if ids else None
        seen_enough = len(ids) < 2 or table.counts[context].total() >= least
        if seen_enough and (shorter is None or follows[shorter] != guess):
            follows[ids] = guess
    return follows


@dataclass(frozen=True, slots=True)
class NGram:
    """Continues an answer as its last tokens were continued most often in the answers that it has read."""

    follows: Follows
    order: int
    ends: tuple[int, ...]  # ids after which nothing is guessed
    guesses: int = 4  # at most, a round

    level: ClassVar[int] = 0
    trained: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs()

    def __post_init__(self) -> None:
        if self.guesses < 1 or self.order < 1 or () not in self.follows:
            raise ValueError(
                f"ngram needs guesses >= 1, order >= 1 and a guess for the empty context, got {self!s:.80}"
            )

    @classmethod
    def tiny(cls, model: Target) -> NGram:
        """An instance for the law tests, which has read four answers of small ids."""
        v = model.vocab_size
        return cls(learn([[i % v, (i * i) % v, 1, (3 * i) % v, 0, 2] for i in range(4)]), ORDER, (2,), guesses=3)

    @classmethod
    def load(cls, path: Path, target: Any, open_model: Callable[[Path], Any], **options: Any) -> NGram:
        """Read a directory that `save` wrote. Raises UsageError for one that is not whole or was made for others."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            config, record = (
                json.loads((path / f"{n}.json").read_text(encoding="utf-8")) for n in ("config", "paceline")
            )
            stored = load_file(path / WEIGHTS)
            order, ends, contract = int(config["order"]), tuple(config["ends"]), record["contract"]
            parts = [(stored[f"context.{k}"], stored[f"next.{k}"]) for k in range(order)]
        except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
            raise UsageError(f"{path} holds no n-gram table: {' '.join(str(error).split()):.200}") from error
        check(contract, {"target": target.fingerprint()}, path)
        follows = {
            tuple(context): token
            for contexts, tokens in parts
            for context, token in zip(contexts.tolist(), tokens.tolist(), strict=True)
        }
        return cls(follows, order, ends, **options)

    def save(self, path: Path, target: Any, provenance: Mapping[str, Any]) -> None:
        """Write config.json, model.safetensors and paceline.json into this directory, made if it is not there."""
        from safetensors.torch import save_file

        tensors = dict[str, Tensor]()
        for k in range(self.order):
            some = sorted((context, token) for context, token in self.follows.items() if len(context) == k)
            tensors[f"context.{k}"] = torch.tensor([c for c, _ in some], dtype=torch.int32).view(len(some), k)
            tensors[f"next.{k}"] = torch.tensor([t for _, t in some], dtype=torch.int32)
        path.mkdir(parents=True, exist_ok=True)
        save_file(tensors, path / WEIGHTS)
        config = {"order": self.order, "ends": list(self.ends), "contexts": len(self.follows)}
        contract = {"target": dict(target.fingerprint())}
        record = {"license": LICENSE, "method": "ngram", "contract": contract, "provenance": dict(provenance)}
        for name, told in ((CONFIG, config), (RECORD, record)):
            (path / name).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")

    def open(self, session: TargetSession, context: Context, rule: Rule, *, clock: Clock = silent) -> NGramSession:
        return NGramSession(self, [[START] for _ in context.prompts])

    def continued(self, said: Sequence[int]) -> list[int]:
        """Up to `guesses` tokens behind an answer that begins with START; none behind its end."""
        tokens = list(said[1 - self.order :]) if self.order > 1 else []
        found = list[int]()
        while len(found) < self.guesses and (found or said)[-1] not in self.ends:
            known = longest(self.follows, tuple(tokens), self.order)
            assert known is not None  # the empty context is
            found.append(self.follows[known])
            tokens.append(found[-1])
        return found


class NGramSession:
    """The last tokens of each row's answer."""

    def __init__(self, how: NGram, said: list[list[int]]) -> None:
        self.how, self.said = how, said

    def propose(self, verdict: Verdict) -> Draft:
        """A chain of up to `guesses` tokens a row, chosen, not drawn."""
        found: list[list[int]] = []
        for said, tokens, n in zip(self.said, verdict.tokens.tolist(), verdict.length.tolist(), strict=True):
            said.extend(tokens[:n])
            del said[: -max(self.how.order, 1)]
            found.append(self.how.continued(said))
        width = max(map(len, found))
        rows = [[*guess, *[-1] * (width - len(guess))] for guess in found]
        return Draft.chain(torch.tensor(rows, dtype=torch.long, device=verdict.root.device).view(len(rows), width))

    def keep(self, rows: Tensor) -> None:
        self.said = [list(self.said[row]) for row in rows.tolist()]

    def join(self, other: NGramSession) -> None:
        self.said += other.said
