"""Sound samplers as others write them, and the faults that the audit is for. Each is one round of two guesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

GUESSES = 2
Logits = Callable[[Sequence[int]], Tensor]


def law(logits: Tensor, temperature: float) -> Tensor:
    return (logits / temperature).softmax(-1)


def draw(p: Tensor, generator: torch.Generator) -> int:
    return int(torch.multinomial(p, 1, generator=generator))


def residual(p: Tensor, q: Tensor) -> Tensor:
    rest = (p - q).clamp(min=0)
    return rest / rest.sum()


def one_round(
    target: Logits, draft: Logits, text: Sequence[int], temperature: float, generator: torch.Generator,
    *, told: Callable[..., Tensor] | None = None, recover: Callable[[Tensor, Tensor], Tensor] = residual,
) -> list[int]:  # fmt: skip
    """Draft, then accept with min(1, p/q), else draw from what q left of p. told: the q that the verifier is given."""
    said = list(text)
    guesses, given = list[int](), list[Tensor]()
    for _ in range(GUESSES):
        q = law(draft([*said, *guesses]), temperature)
        before = [*said, *guesses]
        guesses.append(draw(q, generator))
        given.append(q if told is None else told(draft, before, temperature))
    out = list[int]()
    for x, q in zip(guesses, given, strict=True):
        p = law(target([*said, *out]), temperature)
        if float(torch.rand((), generator=generator)) < float(p[x] / q[x]):
            out.append(x)
            continue
        return [*out, draw(recover(p, q), generator)]
    return [*out, draw(law(target([*said, *out]), temperature), generator)]


def sound(*given: Any) -> list[int]:
    return one_round(*given)


def residual_free(*given: Any) -> list[int]:
    """A refused guess is replaced by a draw from p itself."""
    return one_round(*given, recover=lambda p, q: p)


def unprocessed_q(*given: Any) -> list[int]:
    """Guesses are drawn at the temperature; the verifier is told the raw law."""
    return one_round(*given, told=lambda draft, text, temperature: law(draft(text), 1.0))


def stale_q(*given: Any) -> list[int]:
    """The verifier is told the law of a round ago: that of a text one token shorter."""
    return one_round(*given, told=lambda draft, text, temperature: law(draft([0, *text[:-1]]), temperature))


def one_gumbel_vector(
    target: Logits, draft: Logits, text: Sequence[int], temperature: float, generator: torch.Generator
) -> list[int]:
    """The noise that drew the guess draws what replaces it, too: merged and mended in a large engine."""
    said = list(text)
    q, p = law(draft(said), temperature), law(target(said), temperature)
    noise = -(-torch.rand(len(q), generator=generator, dtype=torch.float64).log()).log()
    x = int((q.log() + noise).argmax())
    if float(torch.rand((), generator=generator)) < float(p[x] / q[x]):
        return [x, draw(law(target([*said, x]), temperature), generator)]
    return [int((residual(p, q).log() + noise).argmax())]


def shared_race(
    target: Logits, draft: Logits, text: Sequence[int], temperature: float, generator: torch.Generator
) -> list[int]:
    """Sound all the same: one race whose winner under p is the outcome, whatever was guessed."""
    noise = -(-torch.rand(len(target(text)), generator=generator, dtype=torch.float64).log()).log()
    return [int((law(target(text), temperature).log() + noise).argmax())]


def endless(*_: Any) -> list[int]:
    return []
