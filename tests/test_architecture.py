"""The house holds its rules: imports one way, a core without method names, no global state, typed, light, small."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import house_rules as rules
import paceline
from house_rules import Module

ROOT = Path(__file__).resolve().parents[1]
MODULES = list(rules.modules())
METHODS = {*rules.MODEL_FAMILIES, *rules.PAPERS} | {
    module.name.rpartition(".")[2]
    for module in MODULES
    if module.room in ("drafters", "targets") and module.name.count(".") > 1
}


def declared() -> tuple[set[str], set[str]]:
    """Package names that pyproject.toml requires, and those that its extras for users add."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def named(wanted: list[str]) -> set[str]:
        return {re.split(r"[<>=\[;]", line)[0].strip().lower() for line in wanted}

    extras = [named(wanted) for name, wanted in project["optional-dependencies"].items() if name != "dev"]
    return named(project["dependencies"]), set().union(*extras)


RULES: dict[str, Callable[[Module], list[str]]] = {
    "imports point one way": rules.upward_imports,
    "imports exist": lambda module: rules.missing_modules(module, {module.name for module in MODULES}),
    "core names no method": lambda module: rules.method_names(module, METHODS),
    "no global state": rules.global_state,
    "no swallowed errors": rules.swallowed_errors,
    "typed in public": rules.untyped,
    "declared packages": lambda module: rules.undeclared(module, *declared()),
}

OFFENCES = [
    ("imports point one way", "paceline.core", "from paceline.couplings import Gumbel"),
    ("imports point one way", "paceline.targets.llava", "def load():\n    from paceline.drafters.layers import Norm"),
    ("imports point one way", "paceline.drafters.ar.lm", "from paceline import targets"),
    ("imports point one way", "paceline.hf.cache", "TABLE = {'llava': 'paceline.targets.llava:Llava'}"),
    ("imports point one way", "paceline.helpers", "x = 1"),
    ("imports exist", "paceline.cli.train", "def train():\n    from paceline.train.nowhere import run"),
    ("imports exist", "paceline.cli.train", "TABLE = {'eagle': 'paceline.drafters.ar.nowhere:Eagle'}"),
    ("core names no method", "paceline.core", "def settle(draft, is_eagle): ..."),
    ("core names no method", "paceline.sampling", "if model_type == 'qwen2_vl': pass"),
    ("core names no method", "paceline.answer", "class LookupAnswer: ..."),
    ("no global state", "paceline.hf.cache", "cache = {}"),
    ("no global state", "paceline.hf.cache", "from collections import defaultdict\nseen: object = defaultdict(list)"),
    ("no global state", "paceline.hf.cache", "SEEN = []\ndef look(x):\n    SEEN.append(x)"),
    ("no global state", "paceline.hf.cache", "SEEN = {}\ndef look(x):\n    SEEN[x] = 1"),
    ("no global state", "paceline.hf.cache", "n = 0\ndef look():\n    global n\n    n += 1"),
    ("no global state", "paceline.hf.cache", "import torch\ndef patch():\n    torch.topk = None"),
    ("no swallowed errors", "paceline.bench.grid", "try:\n    run()\nexcept:\n    raise"),
    ("no swallowed errors", "paceline.bench.grid", "try:\n    run()\nexcept Exception:\n    pass"),
    ("typed in public", "paceline.law", "def prob(ids) -> int: ..."),
    ("typed in public", "paceline.law", "class Law:\n    def prob(self, ids: int): ..."),
    ("declared packages", "paceline.cli", "import left_pad"),
    ("declared packages", "paceline.cli", "def test():\n    import pytest"),
]

HARMLESS = [
    ("imports point one way", "paceline.couplings", "from paceline.core import Coupling\nfrom paceline import dice"),
    ("imports exist", "paceline.core", "from paceline import dice\nfrom paceline.law import Point"),
    ("core names no method", "paceline.core", "def settle(draft):\n    'Serves a Jacobi window as well as a chain.'"),
    ("no global state", "paceline.hf.cache", "TABLE = {'a': 1}\ndef look():\n    TABLE = []\n    TABLE.append(1)"),
    ("no swallowed errors", "paceline.bench.grid", "try:\n    run()\nexcept ValueError:\n    pass"),
    ("typed in public", "paceline.law", "def _prob(ids): ...\ndef law(ids: int) -> int: ..."),
    ("declared packages", "paceline.cli", "import torch\nfrom PIL import Image"),
]


