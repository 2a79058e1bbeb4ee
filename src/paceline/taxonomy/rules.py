"""What no record may say: sentences with the test that finds the break, over one record and over all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from paceline.errors import unknown
from paceline.taxonomy.record import AXES, Axes, Claim, Method

PROPOSES = ("drafter", "target")
FREE = ("none", "replay", "ngram", "jacobi")
LEVELS: Mapping[str, tuple[int, ...]] = {
    "none": (0,), "replay": (0,), "ngram": (0,), "jacobi": (0,),
    "small-lm": (1,), "small-vlm": (1,), "feature-head": (1,), "self-exit": (1,), "self-sparse": (1,),
    "multi-head": (1, 2), "masked-parallel": (2,), "semi-ar": (2,), "self-mask": (2, 3),
    "block-diffusion": (3,), "diffusion-lm": (3,),
}  # fmt: skip
EXACT = ("rejection", "block", "sample-match", "shared-noise")
SEEING = ("image", "multi-image", "video")
OUTPUTS = {"visual-output": "visual-ar", "action": "vla", "audio": "speech"}


@dataclass(frozen=True, slots=True)
class Rule:
    """A sentence that holds for every record, and whether one breaks it."""

    sentence: str
    broken: Callable[[Method], bool]


def _source(m: Method) -> tuple[str, ...] | None:
    return m.conditioning.source


def _no_arxiv_id(text: str | None) -> bool:
    return text is not None and not re.fullmatch(r"\d\d(0[1-9]|1[0-2])\.\d{5}", text)


def _serial_budget(m: Method) -> bool:
    return m.structure == "budget-tree" and m.level in (0, 1)


def _level_0_learns(m: Method) -> bool:
    return m.level == 0 and m.training not in (None, "none", "table") and m.role != "target"


def _windowed(m: Method) -> bool:
    return m.role == "drafter" and m.structure == "window" and m.kind != "jacobi"


def _no_way_in(m: Method) -> bool:
    return _source(m) not in (None, ("none",)) and m.conditioning.injection == "none"


def _shows_nothing(m: Method) -> bool:
    if _source(m) != ("none",):
        return False
    rest = m.conditioning
    return any(word not in (None, "none") for word in (rest.injection, rest.amount, rest.position, rest.refresh))


def _own_input(m: Method) -> bool:
    read = _source(m)
    own = read is not None and set(read) <= {"tokens", "pixels"}
    return own and m.conditioning.injection not in (None, "tokens")


def _blind_sees(m: Method) -> bool:
    return "pixels" in (_source(m) or ()) and not set(m.modality) & set(SEEING)


def _reads_what_it_lacks(m: Method) -> bool:
    return m.conditioning.amount in ("none", "text-rows") and bool(
        {"pixels", "target-embeddings"} & set(_source(m) or ())
    )


def _exact(m: Method) -> bool:
    return m.guarantee in ("greedy-exact", "distribution-exact")


def _unfounded(m: Method) -> bool:
    return m.guarantee == "distribution-exact" and m.verification not in EXACT


def _output_mismatch(m: Method) -> bool:
    if m.target_type is None:
        return False
    return any((out in m.modality) != (kind in m.target_type) for out, kind in OUTPUTS.items())


def _no_gain(claim: Claim) -> bool:
    ordered = len(claim.gain) in (1, 2) and sorted(set(claim.gain)) == list(claim.gain)
    return not ordered or claim.gain[0] <= 0


def _timed_count(claim: Claim) -> bool:
    return claim.measure in ("tau", "nfe-ratio") and claim.window is not None


def _tau_below_one(claim: Claim) -> bool:
    return claim.measure == "tau" and claim.bonus is True and claim.gain[0] < 1


RULES: tuple[Rule, ...] = (
    Rule("a name is lower-case words joined by hyphens", lambda m: not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", m.name)),
    Rule("a record has a title", lambda m: not m.title.strip()),
    Rule("a record rests on something", lambda m: not m.evidence),
    Rule("an arXiv id is four digits, a dot and five digits", lambda m: _no_arxiv_id(m.arxiv)),
    Rule("a published method says where it is described", lambda m: m.published and not (m.arxiv or m.paper)),
    Rule("what the house adds has no publication", lambda m: m.house and bool(m.arxiv or m.paper or m.venue)),
    Rule("code is owner/repository", lambda m: m.code is not None and not re.fullmatch(r"[\w.-]+/[\w.-]+", m.code)),
    Rule("what proposes guesses has a level", lambda m: m.role in PROPOSES and m.level is None),
    Rule("what proposes guesses is of a kind", lambda m: m.role in PROPOSES and m.kind is None),
    Rule("only what proposes guesses has a level", lambda m: m.role not in PROPOSES and m.level is not None),
    Rule("the level fits the kind", lambda m: None not in (m.level, m.kind) and m.level not in LEVELS[m.kind or ""]),
    Rule("level 1 is autoregressive", lambda m: m.level == 1 and m.dependence not in (None, "autoregressive")),
    Rule("autoregressive guesses are level 1", lambda m: m.dependence == "autoregressive" and m.level != 1),
    Rule("only Jacobi kin iterates", lambda m: m.dependence == "iterated" and m.kind != "jacobi"),
    Rule("only Jacobi kin has a window", _windowed),
    Rule("a budget tree wants positions that do not wait for each other", _serial_budget),
    Rule("level 0 learns nothing but a table, or is the target's own training", _level_0_learns),
    Rule("untrained means no training data", lambda m: m.training == "none" and m.regenerated is not None),
    Rule("nothing to show means no way to show it", _shows_nothing),
    Rule("what is shown has a way in", _no_way_in),
    Rule("ids and pictures enter as its own input", _own_input),
    Rule("only a modality that sees is shown pictures", _blind_sees),
    Rule("a drafter of no amount of the picture reads no picture", _reads_what_it_lacks),
    Rule("skipped checks are lossy", lambda m: m.verification == "skipped" and m.guarantee != "lossy"),
    Rule("a relaxed rule is not exact", lambda m: m.verification == "relaxed" and _exact(m)),
    Rule("exact in distribution needs a rule that is", _unfounded),
    Rule("exact under greedy says how it checks", lambda m: m.guarantee == "greedy-exact" and m.verification is None),
    Rule("a retrained target keeps no one's law", lambda m: m.role == "target" and _exact(m)),
    Rule("visual tokens, actions and speech go with targets that write them", _output_mismatch),
    Rule("what runs here has been executed", lambda m: m.runnable and "executed" not in m.evidence),
    Rule("options belong to a drafter", lambda m: bool(m.options) and m.drafter is None),
    Rule("a drafter that runs here is a drafter's record", lambda m: m.drafter is not None and m.role != "drafter"),
    Rule("a gain is one positive number, or two in order", lambda m: any(map(_no_gain, m.claims))),
    Rule("tau has no window and a ratio of forwards has none", lambda m: any(map(_timed_count, m.claims))),
    Rule("only tau counts a bonus", lambda m: any(c.bonus is not None and c.measure != "tau" for c in m.claims)),
    Rule("tau with its bonus is at least 1", lambda m: any(map(_tau_below_one, m.claims))),
)  # fmt: skip


def faults(method: Method, axes: Axes) -> Iterator[str]:
    """What is wrong with one record, in sentences: words that an axis does not have, and rules that it breaks."""
    said = [(axis, method.words(axis) or ()) for axis in AXES]
    for claim in method.claims:
        named = {"measure": claim.measure, "evidence": claim.grade, "window": claim.window, "of": claim.of}
        said += [(axis, (word,)) for axis, word in named.items() if word is not None]
    strange = [str(unknown(axis, word, axes[axis])) for axis, words in said for word in words if word not in axes[axis]]
    empty = [f"{axis} is empty; leave it out where it is not known" for axis in AXES if method.words(axis) == ()]
    yield from dict.fromkeys(strange + empty)
    if not strange:
        yield from (rule.sentence for rule in RULES if rule.broken(method))


def faults_between(methods: Sequence[Method]) -> Iterator[str]:
    """What is wrong with records beside each other: names, ids and titles twice, and kin that is not there."""
    for field in ("name", "title", "arxiv"):
        seen = [value for m in methods if (value := getattr(m, field)) is not None]
        yield from (f"two records have the {field} {value!r}" for value in _twice(seen))
    names = {m.name for m in methods}
    for m in methods:
        against = [claim.against for claim in m.claims]
        for other in [*m.builds_on, *against]:
            if other not in names:
                yield f"{m.name}: {unknown('method', other, names)}"
    yield from (f"{name} builds on itself" for name in _circular({m.name: m.builds_on for m in methods}))


def _twice(values: Iterable[str]) -> list[str]:
    seen = list(values)
    return sorted({value for value in seen if seen.count(value) > 1})


def _circular(kin: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for start in kin:
        todo, seen = list(kin[start]), set[str]()
        while todo:
            name = todo.pop()
            todo += [] if name in seen else kin.get(name, ())
            seen.add(name)
        if start in seen:
            yield start
