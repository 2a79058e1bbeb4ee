"""What a request asks for, out of the bodies of the two text endpoints."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paceline.sampling import Sampling
from paceline.serve.fields import Fields
from paceline.serve.refusal import Refusal, bad, nearest
from paceline.serve.settings import Settings

SILENT = (  # fields that ask for nothing that could be seen in the answer
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
)  # fmt: skip
LAW = "the law of a token may depend on nothing but the model's own logits at its place, or drafts would not be exact"
ROLES = ("system", "developer", "user", "assistant")
SEEDS = 2**62


@dataclass(frozen=True, slots=True)
class Asked:
    """A request whose fields are all honoured."""

    content: Sequence[Mapping[str, Any]] | str | tuple[int, ...]  # messages, or the text or ids of a completion
    sampling: Sampling
    choices: int
    plain: bool  # decode without the drafter
    stream: bool
    usage: bool  # in the stream
    rounds: bool  # in the stream: what each round did
    longest_edge: int | None

    def seeded(self, choice: int) -> int:
        """The seed of one of the answers: row i of several is drawn with seed + i, as `generate` does."""
        return self.sampling.seed + choice


Picture = Callable[[str, str], object]  # (URL, the field's name) -> a PIL picture


def chat(document: Mapping[str, Any], settings: Settings, defaults: Mapping[str, Any], budget: int) -> Asked:
    """The request of /v1/chat/completions; pictures are still URLs. Raises Refusal, which names the field."""
    fields = Fields(document)
    _model(fields, settings)
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad("messages", "messages must be a list of at least one message")
    fields.refuse("logprobs", (False,), "greedy rounds compute no probabilities")
    fields.refuse("top_logprobs", (0,), "greedy rounds compute no probabilities")
    for name in ("tools", "functions"):
        fields.refuse(name, ([],), "this server calls no tools")
    for name in ("tool_choice", "function_call"):
        fields.refuse(name, ("none", "auto"), "this server calls no tools")
    fields.refuse("parallel_tool_calls", (True, False), "this server calls no tools")
    fields.refuse("modalities", (["text"],), "answers are text")
    for name in ("audio", "prediction", "web_search_options", "reasoning_effort", "verbosity"):
        fields.refuse(name, (), "this server answers with the model's plain text")
    tokens = _budget(fields, ("max_completion_tokens", "max_tokens"), budget)
    asked = _asked(fields, settings, defaults, tokens, _messages(messages, settings))
    fields.finish()
    return asked


def completion(document: Mapping[str, Any], settings: Settings, defaults: Mapping[str, Any], budget: int) -> Asked:
    """The request of /v1/completions. Raises Refusal, which names the field."""
    fields = Fields(document)
    _model(fields, settings)
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        prompt = tuple(prompt)
    elif not isinstance(prompt, str) or not prompt:
        raise bad("prompt", "prompt must be one string, or one list of token ids, and not empty")
    fields.refuse("logprobs", (), "greedy rounds compute no probabilities")
    fields.refuse("echo", (False,), "the answer holds no prompt")
    fields.refuse("suffix", ("",), "text is only continued")
    fields.refuse("best_of", (1,), "ask for n answers instead")
    asked = _asked(fields, settings, defaults, _budget(fields, ("max_tokens",), min(16, budget)), prompt)
    fields.finish()
    return asked


def _asked(fields: Fields, settings: Settings, defaults: Mapping[str, Any], tokens: int, content: Any) -> Asked:
    for name in ("presence_penalty", "frequency_penalty"):
        fields.refuse(name, (0, 0.0), LAW)
    fields.refuse("repetition_penalty", (1, 1.0), LAW)
    fields.refuse("logit_bias", ({},), LAW)
    fields.refuse("response_format", ({"type": "text"},), "grammars depend on the text so far; only text is offered")
    for name in SILENT:
        fields.get(name)
    stream = fields.flag("stream")
    options = fields.get("stream_options")
    if options is not None and (not stream or not isinstance(options, dict)):
        raise bad("stream_options", "stream_options is an object, and goes with stream: true")
    more = Fields(options or {}, "stream_options")
    usage, rounds = more.flag("include_usage"), more.flag("include_rounds")
    more.flag("include_obfuscation")
    more.finish()
    drafter = fields.choice("drafter", "default", ("default", "none"))
    edge = fields.integer("longest_edge", settings.longest_edge, 1, 8192)
    choices = fields.integer("n", 1, 1, settings.choices) or 1
    return Asked(content, _sampling(fields, defaults, tokens), choices, drafter == "none", stream, usage, rounds, edge)


def _sampling(fields: Fields, defaults: Mapping[str, Any], tokens: int) -> Sampling:
    top_k = fields.get("top_k")
    if top_k == -1:  # as vLLM says "all"
        top_k = 0
    elif top_k is not None:
        top_k = fields.integer("top_k", 0, 0, 2**31)
    seed = fields.integer("seed", None, -SEEDS, SEEDS)
    return Sampling(
        temperature=fields.number("temperature", defaults.get("temperature", 1.0), 0, 100),
        top_k=defaults.get("top_k", 0) if top_k is None else top_k,
        top_p=fields.number("top_p", defaults.get("top_p", 1.0), 0, 1, above=True),
        min_p=fields.number("min_p", defaults.get("min_p", 0.0), 0, 1),
        seed=secrets.randbits(31) if seed is None else seed,
        max_new_tokens=tokens,
        stop_strings=_stops(fields),
    )


def _stops(fields: Fields) -> tuple[str, ...]:
    stop = fields.get("stop")
    stops = [stop] if isinstance(stop, str) else stop or []
    fine = isinstance(stops, list) and len(stops) <= 16
    if not fine or not all(isinstance(text, str) and 0 < len(text) <= 256 for text in stops):
        raise bad("stop", "stop must be a string or a list of at most 16, each of 1 to 256 characters")
    return tuple(stops)


def _budget(fields: Fields, names: Sequence[str], budget: int) -> int:
    found = [value for name in names if (value := fields.integer(name, None, 1, 2**31)) is not None]
    return found[0] if found else budget


def _model(fields: Fields, settings: Settings) -> None:
    name = fields.text("model")
    if name != settings.name:
        hint = nearest(name, [settings.name])
        told = f"there is no model {name[:80]!r}{hint}; this server has {settings.name!r}"
        raise Refusal(404, told, "model", "model_not_found")


def _messages(messages: list[Any], settings: Settings) -> list[dict[str, Any]]:
    shaped = [_message(message, f"messages[{i}]") for i, message in enumerate(messages)]
    pictures = sum(part["type"] == "image" for message in shaped for part in message["content"])
    if pictures > settings.pictures:
        raise bad("messages", f"messages hold {pictures} pictures; the limit is {settings.pictures}")
    return shaped


def _message(message: Any, where: str) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise bad(where, f"{where} must be an object with role and content")
    fields = Fields(message, where)
    role = fields.choice("role", "", ROLES)
    for name in ("tool_calls", "function_call", "tool_call_id", "audio", "refusal", "annotations"):
        fields.refuse(name, ([], ""), "this server calls no tools and speaks text")
    fields.get("name")
    content = fields.get("content")
    fields.finish()
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(parts, list) or not parts:
        raise bad(f"{where}.content", f"{where}.content must be a string or a list of parts")
    shaped = [_part(part, f"{where}.content[{i}]") for i, part in enumerate(parts)]
    return {"role": "system" if role == "developer" else role, "content": shaped}


def _part(part: Any, where: str) -> dict[str, Any]:
    if not isinstance(part, dict):
        raise bad(where, f"{where} must be an object with a type")
    fields = Fields(part, where)
    kind = fields.choice("type", "", ("text", "image_url"))
    if kind == "text":
        text = fields.text("text")
        fields.finish()
        return {"type": "text", "text": text}
    inner = fields.get("image_url")
    fields.finish()
    if not isinstance(inner, dict):
        raise bad(f"{where}.image_url", f"{where}.image_url must be an object with a url")
    image = Fields(inner, f"{where}.image_url")
    url = image.text("url")
    image.choice("detail", "auto", ("auto", "low", "high"))
    image.finish()
    return {"type": "image", "image": url, "param": f"{where}.image_url.url"}


def with_pictures(messages: Sequence[Mapping[str, Any]], picture: Picture) -> list[dict[str, Any]]:
    """The messages with each URL replaced by what it points to."""

    def part(given: Mapping[str, Any]) -> dict[str, Any]:
        if given["type"] == "text":
            return dict(given)
        return {"type": "image", "image": picture(given["image"], given["param"])}

    return [{**message, "content": [part(each) for each in message["content"]]} for message in messages]
