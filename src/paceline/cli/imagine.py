"""`paceline imagine`: a caption becomes a picture or clip, a window at a time; all methods beside plain decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paceline.cli import FAULT, options, output
from paceline.cli.opening import open_visual, sampling_of
from paceline.errors import UsageError

METHOD = "Method"


def imagine(
    prompt: Annotated[str, typer.Option(help="What to draw.")],
    target: options.Target = "tiny-image",
    method: Annotated[
        str, typer.Option(help="ar, sjd, scd-maximal, scd-gumbel or scd-exact.", rich_help_panel=METHOD)
    ] = "scd-exact",
    window: Annotated[
        int, typer.Option(help="Tokens in one forward, 1 … 128; 1 is plain decoding.", rich_help_panel=METHOD)
    ] = 64,
    start: Annotated[
        str | None,
        typer.Option(help="What new places are guessed from: uniform, left, above, …", rich_help_panel=METHOD),
    ] = None,
    adaptive: Annotated[
        float, typer.Option(min=0, help="Window as a multiple of recent progress; 0: fixed.", rich_help_panel=METHOD)
    ] = 0.0,
    device: options.Device = "cpu",
    dtype: options.DType = None,
    threads: options.Threads = None,
    guidance: Annotated[
        float | None, typer.Option(help="Classifier-free guidance; 1: none.", rich_help_panel=options.DRAW)
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Default: the checkpoint's own.", rich_help_panel=options.DRAW)
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Ids kept; 0: all. Default: the checkpoint's own.", rich_help_panel=options.DRAW)
    ] = None,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    seed: options.Seed = 0,
    batch: Annotated[int, typer.Option(min=1, max=64, help="Results, drawn with seed, seed + 1, …")] = 1,
    size: Annotated[str | None, typer.Option(help="WIDTHxHEIGHT in pixels, where the target has a choice.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Draw with every method and compare.")] = False,
    frames: Annotated[
        Path | None, typer.Option(help="Directory for a picture a round, as it fills.", rich_help_panel=options.OUT)
    ] = None,
    scale: Annotated[
        int, typer.Option(min=1, max=32, help="Enlargement of the file.", rich_help_panel=options.OUT)
    ] = 4,
    config: options.Config = None,
    out: options.Output = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw a picture or clip of a caption. Exit code 1: a method that must equal plain decoding did not."""
    if not prompt.strip():
        raise UsageError("--prompt is empty; say what to draw")
    if frames is not None and frames.exists() and not frames.is_dir():
        raise UsageError(f"--frames {frames} is a file; give a directory")
    output.writable(out)
    model = open_visual(target, size, device=device, dtype=dtype, threads=threads, quiet=quiet or json)
    from paceline.cli import imagining
    from paceline.cli.easel import Easel

    own = model.defaults
    sampling = sampling_of(
        temperature=own["temperature"] if temperature is None else temperature,
        top_k=own["top_k"] if top_k is None else top_k,
        top_p=top_p, min_p=min_p, seed=seed, max_new_tokens=model.layout.size,
    )  # fmt: skip
    work = imagining.commission(model, prompt, batch, sampling, own["guidance"] if guidance is None else guidance)
    how = imagining.How(method, window, start, adaptive)
    how.build(work)  # a bad name or window fails here, before anything is drawn or written
    seen = imagining.decodes(model, needed=out is not None or frames is not None)
    place = imagining.place(out, prompt, model.layout, batch) if seen else []
    easel = Easel(work, frames, scale, hidden=quiet or json)
    with easel.bar(method):
        painted = imagining.draw(work, how, easel.see)
    paths = imagining.save(work, painted, place, scale)
    record: dict[str, Any] = {"target": target, "prompt": prompt, **imagining.document(work, how, painted, paths)}
    faults = 0
    if compare:
        with easel.bar("all methods"):
            record["compare"] = imagining.compare(work, how, easel.advance)
        faults = sum(row["faults"] or 0 for row in record["compare"])
    if json:
        output.emit(record)
    easel.tell(record, painted)
    if faults:
        raise typer.Exit(FAULT)
