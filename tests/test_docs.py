"""What the documents claim holds as far as a machine can tell: links, paths, commands, options, make targets, names."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import paceline

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(p for p in (ROOT / "docs").rglob("*.md") if "reference" not in p.parts)])
ROOMS = "src tests docs recipes examples".split()


@cache
def builder() -> ModuleType:
    """docs/build.py as a module."""
    spec = importlib.util.spec_from_file_location("docs_build", ROOT / "docs" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def options(verb: str) -> frozenset[str]:
    """The options that `paceline VERB --help` names; raises when there is no such verb."""
    return frozenset(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", builder().help_of(*([verb] if verb else []))))


def broken_links(text: str, home: Path) -> list[str]:
    """Relative link targets that are not there."""
    targets = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    return [target for target in targets if target and not (home / target).exists()]


def missing_paths(text: str) -> list[str]:
    """Paths in backticks below one of our rooms that are not there; those that a command writes are left out."""
    paths = re.findall(rf"`((?:{'|'.join(ROOMS)})/[\w./-]+)`", text)
    return [path for path in paths if not (ROOT / path).exists() and not path.startswith("docs/reference")]


def blocks(text: str, language: str) -> list[str]:
    """The fenced code blocks in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def commands(text: str) -> list[str]:
    """Shell lines of the bash blocks, continued lines joined, comments left out."""
    lines = "\n".join(blocks(text, "bash")).replace("\\\n", " ").splitlines()
    return [line.partition(" #")[0].strip() for line in lines if line.strip() and not line.startswith("#")]


def wrong_commands(text: str) -> list[str]:
    """Commands that use a verb, an option or a make target that does not exist."""
    makefile = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    found: list[str] = []
    for command in commands(text):
        if wanted := re.match(r"make ([a-z ]+)", command):
            found += [f"{command}: no target {name}" for name in wanted[1].split() if name not in makefile]
        if called := re.search(r"(?:^|/)paceline(?: ([a-z]+))?(.*)", command):
            try:
                known = options(called[1] or "")
            except subprocess.CalledProcessError:
                found.append(f"{command}: no verb {called[1]}")
                continue
            used = re.findall(r"(?<=\s)--?[a-zA-Z][\w-]*", called[2])
            found += [f"{command}: no option {name}" for name in used if name not in known]
    return found


def unknown_names(text: str) -> list[str]:
    """Names `paceline.x` in the python blocks that the package does not offer; raises SyntaxError for broken code."""
    trees = [ast.parse(block) for block in blocks(text, "python")]
    used = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    ours = [node.attr for node in used if isinstance(node.value, ast.Name) and node.value.id == "paceline"]
    return [name for name in ours if name not in paceline.__all__]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_document_holds(document: Path) -> None:
    text = document.read_text()
    assert not broken_links(text, document.parent)
    assert not missing_paths(text)
    assert not wrong_commands(text)
    assert not unknown_names(text)


def test_checks_can_fail() -> None:
    assert broken_links("[a](nowhere.md), [b](README.md#top)", ROOT) == ["nowhere.md"]
    assert missing_paths("`src/paceline/core.py` and `src/paceline/utils.py`") == ["src/paceline/utils.py"]
    assert unknown_names("```python\npaceline.generate(paceline.fast)\n```") == ["fast"]
    found = wrong_commands("```bash\nmake tea\npaceline brew\npaceline models --strength 3  # hot\n```")
    assert [line.rpartition(": ")[2] for line in found] == ["no target tea", "no verb brew", "no option --strength"]


def test_readme_opens_with_what_a_newcomer_needs() -> None:
    top = "\n".join((ROOT / "README.md").read_text().splitlines()[:60])
    for wanted in ("make demo", "paceline generate", "import paceline", "Python", "docs/index.md"):
        assert wanted in top, wanted


def test_reference_names_every_verb_and_name() -> None:
    build = builder()
    verbs = build.verbs()
    assert {"generate", "bench", "models"} <= set(verbs)
    api, command_line = build.api(), build.command_line()
    assert [name for name in paceline.__all__ if f"## `{name}`" not in api] == []
    assert [verb for verb in verbs if f"## `paceline {verb}`" not in command_line] == []


def test_version_is_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert paceline.__version__ == project["version"]
    assert f"version: {project['version']}" in (ROOT / "CITATION.cff").read_text()


def named(package: str) -> str:
    """The name as package indexes compare it."""
    return package.lower().replace("_", "-")


def test_constraints_pin_every_requirement() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(line for extra in extras for line in extra)]
    pinned = {line.partition("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {named(re.split(r"[<>=\[]", line)[0]) for line in wanted} - {"paceline"} <= {named(line) for line in pinned}
    assert sys.version_info >= (3, 11)
