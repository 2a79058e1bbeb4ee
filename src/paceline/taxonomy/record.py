"""The record of a method: what is asked of every one, each field by itself, and its reading from TOML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from types import MappingProxyType
from typing import Any

from paceline.errors import UsageError, unknown

Words = tuple[str, ...] | None  # None: not known
Axes = Mapping[str, Mapping[str, str]]  # axis -> word -> what it means


@dataclass(frozen=True, slots=True)
class Conditioning:
    """What the drafter is shown of the context, and how. None everywhere: not known."""

    source: Words = None
    injection: str | None = None
    amount: str | None = None
    position: str | None = None
    refresh: str | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A gain as it was published, with the convention behind it."""

    gain: tuple[float, ...]  # one number, or a lowest and a highest
    measure: str
    grade: str  # what the number rests on: a word of the axis evidence
    window: str | None = None  # what was timed
    of: str | None = None
    bonus: bool | None = None  # whether tau counts the bonus token
    against: str = "plain"  # the name of the method that the gain is over
    on: str | None = None  # model, data, hardware


@dataclass(frozen=True, slots=True)
class Method:
    """A published method, or an end of the scale that the house adds. None: not known; "none": there is none."""

    name: str
    title: str
    role: str
    modality: tuple[str, ...]
    evidence: tuple[str, ...]  # what the record rests on
    arxiv: str | None = None
    paper: str | None = None  # where it is described when arXiv has it not
    venue: str | None = None
    code: str | None = None  # owner/repository
    house: bool = False  # ours: no publication
    level: int | None = None
    kind: str | None = None
    dependence: str | None = None  # between the guesses of a round
    conditioning: Conditioning = Conditioning()
    structure: str | None = None
    verification: str | None = None
    guarantee: str | None = None
    training: str | None = None
    regenerated: bool | None = None  # whether its training answers were written by the target
    target_type: Words = None
    targets: tuple[str, ...] = ()  # models that it was shown on
    builds_on: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    note: str | None = None
    drafter: str | None = None  # the name that runs it here, in the table of drafters
    options: tuple[tuple[str, str], ...] = ()  # of that drafter, name and value
    coupling: str | None = None  # the rule that runs it here: in the table of couplings, or "module:class"

    @property
    def runnable(self) -> bool:
        """Whether this package runs it: its drafter, its rule, or both."""
        return self.drafter is not None or self.coupling is not None

    @property
    def published(self) -> bool:
        """Whether it is somebody's publication."""
        return not self.house

    def words(self, axis: str) -> Words:
        """The words of this record on an axis; None where it is not known. Raises KeyError for no axis."""
        if axis == "level":
            return None if self.level is None else (str(self.level),)
        found = getattr(self.conditioning if axis in CONDITIONING else self, axis) if axis in AXES else {}[axis]
        return (found,) if isinstance(found, str) else found


CONDITIONING = tuple(field.name for field in fields(Conditioning))
AXES = (
    "role", "level", "kind", "dependence", *CONDITIONING, "structure", "verification", "guarantee", "training",
    "modality", "target_type", "evidence",
)  # fmt: skip


def build(table: Mapping[str, Any]) -> Method:
    """The record of one TOML table. Raises UsageError for keys that are missing, unknown or of another type."""
    where = f"the method {table.get('name', '(without a name)')!r}"
    values = _checked(Method, table, where)
    if "conditioning" in values:
        values["conditioning"] = Conditioning(**_checked(Conditioning, values["conditioning"], where))
    values["claims"] = tuple(Claim(**_checked(Claim, claim, where)) for claim in values.get("claims", ()))
    values["options"] = tuple(dict(values.get("options", {})).items())
    return Method(**values)


SHAPES: Mapping[str, tuple[type, ...]] = MappingProxyType({
    "str": (str,), "str | None": (str,), "bool": (bool,), "bool | None": (bool,), "int | None": (int,),
    "Words": (list,), "tuple[str, ...]": (list,), "tuple[float, ...]": (list,), "tuple[Claim, ...]": (list,),
    "Conditioning": (dict,), "tuple[tuple[str, str], ...]": (dict,),
})  # fmt: skip


def _checked(kind: type, table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The table's values under the names of the kind's fields, lists as tuples."""
    known = {field.name: field for field in fields(kind)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise unknown(f"key of {where}", key, known)
        shape = str(known[key].type)
        entry = {"tuple[float, ...]": (int, float), "tuple[Claim, ...]": (dict,)}.get(shape, (str,))
        inside = value if isinstance(value, list) else ()
        if type(value) not in SHAPES[shape] or any(type(part) not in entry for part in inside):
            raise UsageError(f"{where}: {key} is {value!r}; expected {shape.replace('Words', 'tuple[str, ...]')}")
        values[key] = tuple(value) if isinstance(value, list) else value
    needed = [field.name for field in fields(kind) if field.default is MISSING and field.name not in values]
    if needed:
        raise UsageError(f"{where} lacks {', '.join(needed)}")
    return values
