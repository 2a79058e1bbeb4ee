"""Whether an answer is right, by rules that need no judge: the benchmark's own where it has one, else a near one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from paceline.tasks.scoring import words

Right = Callable[[str], float]
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?%?")


def letter(right: str, choices: Sequence[str]) -> Right:
    """Right if the answer names this letter, or says the choice behind it and none of the others.

    The letter counts after "answer is", else after "option", else at the start ("B", "B. a cat", "(B)"); of several
    mentions the last.
    """
    letters = letters_of(choices)
    one = f"([{''.join(letters)}])"
    opening = re.compile(rf"\W*{one}(?:[.):,]|\s*$|\s+(?![a-z]))")
    answers = re.compile(rf"(?i:answer|correct)\b\W*(?i:choice|option)?\W*(?i:is)?\W*{one}\b")
    named = re.compile(rf"(?i:option|choice)\W*{one}\b")

    def rule(text: str) -> float:
        start = opening.match(text)
        said = answers.findall(text) or named.findall(text) or ([start[1]] if start else [])
        if said:
            return float(said[-1] == right)
        told = [mark for mark, choice in zip(letters, choices, strict=True) if contains(text, choice)]
        return float(told == [right])

    return rule


def letters_of(choices: Sequence[str]) -> list[str]:
    """A, B, C … for these choices."""
    return [chr(ord("A") + i) for i in range(len(choices))]


def any_of(answers: Sequence[str], *, spaces: bool = True) -> Right:
    """Right if one of the answers occurs in the text, whatever the case (OCRBench). spaces: do they count?"""

    def plain(text: str) -> str:
        flat = text.lower().strip().replace("\n", " ")
        return flat if spaces else flat.replace(" ", "")

    wanted = [plain(answer) for answer in answers if answer.strip()]
    return lambda text: float(any(answer in plain(text) for answer in wanted))


def relaxed(answer: str, tolerance: float = 0.05) -> Right:
    """ChartQA's relaxed accuracy: a number within 5 %, else the same text.

    A longer text is right by its last number, or if it says the answer.
    """
    goal = as_number(answer)

    def rule(text: str) -> float:
        told = text.strip().rstrip(".")
        if told.lower() == answer.strip().lower():
            return 1.0
        if not goal:
            return float(contains(text, answer))
        numbers = NUMBER.findall(text)
        last = as_number(numbers[-1]) if numbers else None
        return float(last is not None and abs(last - goal) <= tolerance * abs(goal))

    return rule


def number(answer: str, digits: int | None) -> Right:
    """Right if the text's last number is this one after rounding to so many digits (None: whole numbers)."""
    goal = as_number(answer)

    def rule(text: str) -> float:
        numbers = NUMBER.findall(text)
        last = as_number(numbers[-1]) if numbers else None
        if last is None or goal is None:
            return 0.0
        return float(round(last, digits or 0) == round(goal, digits or 0))

    return rule


def contains(text: str, phrase: str) -> bool:
    """Whether the words of the phrase occur in the text, side by side."""
    stream, target = words(text), words(phrase)
    return bool(target) and any(stream[at : at + len(target)] == target for at in range(len(stream) - len(target) + 1))


def as_number(text: str) -> float | None:
    """The number that the text is; a percentage is taken by its hundredth. None: it is none."""
    bare = text.strip().replace(",", "")
    try:
        return float(bare.rstrip("%")) / 100 if bare.endswith("%") else float(bare)
    except ValueError:
        return None
