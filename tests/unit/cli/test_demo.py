"""The demo on a random model: picture, answer, table, what to try next."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from PIL import Image

from paceline.cli.demo import EDGE, PICTURE
from paceline.cli.preview import HALF, preview
from paceline.tasks import scene
from unit.cli.checkpoint import Shelf

Run = Callable[..., Any]


def test_the_demo(run: Run, shelf: Shelf) -> None:
    told = run("demo", "--target", shelf.target, "--drafters", f"lookup,{shelf.lm}", "--limit", "1", "--tokens", "12")
    assert told.code == 0
    assert "List everything in the picture." in told.err
    assert "identical: yes" in told.err
    for name in ("none", "lookup", "hf-generate", "oracle"):
        assert re.search(rf"^{name} .*×", told.out, re.MULTILINE), name
    assert "0 faults" in " ".join(told.out.split())
    assert "…" not in told.out
    commands = re.findall(r"^  (paceline .*)$", told.err, re.MULTILINE)
    assert len(commands) >= 3


def test_what_the_demo_advises_can_be_parsed(run: Run, shelf: Shelf) -> None:
    """Each advice that names nothing to fill in runs as it stands, with fewer tokens."""
    import shlex

    told = run("demo", "--target", shelf.target, "--drafters", "lookup", "--limit", "1", "--tokens", "4")
    for line in re.findall(r"^  paceline (generate .*)$", told.err, re.MULTILINE):
        assert run(*shlex.split(line), "--max-new-tokens", "3").code == 0


def test_the_picture_is_a_scene_of_the_suite() -> None:
    with Image.open(PICTURE) as picture:
        assert max(picture.size) == EDGE
        assert picture.convert("RGB").tobytes() == scene("mmt", "test", 10).images[0].tobytes()


def test_a_picture_in_characters() -> None:
    picture = Image.new("RGB", (4, 4), (255, 0, 0))
    picture.paste((0, 0, 255), (0, 2, 4, 4))
    text = preview(picture, columns=4)
    assert text.plain == (HALF * 4 + "\n") * 2
    tops = {str(span.style).split(" on ")[0] for span in text.spans}
    assert tops == {"#ff0000", "#0000ff"}
    assert preview(picture, columns=2).plain == HALF * 2 + "\n"
