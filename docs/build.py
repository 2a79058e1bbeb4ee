"""Writes docs/reference from the code: the API from signatures and docstrings, the command line from its own help, the
methods from the taxonomy's records.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

REFERENCE = Path(__file__).parent / "reference"


def api() -> str:
    """Markdown of every public name: signature and docstring."""
    import paceline

    parts = ["# Python API", "", "Written by `make docs`. Every name is an attribute of `paceline`."]
    for name in paceline.__all__:
        thing = getattr(paceline, name)
        parts += [
            "",
            f"## `{name}`",
            "",
            "```python",
            f"{name}{inspect.signature(thing)}",
            "```",
            "",
            inspect.getdoc(thing) or "",
        ]
    return "\n".join(parts) + "\n"


@cache
def help_of(*verb: str) -> str:
    """The help text of a verb, or of the program itself, as a plain terminal of 100 columns shows it."""
    code = "import sys; from paceline.cli import main; sys.argv[0] = 'paceline'; sys.exit(main())"
    plain = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
    command = [sys.executable, "-c", code, *verb, "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | plain).stdout


def verbs() -> list[str]:
    """The verbs that the program's own help lists."""
    lines = help_of().partition("Commands")[2].splitlines()
    return [found[1] for line in lines if (found := re.match(r"[^\w\s]\s([a-z][a-z-]+)\s\s", line))]


def command_line() -> str:
    """Markdown with the help of the program and of each verb."""
    parts = ["# Command line", "", "Written by `make docs`.", "", "```text", help_of().rstrip(), "```"]
    for verb in verbs():
        parts += ["", f"## `paceline {verb}`", "", "```text", help_of(verb).rstrip(), "```"]
    return "\n".join(parts) + "\n"


def methods() -> str:
    """Markdown of the taxonomy."""
    from paceline.taxonomy.page import page

    return page()


def main() -> None:
    REFERENCE.mkdir(exist_ok=True)
    for name, text in (("api.md", api()), ("command-line.md", command_line()), ("methods.md", methods())):
        (REFERENCE / name).write_text(text)
        print(f"wrote {(REFERENCE / name).relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()
