"""`python -m paceline.train RECIPE`: trains from a recipe; run again after a kill, it resumes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from paceline.train import target
from paceline.train.dispatch import run
from paceline.train.loop import Diverged
from paceline.train.recipe import RecipeError


def main() -> int:
    """Return 0 when the run finished, 1 when it diverged, 2 for a recipe that cannot be used, 130 after Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m paceline.train", description=__doc__)
    parser.add_argument("recipe", type=Path)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, help="directory of the run: checkpoints, log, model"
    )
    parser.add_argument("--data", type=Path, help="directory of rendered scenes (default: OUTPUT/data)")
    parser.add_argument("--render", choices=("first", "only", "elsewhere"), default="first")
    given = parser.parse_args()
    try:
        if given.render == "only":
            target.render_scenes(given.recipe, given.output, given.data)
        else:
            run(given.recipe, given.output, given.data, render=given.render == "first")
    except (RecipeError, Diverged) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, RecipeError) else 1
    except KeyboardInterrupt as stopped:
        print(stopped, file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