@pytest.mark.parametrize("rule", RULES)
def test_house_holds(rule: str) -> None:
    found = [finding for module in MODULES for finding in RULES[rule](module)]
    assert not found, "\n".join([rule, *found])


@pytest.mark.parametrize(("rule", "name", "source"), OFFENCES)
def test_each_rule_can_fail(rule: str, name: str, source: str) -> None:
    assert RULES[rule](Module.parse(name, source)), "the rule let this pass"


@pytest.mark.parametrize(("rule", "name", "source"), HARMLESS)
def test_no_rule_cries_wolf(rule: str, name: str, source: str) -> None:
    assert RULES[rule](Module.parse(name, source)) == []


def test_an_extra_is_imported_where_it_is_used() -> None:
    module = Module.parse("paceline.serve", "def serve():\n    import uvicorn\nimport fastapi")
    found = rules.undeclared(module, {"torch"}, {"fastapi", "uvicorn"})
    assert found == ["paceline.serve:3: fastapi belongs to an extra; import it where it is used"]


def test_every_requirement_is_used() -> None:
    imported = {rules.DISTRIBUTION.get(top, top) for module in MODULES for top in rules.third_party(module)}
    assert declared()[0] - imported == set()


def test_rooms_have_no_import_cycle() -> None:
    rooms: dict[str, set[str]] = {}
    for module in MODULES:
        if module.room:
            wanted = {name.split(".")[1] for name, _ in rules.imported(module) if name.startswith("paceline.")}
            rooms.setdefault(module.room, set()).update(wanted - {module.room})
    assert rules.import_cycles(rooms) == []
    assert rules.import_cycles({"law": {"dice"}, "dice": {"tree"}, "tree": {"law"}, "core": {"law"}}) == [
        "law",
        "dice",
        "tree",
    ]


@pytest.mark.parametrize("name", [module.name for module in MODULES if not module.name.endswith("__main__")])
def test_every_module_imports(name: str) -> None:
    importlib.import_module(name)


def test_public_names_are_not_shadowed_by_modules() -> None:
    """A submodule called like a public name would replace it as soon as anybody imports that submodule."""
    assert not {module.room for module in MODULES} & set(paceline.__all__)


def test_public_names_are_there() -> None:
    assert all(callable(getattr(paceline, name)) for name in paceline.__all__)
    with pytest.raises(AttributeError, match="it offers"):
        paceline.generat  # noqa: B018


def fresh(code: str) -> tuple[set[str], float]:
    """Modules that a new interpreter has loaded after this code, and the seconds that it took; the best of three."""
    report = "\nimport json, sys; print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    spent: list[float] = []
    loaded: set[str] = set()
    for _ in range(3):
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, check=True)
        spent.append(time.perf_counter() - begin)
        loaded = set(json.loads(done.stderr.splitlines()[-1]))
    return loaded, min(spent)


HEAVY = {"torch", "transformers", "numpy", "scipy", "matplotlib", "plotly", "PIL"}
HELP = """
import sys
from paceline.cli import main
sys.argv = ["paceline", "--help"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""


@pytest.mark.parametrize(("code", "seconds"), [("import paceline", 1.0), (HELP, 3.0)], ids=["import", "help"])
def test_the_door_is_light(code: str, seconds: float) -> None:
    loaded, spent = fresh(code)
    assert not loaded & HEAVY
    assert spent < seconds


def test_lightness_can_fail() -> None:
    assert "numpy" in fresh("import numpy")[0]


def tracked() -> dict[str, int]:
    """Bytes of every file that git tracks and that is there."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True
    ).stdout
    return {name: (ROOT / name).stat().st_size for name in listed.split("\0") if name and (ROOT / name).exists()}


def test_what_ships_is_small() -> None:
    sizes = tracked()
    package = sum(size for name, size in sizes.items() if name.startswith("src/paceline/"))
    assert package > 0
    assert sum(sizes.values()) <= 150e6, "the repository"
    assert package <= 95e6, "the wheel, before compression"


def test_no_pickled_weights_ship() -> None:
    assert [
        name for name in tracked() if Path(name).suffix in {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"}
    ] == []
