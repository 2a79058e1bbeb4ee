"""The rules of the house, as functions from source to findings; test_architecture.py shows that each can fail."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SRC = Path(__file__).resolve().parents[1] / "src"

# Rooms by floor: a room may import from its own floor and from those below.
FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"errors", "spelling", "law", "dice", "tree", "layout", "clock", "taxonomy", "tasks", "pictures", "zoo"}),
    frozenset({"core"}),
    frozenset({"couplings", "relaxed", "sampling", "conditioning", "hf"}),
    frozenset({"targets", "drafters"}),
    frozenset({"answer", "bridge", "trace", "loading", "identity", "painting"}),
    frozenset({"audit", "bench", "diagnose", "train", "search", "export", "serve"}),
    frozenset({"cli"}),
)
STRANGERS = ({"targets", "drafters"},)  # never import each other, in either direction
CORE = frozenset("law dice tree core couplings sampling clock conditioning answer bridge trace identity".split())
MODEL_FAMILIES = frozenset(
    "idefics3 smolvlm llava pixtral mistral3 internvl qwen qwen2 qwen3 gemma gemma3 llama "
    "janus lumina emu3 glm chameleon imagegpt".split()
)
PAPERS = frozenset("eagle medusa hydra mtp pard dream dflash dspark sjd scd jacobi msd vispec lookup".split())
PLAIN_WORDS = {"base", "none", "layers", "table", "guided", "visual", "text", "generic", "family", "synthetic"}
MUTATORS = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove", "discard", "clear"}
CONTAINERS = {"list", "dict", "set", "defaultdict", "OrderedDict", "Counter", "deque", "bytearray", "WeakKeyDictionary"}
DISTRIBUTION = {"PIL": "pillow", "yaml": "pyyaml"}  # where the import's name is not the package's


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name and syntax tree."""

    name: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The first name below `paceline`; empty for the package itself."""
        return (self.name.split(".") + [""])[1]

    @staticmethod
    def parse(name: str, source: str) -> Module:
        return Module(name, ast.parse(source))


def modules(src: Path = SRC) -> Iterator[Module]:
    """Every module of the package, in the order of its names."""
    for path in sorted((src / "paceline").rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        yield Module.parse(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path.read_text())


def imported(module: Module) -> Iterator[tuple[str, int]]:
    """Dotted names of what a module imports anywhere, by statement or in a table as "paceline.x:Y", and lines."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            if node.level:
                raise ValueError(f"{module.name}:{node.lineno}: relative import; name the room in full")
            inside = (
                [f"paceline.{a.name}" for a in node.names if a.name != "__version__"]
                if source == "paceline"
                else [source]
            )
            yield from ((name, node.lineno) for name in inside)
        elif isinstance(node, ast.Constant) and re.fullmatch(r"paceline(\.\w+)+:\w+", str(node.value)):
            yield str(node.value).partition(":")[0], node.lineno


def upward_imports(module: Module) -> list[str]:
    """Imports from a floor above, from a stranger, or to and from rooms that have no floor."""
    if module.name == "paceline":  # the table of contents names every room
        return []
    floor = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
    if module.room not in floor:
        return [f"{module.name}: the room {module.room!r} has no floor in house_rules.FLOORS"]
    found: list[str] = []
    for name, line in imported(module):
        room = (name.split(".") + [""])[1]
        if not name.startswith("paceline.") or room == module.room or room not in floor:
            continue
        if floor[room] > floor[module.room] or any({room, module.room} == pair for pair in STRANGERS):
            found.append(f"{module.name}:{line}: {module.room} must not import {room}")
    return found


def missing_modules(module: Module, known: set[str]) -> list[str]:
    """Modules of ours that are imported, if only inside a function or by a table, and are not there."""
    return [
        f"{module.name}:{line}: no module {name}"
        for name, line in imported(module)
        if name.startswith("paceline.") and name not in known
    ]


def import_cycles(rooms: Mapping[str, set[str]]) -> list[str]:
    """Rooms that reach themselves through what they import."""

    def reach(start: str) -> set[str]:
        seen: set[str] = set()
        todo = list(rooms.get(start, ()))
        while todo:
            room = todo.pop()
            if room not in seen:
                seen.add(room)
                todo += rooms.get(room, ())
        return seen

    return [room for room in rooms if room in reach(room)]


