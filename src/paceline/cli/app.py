"""The table of verbs. Each is a file; none loads a model library before it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Annotated, Any

import typer

from paceline import __version__
from paceline.cli.audit import audit
from paceline.cli.bench import bench
from paceline.cli.demo import demo
from paceline.cli.generate import generate
from paceline.cli.imagine import imagine
from paceline.cli.methods import methods
from paceline.cli.models import models
from paceline.cli.serve import serve
from paceline.cli.train import train
from paceline.errors import UsageError

VERBS = (demo, generate, imagine, bench, audit, serve, models, methods, train)


def run(arguments: Sequence[str] | None) -> int:
    """Parse and run one command; its exit code. Raises UsageError for what cannot be parsed."""
    click_error: Any = typer.BadParameter.__mro__[2]  # ClickException, wherever this typer keeps it
    try:
        code = build()(arguments, prog_name="paceline", standalone_mode=False)
    except Interrupted as stop:
        raise KeyboardInterrupt(*stop.args) from stop
    except click_error as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            return int(error.exit_code)
        raise UsageError(_with_help(error)) from None
    return code if isinstance(code, int) else 0


def build() -> typer.Typer:
    """The application with all verbs."""
    app = typer.Typer(
        name="paceline",
        help="Lossless speculative decoding for multimodal models: measure it, use it, train for it.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_top)
    for verb in VERBS:
        app.command()(_interruptible(verb))
    return app


class Interrupted(Exception):
    """Ctrl-C on its way past typer, which would swallow what it says."""


def _interruptible(verb: Callable[..., None]) -> Callable[..., None]:
    @wraps(verb)
    def command(**options: Any) -> None:
        try:
            verb(**options)
        except KeyboardInterrupt as stop:
            raise Interrupted(*stop.args) from stop

    return command


def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=lambda asked: _version(asked), is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"paceline {__version__}")
        raise typer.Exit


def _with_help(error: Any) -> str:
    context = getattr(error, "ctx", None)
    where = f" (see {context.command_path} --help)" if context is not None else ""
    return error.format_message().rstrip(".") + where
