"""The command line: `main` turns what goes wrong into one line and an exit code (0 ok, 1 fault found, 2 bad input)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from paceline.errors import UsageError

OK, FAULT, USAGE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. Arguments default to the process's own."""
    from paceline.cli.app import run

    return guarded(lambda: run(arguments))


def guarded(command: Callable[[], int]) -> int:
    """The command's exit code; bad input becomes one line on stderr and 2, Ctrl-C 130; our own errors are raised."""
    try:
        return command()
    except UsageError as error:
        return _say(str(error), USAGE)
    except KeyboardInterrupt as stop:
        return _say(str(stop) or "interrupted; nothing was written", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left: let the exit flush in peace
        return BROKEN_PIPE
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # rich has looked after stdout, but says 1
            return BROKEN_PIPE
        raise
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _say(f"{error.strerror or error}{where}", USAGE)


def _say(message: str, code: int) -> int:
    line = " ".join(message.split())
    print(f"paceline: {line}", file=sys.stderr)
    return code