def method_names(module: Module, names: Iterable[str]) -> list[str]:
    """Identifiers and strings of a core room that name a drafting method or a model family; docstrings may."""
    if module.room not in CORE:
        return []
    names = set(names) - PLAIN_WORDS
    prose = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Expr)}
    found: list[str] = []
    for node in ast.walk(module.tree):
        if id(node) in prose:
            continue
        for text in _texts(node):
            words = {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*", text)}
            found += [f"{module.name}:{getattr(node, 'lineno', 0)}: names {word!r}" for word in sorted(words & names)]
    return found


def _texts(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text) | ast.alias(name=text):
            return [text]
        case ast.FunctionDef(name=text) | ast.AsyncFunctionDef(name=text) | ast.ClassDef(name=text):
            return [text]
        case ast.keyword(arg=str() as text) | ast.Constant(value=str() as text):
            return [text]
        case _:
            return []


def global_state(module: Module) -> list[str]:
    """Module-level containers that are not constants, `global`, and changes to what a module's top level binds.

    A constant is written in capitals; nothing may change it, nor an attribute of anything imported.
    """
    found: list[str] = []
    top: set[str] = set()
    for node in module.tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        for target in targets:
            if isinstance(target, ast.Name):
                top.add(target.id)
                constant = target.id.isupper() or (target.id.startswith("__") and target.id.endswith("__"))
                if _container(node.value) and not constant:  # type: ignore[union-attr]
                    found.append(f"{module.name}:{node.lineno}: module-level container {target.id!r}")
        if isinstance(node, ast.Import | ast.ImportFrom):
            top |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return found + [f"{module.name}:{line}: {what}" for line, what in _changes(module.tree, top)]


def _container(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", "")
        return called in CONTAINERS
    return isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)


def _changes(scope: ast.AST, names: set[str]) -> Iterator[tuple[int, str]]:
    """(line, what) for each change to one of the names, where no inner scope hides it."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _changes(node, names - _locals(node))
            continue
        if isinstance(node, ast.Global):
            yield node.lineno, f"global {', '.join(node.names)}"
        owner = _changed(node)
        if owner in names:
            yield node.lineno, f"changes {owner!r}"  # type: ignore[attr-defined]
        yield from _changes(node, names)


def _changed(node: ast.AST) -> str | None:
    """The plain name whose item or attribute this node stores, deletes or mutates."""
    match node:
        case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name
        case ast.Attribute(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()):
            return name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in MUTATORS:
            return name
        case _:
            return None


def _locals(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> set[str]:
    inside = list(ast.walk(function))
    bound = {node.arg for node in inside if isinstance(node, ast.arg)}
    bound |= {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in inside:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return bound


def swallowed_errors(module: Module) -> list[str]:
    """Bare `except:`, and `except Exception: pass`."""
    found: list[str] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ExceptHandler):
            broad = isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
            silent = all(isinstance(step, ast.Pass | ast.Continue) for step in node.body)
            if node.type is None or (broad and silent):
                found.append(f"{module.name}:{node.lineno}: swallows errors")
    return found


def untyped(module: Module) -> list[str]:
    """Public functions and methods with an argument or a result that has no type."""
    found: list[str] = []
    if any(part.startswith("_") and part != "__main__" for part in module.name.split(".")):
        return found
    classes = [node for node in module.tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    for owner in (module.tree, *classes):
        for node in owner.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if node.name.startswith("_") and not node.name.endswith("__"):
                continue
            static = any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list)
            given = [*node.args.posonlyargs, *node.args.args]
            given = given[1:] if isinstance(owner, ast.ClassDef) and not static else given
            given += [*node.args.kwonlyargs, *filter(None, (node.args.vararg, node.args.kwarg))]
            bare = [arg.arg for arg in given if arg.annotation is None] + ["result"] * (node.returns is None)
            if bare:
                found.append(f"{module.name}:{node.lineno}: {node.name} leaves {', '.join(bare)} untyped")
    return found


def third_party(module: Module) -> dict[str, ast.stmt]:
    """Top-level names of the packages that a module imports from outside the standard library, with one place each."""
    found: dict[str, ast.stmt] = {}
    for node in [*ast.walk(module.tree), *module.tree.body]:  # the module's top last, so that it wins
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0]: node for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found[(node.module or "").partition(".")[0]] = node
    return {name: node for name, node in found.items() if name not in {"paceline", *sys.stdlib_module_names}}


def undeclared(module: Module, required: set[str], optional: set[str]) -> list[str]:
    """Third-party imports that pyproject.toml lacks, and those at a module's top that only an extra brings."""
    found: list[str] = []
    tops = set(map(id, module.tree.body))
    for name, node in third_party(module).items():
        package = DISTRIBUTION.get(name, name).replace("_", "-").lower()
        if package not in required | optional:
            found.append(f"{module.name}:{node.lineno}: {package} is not in pyproject.toml")
        elif package not in required and id(node) in tops:
            found.append(f"{module.name}:{node.lineno}: {package} belongs to an extra; import it where it is used")
    return found
