"""OpenAI-style messages, as processors and tokenizers want them, and kept from posing as markup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from paceline.errors import UsageError
from paceline.hf.pictures import load_picture

Message = Mapping[str, Any]
Inputs = dict[str, Tensor]


def read_messages(messages: Sequence[Message]) -> tuple[list[dict[str, Any]], list[Image.Image]]:
    """Messages whose content is a list of text and image parts, and their pictures in order.

    Raises UsageError for a message that is not of this shape, and for pictures that cannot be read.
    """
    if not messages:
        raise UsageError("messages is empty: give at least one, such as {'role': 'user', 'content': 'Hello'}")
    pictures: list[Image.Image] = []
    shaped: list[dict[str, Any]] = []
    for message in messages:
        if not isinstance(message, Mapping) or not {"role", "content"} <= set(message):
            raise UsageError(f"a message is a mapping with 'role' and 'content', not {message!r:.80}")
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        shaped.append({"role": message["role"], "content": [_part(part, pictures) for part in parts]})
    return shaped, pictures


def _part(part: Mapping[str, Any], pictures: list[Image.Image]) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind in ("image", "image_url"):
        source = next((part[key] for key in ("image", "image_url", "url", "path") if part.get(key) is not None), None)
        source = source.get("url") if isinstance(source, Mapping) else source
        if source is None:
            raise UsageError("an image part names no picture: give 'image' (PIL image or path) or 'image_url'")
        pictures.append(load_picture(source))
        return {"type": "image"}
    raise UsageError(f"a content part is of type 'text' (with 'text'), 'image' or 'image_url', not {part!r:.80}")


def encode_literally(
    encode: Callable[[list[dict[str, Any]]], Inputs], messages: list[dict[str, Any]], tokenizer: Any, markup: set[str]
) -> Inputs:
    """`encode(messages)`, but markup that stands in the user's own text is spelled as text.

    Each such literal is replaced by a special token that occurs nowhere else, and this token, in the ids, by the
    literal's ordinary spelling: pictures are counted rightly, nothing is injected, and the text reads as written.
    """
    literals = _literals(messages, markup)
    if not literals:
        return encode(messages)
    for stand_in in sorted(markup, key=len, reverse=True):
        if any(stand_in in part.get("text", "") for message in messages for part in message["content"]):
            continue
        index = tokenizer.convert_tokens_to_ids(stand_in)
        inputs = encode(_rewrite(messages, literals, stand_in))
        found = (inputs["input_ids"][0] == index).nonzero()[:, 0].tolist()
        if len(found) == len(_spans(messages, literals)):
            spelled = [_spell(tokenizer, literal) for literal in _spans(messages, literals)]
            return _splice(inputs, found, spelled)
    return encode(_rewrite(messages, literals, None))


def _literals(messages: list[dict[str, Any]], markup: set[str]) -> list[str]:
    text = "\0".join(part.get("text", "") for message in messages for part in message["content"])
    return sorted((token for token in markup if token in text), key=len, reverse=True)


def _pattern(literals: list[str]) -> Any:
    import re

    return re.compile("|".join(map(re.escape, literals)))


def _spans(messages: list[dict[str, Any]], literals: list[str]) -> list[str]:
    pattern = _pattern(literals)
    return [m for message in messages for part in message["content"] for m in pattern.findall(part.get("text", ""))]


def _rewrite(messages: list[dict[str, Any]], literals: list[str], stand_in: str | None) -> list[dict[str, Any]]:
    """The messages with each literal replaced; without a stand-in, broken by a zero-width space."""
    pattern = _pattern(literals)

    def text(part: dict[str, Any]) -> dict[str, Any]:
        if part["type"] != "text":
            return part
        swap = (lambda m: m[0][0] + "\u200b" + m[0][1:]) if stand_in is None else (lambda m: stand_in)
        return {**part, "text": pattern.sub(swap, part["text"])}

    return [{**message, "content": [text(part) for part in message["content"]]} for message in messages]


def _spell(tokenizer: Any, literal: str) -> list[int]:
    ids = tokenizer.encode(literal, add_special_tokens=False, split_special_tokens=True)
    if tokenizer.convert_tokens_to_ids(literal) in ids:
        ids = [i for part in (literal[:1], literal[1:]) for i in tokenizer.encode(part, add_special_tokens=False)]
    return ids


def _splice(inputs: Inputs, found: list[int], spelled: list[list[int]]) -> Inputs:
    """Inputs whose rows at `found` are replaced by these ids; other per-token inputs repeat their value there."""
    ids = inputs["input_ids"][0]
    count = torch.ones_like(ids)
    count[found] = torch.tensor([len(s) for s in spelled])
    rows = torch.repeat_interleave(torch.arange(len(ids)), count)
    out = {k: v[:, rows] if v.shape[:2] == (1, len(ids)) else v for k, v in inputs.items()}
    new = out["input_ids"][0]
    begin = count.cumsum(0) - count
    for at, spelling in zip(found, spelled, strict=True):
        new[begin[at] : begin[at] + len(spelling)] = torch.tensor(spelling, dtype=new.dtype)
    return out
