"""How predictable the answers are without a picture: hit rate of a back-off n-gram table, family by family.

python -m paceline.tasks.ngram [--tasks a,b] [--scenes N] [--limit M] [--tokenizer DIR] [--answers FILE.jsonl] [--json]
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from paceline.tasks import FAMILIES, scene
from paceline.tasks.listing import Listing
from paceline.tasks.wording import Wording

ORDER = 4
GOAL = 0.40  # hit rate above which a family is called predictable
_TOKEN = re.compile(r"[a-z]+|[0-9]|[^\sa-z0-9]")
Encode = Callable[[str], Sequence[Hashable]]


def plain_tokens(text: str) -> list[str]:
    """Lower-case words, single digits and punctuation marks: a stand-in until a tokenizer is given."""
    return _TOKEN.findall(text.lower())


@dataclass(slots=True)
class Table:
    """Counts of what follows each context of up to order - 1 tokens."""

    order: int = ORDER
    counts: dict[tuple[Hashable, ...], Counter[Hashable]] = field(default_factory=dict)

    def learn(self, answers: Iterable[Sequence[Hashable]], *, ended: bool = True) -> None:
        """Adds the answers to the counts, each with an end mark unless `ended` is False."""
        for answer in answers:
            stream = framed(answer) if ended else framed(answer)[:-1]
            for i in range(1, len(stream)):
                for k in range(min(self.order, i + 1)):
                    self.counts.setdefault(stream[i - k : i], Counter())[stream[i]] += 1

    def guess(self, context: tuple[Hashable, ...]) -> Hashable:
        """The most frequent token after the longest known end of the context; an empty table raises ValueError."""
        known = longest(self.counts, context, self.order)
        if known is None:
            raise ValueError("the table is empty: let it learn at least one answer")
        return self.counts[known].most_common(1)[0][0]


def longest(known: Container[tuple[Hashable, ...]], context: tuple[Any, ...], order: int) -> tuple[Any, ...] | None:
    """The longest end of the context, of up to order - 1 tokens, that is known; None if not even the empty one is."""
    ends = (context[len(context) - k :] for k in range(min(order - 1, len(context)), -1, -1))
    return next((end for end in ends if end in known), None)


def framed(answer: Sequence[Hashable]) -> tuple[Hashable, ...]:
    """The answer between its start and end marks."""
    return ("<start>", *answer, "<end>")


@dataclass(frozen=True, slots=True)
class HitRate:
    """How often the table's first guess is right, over answer tokens and ends."""

    task: str
    hit_rate: float  # share of tokens
    mean_run: float  # mean number of right guesses in a row: what a drafter of this kind gains
    tokens: float  # mean length of an answer with its end
    answers: int
    ceiling: float  # share of question templates that fix their answer's wording


def measure(task: str, table: Table, answers: Sequence[Sequence[Hashable]]) -> HitRate:
    """The hit rate on these answers; no answer raises ValueError."""
    if not answers:
        raise ValueError(f"no answers of task {task!r} to measure")
    hits = total = runs = 0
    for answer in answers:
        stream = framed(answer)
        right = [table.guess(stream[max(0, i - table.order + 1) : i]) == stream[i] for i in range(1, len(stream))]
        hits, total, runs = hits + sum(right), total + len(right), runs + right.count(False) + right[-1]
    return HitRate(task, hits / total, hits / runs, total / len(answers), len(answers), ceiling(task))


def ceiling(task: str) -> float:
    """Share of the family's question templates with one answer template; 1.0: no wording is left to chance."""
    module = importlib.import_module(FAMILIES[task].split(":")[0])
    rows = [row for value in vars(module).values() if isinstance(value, tuple) for row in value]
    questions = Counter(row.question for row in rows if isinstance(row, Wording | Listing))
    return sum(n == 1 for n in questions.values()) / len(questions) if questions else 1.0


def suite_answers(task: str, split: str, scenes: int, encode: Encode) -> list[Sequence[Hashable]]:
    """All answers of the first scenes of a split."""
    return [encode(e.answer) for i in range(scenes) for e in scene(task, split, i).exchanges]  # type: ignore[arg-type]


def read_answers(path: Path, encode: Encode) -> dict[str, list[Sequence[Hashable]]]:
    """Answers by task from JSON lines with the keys task and answer."""
    found: dict[str, list[Sequence[Hashable]]] = {}
    for line in path.read_text(encoding="utf8").splitlines():
        record = json.loads(line)
        found.setdefault(record["task"], []).append(encode(record["answer"]))
    return found


def load_encode(folder: str | None) -> Encode:
    """The encoder of a Hugging Face tokenizer directory, or plain tokens."""
    if folder is None:
        return plain_tokens
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)

    def encode(text: str) -> Sequence[Hashable]:
        return tokenizer(text, add_special_tokens=False).input_ids

    return encode


def run(
    tasks: Sequence[str], scenes: int, limit: int, tokenizer: str | None = None, answers: Path | None = None
) -> list[HitRate]:
    """Hit rates of tables learned on `scenes` training scenes, on `limit` test scenes or on the answers of a file."""
    encode = load_encode(tokenizer)
    given = read_answers(answers, encode) if answers else None
    rates: list[HitRate] = []
    for task in tasks if given is None else [t for t in tasks if t in given]:
        table = Table()
        table.learn(suite_answers(task, "train", scenes, encode))
        rates.append(measure(task, table, given[task] if given else suite_answers(task, "test", limit, encode)))
    return rates


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the hit rates as a table or as JSON."""
    parser = argparse.ArgumentParser(
        prog="python -m paceline.tasks.ngram", description="Predictability of the answers."
    )
    parser.add_argument("--tasks", default=",".join(FAMILIES), help="families, comma-separated")
    parser.add_argument("--scenes", type=int, default=1000, help="training scenes that a table learns from")
    parser.add_argument("--limit", type=int, default=150, help="test scenes measured")
    parser.add_argument("--tokenizer", help="directory of a Hugging Face tokenizer; without it words, digits and marks")
    parser.add_argument(
        "--answers", type=Path, help="JSON lines with task and answer, e.g. a model's own, instead of test"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    given = parser.parse_args(arguments)
    rates = run(given.tasks.split(","), given.scenes, given.limit, given.tokenizer, given.answers)
    if given.json:
        json.dump([asdict(rate) for rate in rates], sys.stdout)
        return
    print(f"{'task':8} {'4-gram hit':>10} {'mean run':>8} {'tokens':>7} {'answers':>7} {'ceiling':>7}")
    for r in rates:
        mark = "  above the goal" if r.hit_rate > GOAL else ""
        print(f"{r.task:8} {r.hit_rate:10.3f} {r.mean_run:8.2f} {r.tokens:7.1f} {r.answers:7d} {r.ceiling:7.3f}{mark}")


if __name__ == "__main__":
    main()
