"""`paceline audit`: is this drafter, sampler or engine lossless?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli import FAULT, options, output
from paceline.cli.opening import open_target, sampling_of
from paceline.errors import UsageError

TRAFFIC, FOREIGN = "Traffic", "Foreign"
Say = Callable[[str], None]


def audit(
    target: options.Target = "tiny-native",
    drafter: Annotated[
        str, typer.Option(help="lookup, a bundled name, a directory or a hub id.", rich_help_panel=options.MODEL)
    ] = "lookup",
    device: options.Device = "cpu",
    dtype: options.DType = None,
    threads: options.Threads = None,
    longest_edge: options.LongestEdge = None,
    bf16: Annotated[bool, typer.Option("--bf16/--no-bf16", help="Greedy identity in bfloat16 as well.")] = True,
    tasks: Annotated[str, typer.Option(help="a,b,… of M6, or all.", rich_help_panel=TRAFFIC)] = "all",
    limit: Annotated[int, typer.Option(min=1, help="Prompts a task, or of --prompts.", rich_help_panel=TRAFFIC)] = 2,
    prompts: Annotated[
        Path | None,
        typer.Option(help="Own traffic: a text file, one prompt a line, or .jsonl.", rich_help_panel=TRAFFIC),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Directory of the pictures of --prompts or --log.", rich_help_panel=TRAFFIC)
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            min=0, help="Of each prompt for the law of Maximal (default 96; 0: none), or of --sampler (6000)."
        ),
    ] = None,
    law_prompts: Annotated[int, typer.Option(min=1, help="Prompts whose law is sampled.")] = 4,
    temperature: Annotated[float, typer.Option(help="Of the checks above 0.", rich_help_panel=options.DRAW)] = 1.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    seed: options.Seed = 0,
    max_new_tokens: options.MaxNewTokens = 64,
    log: Annotated[
        Path | None,
        typer.Option(
            help="JSONL of a foreign engine: prompt, images, token_ids, temperature, seed a line.",
            rich_help_panel=FOREIGN,
        ),
    ] = None,
    sampler: Annotated[
        str | None, typer.Option(help="module:function or file.py:function, one round.", rich_help_panel=FOREIGN)
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--html", help="Also write a report.", rich_help_panel=options.OUT)
    ] = None,
    config: options.Config = None,
    out: options.Output = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Check that drafted decoding is plain decoding: in text, or in law. Exit code 1: it is not."""
    if temperature <= 0:
        raise UsageError(f"--temperature is {temperature}; it is that of the checks above 0, greedy is always checked")
    if log is not None and sampler is not None:
        raise UsageError("--log and --sampler are two audits: give one of them")
    sampling = sampling_of(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed, max_new_tokens=max_new_tokens
    )
    for path in (out, page):
        output.writable(path)

    def say(text: str) -> None:
        if not quiet:
            print(f"paceline: {text} …", file=sys.stderr, flush=True)

    def opened() -> Any:
        return open_target(target, device=device, dtype=dtype, threads=threads, quiet=quiet or json)

    meta: dict[str, Any] = {"seed": seed}
    if sampler is not None:
        meta |= {"sampler": sampler}
        checks = _sampler(sampler, samples or 6000, seed)
    elif log is not None:
        meta |= {"target": target, "log": log, "dtype": dtype or "float32"}
        checks = _log(opened, log, images, longest_edge, seed)
    else:
        meta |= {"target": target, "drafter": drafter, "dtype": dtype or "float32", "max_new_tokens": max_new_tokens}
        model = opened()
        encoded = _prompts(model, tasks, limit, prompts, images, longest_edge)
        meta |= {"prompts": len(encoded)}
        checks = _drafter(model, drafter, encoded, sampling, 96 if samples is None else samples, law_prompts, bf16, say)
    from paceline.audit.check import document
    from paceline.audit.report import html, lines

    record = document(checks, meta)
    if out is not None:
        output.write_whole(out, output.to_json(record))
    if page is not None:
        output.write_whole(page, html(record))
    if json:
        output.emit(record)
    elif not quiet:
        print("\n".join(lines(record)))
    if record["verdict"] == "not lossless":
        raise typer.Exit(FAULT)


def _sampler(reference: str, count: int, seed: int) -> list[Any]:
    from paceline.audit.samplers import load_sampler, sampler

    return [sampler(load_sampler(reference), count=count, seed=seed)]


def _log(opened: Callable[[], Any], log: Path, images: Path | None, longest_edge: int | None, seed: int) -> list[Any]:
    from paceline.audit.log import audit_log, read_log

    answers = read_log(log, images)
    return audit_log(opened(), answers, longest_edge=longest_edge, seed=seed)


def _prompts(
    model: Any, tasks: str, limit: int, prompts: Path | None, images: Path | None, longest_edge: int | None
) -> list[Any]:
    from paceline.bench.traffic import asks_of, own_asks, tasks_of

    if prompts is not None:
        asks = own_asks(prompts, images, limit, longest_edge)
    else:
        suite = "m6" if model.sees else "text"
        asks = [
            ask for task in tasks_of(suite, options.listed(tasks)) for ask in asks_of(suite, task, limit, longest_edge)
        ]
    return [model.encode(ask.messages, longest_edge=ask.longest_edge) for ask in asks]


def _drafter(
    model: Any, name: str, prompts: Sequence[Any], sampling: Any, samples: int, law_prompts: int, bf16: bool, say: Say
) -> list[Any]:
    from dataclasses import replace

    import torch

    from paceline.audit.identity import greedy, race
    from paceline.audit.laws import maximal
    from paceline.couplings import Maximal
    from paceline.loading import load_drafter

    guesser, budget = load_drafter(name, model), sampling.max_new_tokens
    short = str(model.dtype).removeprefix("torch.")
    say(f"greedy identity in {short} on {len(prompts)} prompts")
    checks = greedy(model, guesser, prompts, budget, short)
    if bf16 and model.dtype != torch.bfloat16:
        say("greedy identity in bfloat16")
        coarse = model.astype(torch.bfloat16)
        checks += greedy(coarse, load_drafter(name, coarse), prompts, budget, "bfloat16")
    say(f"Gumbel token equality at T = {sampling.temperature:g}")
    checks.append(race(model, guesser, prompts, sampling))
    if samples:
        say(f"the law of Maximal, {samples} samples of {min(law_prompts, len(prompts))} prompts")
        first = replace(sampling, max_new_tokens=4, stop_ids=(), stop_strings=())
        checks.append(maximal(model, guesser, prompts[:law_prompts], first, Maximal(), samples))
    return checks
