"""Foreign engines by what they wrote down: every token of a line judged behind the line's own text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from paceline.audit.check import Check, Divergence
from paceline.audit.identity import CONTEXT
from paceline.audit.laws import ALPHA, laws_along
from paceline.audit.statistics import Ranks, pooled, ranks_of
from paceline.core import Draft, Prompt
from paceline.errors import UsageError
from paceline.identity import TIE
from paceline.sampling import Sampling

FEW = 200  # tokens drawn at T > 0 below which nothing is told
SETTINGS = ("temperature", "top_k", "top_p", "min_p", "seed")


@dataclass(frozen=True, slots=True)
class Line:
    """One answer of an engine."""

    messages: Sequence[dict[str, Any]]
    token_ids: tuple[int, ...]
    sampling: Sampling


def read_log(path: Path, images: Path | None = None) -> list[Line]:
    """The answers in a JSONL file: prompt (text or messages), images, token_ids, and the settings of sampling.

    images: directory of the pictures' names; default: that of the file. Raises UsageError, which names the line.
    """
    if not path.is_file():
        raise UsageError(f"--log {path}: no such file")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise UsageError(f"--log {path} is not a text file in UTF-8") from None
    found = [_line(line, f"--log line {i}", images or path.parent) for i, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UsageError(f"--log {path} is empty")
    return found


def _line(text: str, where: str, images: Path) -> Line:
    try:
        record = json.loads(text)
    except ValueError:
        raise UsageError(f"{where} is not JSON") from None
    if not isinstance(record, dict) or not isinstance(record.get("prompt"), str | list):
        raise UsageError(f'{where} has no "prompt" (a text, or OpenAI-style messages)')
    ids = record.get("token_ids")
    if not isinstance(ids, list) or not ids or not all(type(token) is int and token >= 0 for token in ids):
        raise UsageError(f'{where}: "token_ids" must be a list of ids, and not empty')
    try:
        sampling = Sampling(**{name: record[name] for name in SETTINGS if record.get(name) is not None})
    except (TypeError, ValueError) as error:
        raise UsageError(f"{where}: {error}") from None
    names = record.get("images") or []
    names = [names] if isinstance(names, str) else names
    paths = [images / str(name) for name in names]
    if missing := [str(path) for path in paths if not path.is_file()]:
        raise UsageError(f"{where}: no picture {missing[0]}")
    prompt = record["prompt"]
    if isinstance(prompt, list):
        return Line(prompt, tuple(ids), sampling)
    parts = [{"type": "image", "image": str(path)} for path in paths]
    return Line([{"role": "user", "content": [*parts, {"type": "text", "text": prompt}]}], tuple(ids), sampling)


def audit_log(target: Any, lines: Sequence[Line], *, longest_edge: int | None = None, seed: int = 0) -> list[Check]:
    """Greedy lines: each token must be the best one, or within the noise of floats. Others: ranks under their laws.

    A wrong token does not hide what follows it: every place is judged behind the text as it was said.
    """
    generator = torch.Generator().manual_seed(seed)
    exact = target.astype(torch.float64)
    wrong, parts = list[Divergence](), list[Ranks]()
    greedy = drawn = 0
    for number, line in enumerate(lines):
        prompt = target.encode(line.messages, longest_edge=longest_edge)
        _known(target, prompt, line, number)
        if line.sampling.temperature == 0:
            greedy += len(line.token_ids)
            wrong += _greedy(target, exact, prompt, line, number)
        else:
            drawn += len(line.token_ids)
            parts.append(ranks_of(laws_along(exact, prompt, line.token_ids, line.sampling), line.token_ids, generator))
    checks = [_greedy_check(wrong, greedy)] if greedy else []
    return [*checks, _drawn_check(pooled(parts), drawn)] if drawn else checks


def _known(target: Any, prompt: Prompt, line: Line, number: int) -> None:
    if max(line.token_ids) >= target.vocab_size:
        raise UsageError(f"--log answer {number}: id {max(line.token_ids)} is not below {target.vocab_size}")
    if len(prompt.ids) + len(line.token_ids) > target.max_length:
        raise UsageError(f"--log answer {number}: prompt and answer are longer than {target.max_length} tokens")


def _logits(target: Any, prompt: Prompt, said: Sequence[int]) -> torch.Tensor:
    """[n, V] float64; what follows the prompt and each token but the last."""
    with torch.inference_mode():
        session, context, seen = target.open([prompt])
        logits = seen.logits[0]
        if len(said) > 1:
            root = context.ids[:, len(prompt.ids) - 1]
            behind = session.forward(root, Draft.chain(torch.tensor([list(said[:-1])], device=root.device)))
            logits = torch.cat([logits, behind.logits[0, 1:]])
        return logits.double()


def _greedy(target: Any, exact: Any, prompt: Prompt, line: Line, number: int) -> list[Divergence]:
    said = torch.tensor(line.token_ids)
    here, truth = (_logits(each, prompt, line.token_ids).cpu() for each in (target, exact))
    found: list[Divergence] = []
    for at in (truth.argmax(1) != said).nonzero()[:, 0].tolist():
        best, token = int(truth[at].argmax()), int(said[at])
        pair = [best, token]
        noise = float((here[at, pair] - truth[at, pair]).abs().max())
        margin = float(truth[at, best] - truth[at, token])
        top = here[at].topk(2).values
        found.append(Divergence(
            number, at, target.decode(line.token_ids[max(0, at - CONTEXT) : at]), f"{target.decode([token])} [{token}]",
            f"{target.decode([best])} [{best}]", "tie" if margin <= TIE * noise else "fault", margin, noise,
            float(top[0] - top[1]),
        ))  # fmt: skip
    return found


def _greedy_check(wrong: Sequence[Divergence], tokens: int) -> Check:
    faults = sum(each.kind == "fault" for each in wrong)
    figures = {"tokens": tokens, "faults": faults, "ties": len(wrong) - faults, "margins": [d.margin for d in wrong]}
    if faults:
        return Check("log, greedy", "fail", f"{faults} of {tokens} tokens are not the best ones", figures, wrong)
    told = f"all {tokens} tokens are the best ones" + (f", {len(wrong)} of them by a tie" if wrong else "")
    return Check("log, greedy", "pass", told, figures, wrong)


def _drawn_check(ranks: Ranks, tokens: int) -> Check:
    figures = {
        "tokens": tokens, "judged": len(ranks.ranks), "impossible": ranks.impossible, "z": ranks.z, "alpha": ALPHA,
        "pvalue": ranks.pvalue,
    }  # fmt: skip
    if ranks.impossible:
        told = f"{ranks.impossible} tokens have no probability under the line's own settings"
        return Check("log, T > 0", "fail", told, figures)
    if ranks.pvalue < ALPHA:
        told = f"the tokens are not drawn from the target's laws (p = {ranks.pvalue:.1e}, z = {ranks.z:+.1f})"
        return Check("log, T > 0", "fail", told, figures)
    if len(ranks.ranks) < FEW:
        told = f"{len(ranks.ranks)} tokens with a choice are too few to tell; {FEW} are needed"
        return Check("log, T > 0", "undecided", told, figures)
    return Check("log, T > 0", "pass", f"the tokens follow the target's laws (p = {ranks.pvalue:.2f})", figures)
