"""Makes the `ngram` drafter of a target: the table of its own answers, the same that other drafters learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from paceline.drafters.free.ngram import START, NGram, learn
from paceline.drafters.free.none import NoDraft
from paceline.tasks.ngram import ORDER
from paceline.train import recipe
from paceline.train.answers import AnswerConfig, Answers
from paceline.train.drafters import progress, provenance_of, writable
from paceline.train.loop import Result
from paceline.train.questions import QuestionConfig, Questions


@dataclass(frozen=True, slots=True)
class NGramRecipe:
    """Everything that makes an `ngram` drafter. Questions and answers are those of a recipe of drafters."""

    kind: Literal["ngram"]
    target: str
    questions: QuestionConfig
    answers: AnswerConfig = field(default_factory=AnswerConfig)
    order: int = ORDER  # tokens, the guess among them
    least: int = 2  # times that a context of two tokens or more was seen

    def __post_init__(self) -> None:
        if self.order < 1 or self.least < 1:
            raise ValueError("order and least must be 1 or more")


def run(path: Path, output: Path, data: Path | None = None, render: bool = True, changes: Sequence[str] = ()) -> Result:
    """Let the target answer what has no answer yet, and write the table to `output`/drafters/ngram.

    The loss of the result is the share of its own answers' tokens, ends included, that the table gets wrong; its steps
    are the answers read. Raises UsageError for a recipe or a place that cannot be used.
    """
    from paceline.targets import load_target

    config = recipe.load(path, NGramRecipe, changes)
    writable(output)
    target = load_target(config.target)
    questions = Questions(config.questions, target, "train")
    answers = Answers((data or output) / "answers" / "answers.jsonl", target, config.answers)
    answers.ensure(questions, NoDraft(), progress("answers"))
    texts = [ids.tolist() for group in questions.groups for ids in answers.ids(group)]
    drafter = NGram(learn(texts, config.order, config.least), config.order, target.end_ids)
    where = output / "drafters" / "ngram"
    drafter.save(where, target, {**provenance_of(path, answers), "answers": len(texts), "least": config.least})
    return Result(where, len(texts), missed(drafter, texts))


def missed(drafter: NGram, texts: Sequence[Sequence[int]]) -> float:
    """The share of the tokens of these answers that the table does not guess behind those before them."""
    first = replace(drafter, guesses=1)
    wrong = sum(first.continued([START, *text[:i]]) != [text[i]] for text in texts for i in range(len(text)))
    return wrong / sum(map(len, texts))
