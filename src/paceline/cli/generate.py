"""`paceline generate`: one answer, streamed, with accepted drafts in colour and a check against plain decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli import FAULT, options, output
from paceline.cli.opening import known_coupling, message_of, open_target, sampling_of
from paceline.errors import UsageError


def generate(
    prompt: Annotated[str, typer.Option(help="What to ask.")],
    image: Annotated[list[Path] | None, typer.Option(help="Picture file; repeat it for several.")] = None,
    target: options.Target = "tiny-native",
    drafter: Annotated[
        str, typer.Option(help="none, lookup, a bundled name, a directory or a hub id.", rich_help_panel=options.MODEL)
    ] = "lookup",
    device: options.Device = "cpu",
    dtype: options.DType = None,
    threads: options.Threads = None,
    longest_edge: options.LongestEdge = None,
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    seed: options.Seed = 0,
    max_new_tokens: options.MaxNewTokens = 256,
    stop: Annotated[
        list[str] | None, typer.Option(help="Text that ends the answer; repeatable.", rich_help_panel=options.DRAW)
    ] = None,
    coupling: options.Coupling = "gumbel",
    check: Annotated[
        bool | None,
        typer.Option("--check/--no-check", help="Compare with plain decoding; default: yes, but not under --json."),
    ] = None,
    config: options.Config = None,
    out: options.Output = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Answer a question about pictures, or about none. Exit code 1: the check found a fault."""
    messages = message_of(prompt, image or [])
    sampling = sampling_of(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed, max_new_tokens=max_new_tokens,
        stop=stop or (),
    )  # fmt: skip
    comparable = known_coupling(coupling) == "gumbel" or temperature == 0
    if check and not comparable:
        raise UsageError("--check compares texts; under maximal above temperature 0 only the law is equal: use gumbel")
    output.writable(out)
    model = open_target(target, device=device, dtype=dtype, threads=threads, quiet=quiet or json)
    from paceline.cli.answering import Question, answer, compare, document
    from paceline.cli.display import Screen
    from paceline.loading import load_drafter

    question = Question(model, load_drafter(drafter, model), messages, sampling, coupling, longest_edge)
    screen = Screen(quiet=quiet, silent=json)
    timed = answer(question, screen.piece)
    wanted = check if check is not None else comparable and not (json or quiet) and drafter != "none"
    against = compare(question, timed) if wanted else None
    record: dict[str, Any] = {
        "target": target,
        "drafter": drafter,
        "prompt": prompt,
        **document(question, timed, against),
    }
    if out is not None:
        output.write_whole(out, output.to_json(record))
    if json:
        output.emit(record)
    screen.summary(record)
    if against is not None and against.faults:
        raise typer.Exit(FAULT)
