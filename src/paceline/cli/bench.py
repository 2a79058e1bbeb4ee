"""`paceline bench`: drafters side by side on the same prompts, with plain decoding and with Hugging Face `generate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli import FAULT, options, output
from paceline.cli.bench_visual import Order, bench_visual
from paceline.cli.opening import known_coupling, open_target, sampling_of
from paceline.errors import UsageError, unknown

TRAFFIC, VISUAL = "Traffic", "Pictures and clips"


def bench(
    target: options.Target = "tiny-native",
    drafters: Annotated[
        str, typer.Option("--drafters", "--drafter", help="a,b,… or all.", rich_help_panel=options.MODEL)
    ] = "all",
    device: options.Device = "cpu",
    dtype: options.DType = None,
    threads: options.Threads = None,
    longest_edge: options.LongestEdge = None,
    suite: Annotated[str, typer.Option(help="m6, text, visual or a public benchmark.", rich_help_panel=TRAFFIC)] = "m6",
    tasks: Annotated[str, typer.Option(help="a,b,… of the suite, or all.", rich_help_panel=TRAFFIC)] = "all",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Prompts a task; default 8, or all of --prompts.", rich_help_panel=TRAFFIC)
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(help="Own traffic: a text file, one prompt a line, or .jsonl.", rich_help_panel=TRAFFIC),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Directory of the pictures of --prompts.", rich_help_panel=TRAFFIC)
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Public benchmark: a local copy or hub id; default: as published.", rich_help_panel=TRAFFIC),
    ] = None,
    temperature: Annotated[
        str | None,
        typer.Option(
            "--temperature", "--temperatures", help="a,b,…; default: 0,1 (visual: 0.7,1).", rich_help_panel=options.DRAW
        ),
    ] = None,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    seed: options.Seed = 0,
    max_new_tokens: options.MaxNewTokens = 512,
    coupling: options.Coupling = "gumbel",
    repeats: Annotated[int, typer.Option(min=1, help="Answers timed a prompt; the median one counts.")] = 1,
    windows: Annotated[str, typer.Option(help="Suite visual: a,b,…", rich_help_panel=VISUAL)] = "8,16,32,64",
    starts: Annotated[str, typer.Option(help="Suite visual: a,b,…; default: by layout.", rich_help_panel=VISUAL)] = "",
    guidance: Annotated[
        float | None, typer.Option(help="Suite visual; default: the checkpoint's own.", rich_help_panel=VISUAL)
    ] = None,
    plots: Annotated[Path | None, typer.Option(help="Suite visual: a directory.", rich_help_panel=VISUAL)] = None,
    hf: Annotated[bool, typer.Option("--hf/--no-hf", help="Also time Hugging Face generate.")] = True,
    config: options.Config = None,
    out: options.Output = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure drafters. Exit code 1: a drafter, or plain decoding, wrote another text than it must."""
    from paceline.bench import public, traffic

    if suite not in (known := [*traffic.SUITES, "visual", *public.SUITES]):
        raise unknown("suite", suite, known)
    if data is not None and (prompts is not None or suite not in public.SUITES):
        raise UsageError(f"--data goes with --suite and one of {', '.join(public.SUITES)}")
    if suite == "visual":
        output.writable(out)
        order = Order(
            target, options.listed(drafters), options.listed(tasks), windows, options.listed(starts), limit or 8,
            prompts, _temperatures(temperature or "0.7,1"), guidance, top_k, top_p, min_p, seed, device, dtype, threads,
            plots, out, json, quiet,
        )  # fmt: skip
        bench_visual(order)
        return
    settings = [
        sampling_of(temperature=t, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed, max_new_tokens=max_new_tokens)
        for t in _temperatures(temperature or "0,1")
    ]
    known_coupling(coupling)
    output.writable(out)
    if prompts is None and images is not None:
        raise UsageError("--images goes with --prompts: a file that says what to ask about the pictures")
    if prompts is not None:
        name, asks = traffic.OWN, {traffic.OWN: traffic.own_asks(prompts, images, limit, longest_edge)}
    elif suite in public.SUITES:
        name, asks = suite, public.asks_of(suite, data, options.listed(tasks), limit or 8, longest_edge)
    else:
        name, chosen = suite, traffic.tasks_of(suite, options.listed(tasks))
        asks = {task: traffic.asks_of(suite, task, limit or 8, longest_edge) for task in chosen}
    model = open_target(target, device=device, dtype=dtype, threads=threads, quiet=quiet or json)
    from paceline.bench.benchmark import benchmark, plan_of

    plan = plan_of(model, options.listed(drafters), coupling=coupling, repeats=repeats, hf=hf)
    extra: dict[str, Any] = {
        "target": target, "suite": name, "data": data, "limit": limit, "coupling": coupling, "top_k": top_k,
        "top_p": top_p, "min_p": min_p, "seed": seed, "max_new_tokens": max_new_tokens, "repeats": repeats,
    }  # fmt: skip
    from paceline.cli.progress import bar

    with bar(plan, asks, len(settings), hidden=quiet or json) as step:
        document = benchmark(plan, asks, settings, suite=name, step=step, settings=extra)
    _tell(document, out, json=json, quiet=quiet)
    if document["summary"]["faults"]:
        raise typer.Exit(FAULT)


def _temperatures(text: str) -> list[float]:
    try:
        found = list(dict.fromkeys(float(part) for part in options.listed(text)))
    except ValueError:
        raise UsageError(f"--temperature {text!r}: give numbers such as 0,1") from None
    if not found:
        raise UsageError("--temperature is empty; give numbers such as 0,1")
    return found


def _tell(document: dict[str, Any], out: Path | None, *, json: bool, quiet: bool) -> None:
    from paceline.bench import report

    if out is not None:
        text = report.markdown(document) if out.suffix == ".md" else output.to_json(document)
        output.write_whole(out, text)
    if json:
        output.emit(document)
    elif not quiet:
        report.show(document)
