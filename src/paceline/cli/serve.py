"""`paceline serve`: an OpenAI-compatible server with a page at /."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from paceline.cli import options
from paceline.cli.opening import known_coupling, open_target
from paceline.errors import UsageError

SERVER, GUARD = "Server", "Guards"


def serve(
    target: options.Target = "tiny-native",
    drafter: Annotated[
        str, typer.Option(help="none, lookup, a bundled name, a directory or a hub id.", rich_help_panel=options.MODEL)
    ] = "lookup",
    device: options.Device = "cpu",
    dtype: options.DType = None,
    threads: options.Threads = None,
    longest_edge: options.LongestEdge = None,
    coupling: options.Coupling = "gumbel",
    host: Annotated[str, typer.Option(help="Address to listen on.", rich_help_panel=SERVER)] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one.", rich_help_panel=SERVER)] = 8000,
    name: Annotated[
        str | None, typer.Option(help="What clients call the model; default: --target's last part.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Answers decoded side by side.", rich_help_panel=SERVER)] = 8,
    queue: Annotated[
        int, typer.Option(min=0, help="Answers that wait; one more gets 429.", rich_help_panel=SERVER)
    ] = 64,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds for running answers to end after SIGTERM.", rich_help_panel=SERVER)
    ] = 30.0,
    api_key: Annotated[
        str | None,
        typer.Option(help="Asked of every /v1 request; better given as PACELINE_API_KEY.", rich_help_panel=GUARD),
    ] = None,
    allowed_media_path: Annotated[
        Path | None, typer.Option(help="Directory that file: pictures may come from.", rich_help_panel=GUARD)
    ] = None,
    allow_media_host: Annotated[
        list[str] | None,
        typer.Option(help="Host that may be private and speak http:; repeatable.", rich_help_panel=GUARD),
    ] = None,
    max_body_mib: Annotated[int, typer.Option(min=1, help="Of a request.", rich_help_panel=GUARD)] = 48,
    max_picture_mib: Annotated[int, typer.Option(min=1, help="Of one picture's file.", rich_help_panel=GUARD)] = 16,
    max_picture_megapixels: Annotated[int, typer.Option(min=1, help="Of one picture.", rich_help_panel=GUARD)] = 32,
    max_pictures: Annotated[int, typer.Option(min=0, help="In one request.", rich_help_panel=GUARD)] = 8,
    config: options.Config = None,
    quiet: options.Quiet = False,
) -> None:
    """Serve a target over HTTP: /v1/chat/completions, /v1/completions, /metrics, and a page at /."""
    from paceline.serve.run import build, needed, run
    from paceline.serve.settings import MIB, Settings

    needed()
    settings = Settings(
        name or Path(target).name or target, rows=rows, queue=queue, grace_s=grace, longest_edge=longest_edge,
        api_key=api_key or os.environ.get("PACELINE_API_KEY") or None, media_path=allowed_media_path,
        media_hosts=tuple(allow_media_host or ()), body_bytes=max_body_mib * MIB, pictures=max_pictures,
        picture_bytes=max_picture_mib * MIB, picture_pixels=max_picture_megapixels * 1_000_000,
    )  # fmt: skip
    if known_coupling(coupling) != "gumbel" and not quiet:
        told = "under maximal only the law is the target's: a seed's text is not that of plain decoding"
        print(f"paceline: {told}", file=sys.stderr)
    if host not in ("127.0.0.1", "localhost", "::1") and settings.api_key is None and not quiet:
        print(f"paceline: {host} is open to others and no --api-key is set", file=sys.stderr)
    model = open_target(target, device=device, dtype=dtype, threads=threads, quiet=quiet)
    from paceline.loading import load_drafter

    server = build(model, load_drafter(drafter, model), settings, coupling=coupling)

    def ready(port: int) -> None:
        if not quiet:
            shown = f"[{host}]" if ":" in host else host
            print(f"paceline: {settings.name} with {drafter} on http://{shown}:{port}", file=sys.stderr, flush=True)

    try:
        run(server, host, port, ready=ready)
    except UsageError:
        server.engine.close(0)
        raise
