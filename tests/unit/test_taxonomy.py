"""The taxonomy: every record holds the rules, every rule can refuse one, and what runs here is what the record says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

import paceline.relaxed
from paceline import drafters, taxonomy
from paceline.couplings import COUPLINGS
from paceline.errors import UsageError
from paceline.taxonomy import Claim, Conditioning, Method
from paceline.taxonomy.page import page, told
from paceline.taxonomy.record import AXES, build
from paceline.taxonomy.rules import LEVELS, RULES, faults, faults_between

EVERY = taxonomy.methods()
EAGLE, SJD, SPEC = (taxonomy.find(name) for name in ("eagle-1", "sjd", "speculative-decoding"))
TREE, PLAIN, NGRAM = (taxonomy.find(name) for name in ("ddtree", "plain", "ngram-table"))
DREAM, DFLASH, TARGET = (taxonomy.find(name) for name in ("dream", "dflash", "tidar"))
GAIN = Claim((2.0,), "speedup", "abstract")


def shown(method: Method, **changes: Any) -> Method:
    return replace(method, conditioning=replace(method.conditioning, **changes))


def claims(*made: Claim) -> Method:
    return replace(EAGLE, claims=made)


# One broken record for each rule, by the rule's sentence.
MUTANTS: Mapping[str, Method] = {
    "a name is lower-case words joined by hyphens": replace(EAGLE, name="EAGLE 1"),
    "a record has a title": replace(EAGLE, title=" "),
    "a record rests on something": replace(EAGLE, evidence=()),
    "an arXiv id is four digits, a dot and five digits": replace(EAGLE, arxiv="2413.15077"),
    "a published method says where it is described": replace(EAGLE, arxiv=None),
    "what the house adds has no publication": replace(NGRAM, venue="ICML 2024"),
    "code is owner/repository": replace(EAGLE, code="https://github.com/SafeAILab/EAGLE"),
    "what proposes guesses has a level": replace(EAGLE, level=None),
    "what proposes guesses is of a kind": replace(EAGLE, kind=None),
    "only what proposes guesses has a level": replace(TREE, level=3),
    "the level fits the kind": replace(EAGLE, kind="block-diffusion"),
    "level 1 is autoregressive": replace(EAGLE, dependence="independent"),
    "autoregressive guesses are level 1": replace(DFLASH, dependence="autoregressive"),
    "only Jacobi kin iterates": replace(NGRAM, dependence="iterated"),
    "only Jacobi kin has a window": replace(EAGLE, structure="window"),
    "a budget tree wants positions that do not wait for each other": replace(EAGLE, structure="budget-tree"),
    "level 0 learns nothing but a table, or is the target's own training": replace(SJD, training="distilled"),
    "untrained means no training data": replace(SJD, regenerated=True),
    "nothing to show means no way to show it": shown(PLAIN, injection="rows"),
    "what is shown has a way in": shown(EAGLE, injection="none"),
    "ids and pictures enter as its own input": shown(SPEC, injection="cross-attention"),
    "only a modality that sees is shown pictures": shown(SPEC, source=("tokens", "pixels")),
    "a drafter of no amount of the picture reads no picture": shown(DREAM, amount="none"),
    "skipped checks are lossy": replace(EAGLE, verification="skipped", guarantee="approximate"),
    "a relaxed rule is not exact": replace(NGRAM, verification="relaxed"),
    "exact in distribution needs a rule that is": replace(EAGLE, verification="greedy"),
    "exact under greedy says how it checks": replace(NGRAM, verification=None),
    "a retrained target keeps no one's law": replace(TARGET, verification="greedy", guarantee="greedy-exact"),
    "visual tokens, actions and speech go with targets that write them": replace(SJD, target_type=("text",)),
    "what runs here has been executed": replace(DFLASH, evidence=("primary",)),
    "options belong to a drafter": replace(EAGLE, options=(("depth", "7"),)),
    "a drafter that runs here is a drafter's record": replace(TREE, drafter="dflash", evidence=("executed",)),
    "a gain is one positive number, or two in order": claims(replace(GAIN, gain=(3.0, 2.0))),
    "tau has no window and a ratio of forwards has none": claims(replace(GAIN, measure="tau", window="decode")),
    "only tau counts a bonus": claims(replace(GAIN, bonus=True)),
    "tau with its bonus is at least 1": claims(replace(GAIN, measure="tau", bonus=True, gain=(0.9,))),
}  # fmt: skip


def test_the_records_hold() -> None:
    axes = taxonomy.axes()
    assert {m.name: list(faults(m, axes)) for m in EVERY if list(faults(m, axes))} == {}
    assert list(faults_between(EVERY)) == []
    assert sum(m.published for m in EVERY) >= 80
    assert Counter(m.level for m in EVERY if m.role == "drafter").keys() == {0, 1, 2, 3}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.sentence)
def test_each_rule_refuses_its_mutant(rule: Any) -> None:
    assert rule.sentence in list(faults(MUTANTS[rule.sentence], taxonomy.axes()))


def test_no_rule_without_a_mutant() -> None:
    assert set(MUTANTS) == {rule.sentence for rule in RULES}


@pytest.mark.parametrize("axis", AXES)
def test_a_word_that_an_axis_lacks_is_refused(axis: str) -> None:
    """Each field of a record is held to its axis, with the nearest word offered."""
    word: Any = {"level": 7}.get(axis, "rejektion")
    many = axis in ("source", "modality", "target_type", "evidence")
    change = {axis: (word,) if many else word}
    broken = shown(EAGLE, **change) if hasattr(EAGLE.conditioning, axis) else replace(EAGLE, **change)
    found = list(faults(broken, taxonomy.axes()))
    assert any(fault.startswith(f"unknown {axis} '{word}'") for fault in found), found


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        (Claim((2.0,), "speed", "abstract"), "unknown measure 'speed'; did you mean 'speedup'?"),
        (Claim((2.0,), "speedup", "hearsay"), "unknown evidence 'hearsay'"),
        (Claim((2.0,), "speedup", "abstract", window="endtoend"), "unknown window"),
        (Claim((2.0,), "speedup", "abstract", of="median"), "unknown of 'median'"),
    ],
)
def test_a_word_that_a_claim_may_not_use(claim: Claim, says: str) -> None:
    assert any(says in fault for fault in faults(claims(claim), taxonomy.axes()))


def test_an_axis_left_empty_is_refused() -> None:
    assert any("target_type is empty" in fault for fault in faults(replace(EAGLE, target_type=()), taxonomy.axes()))


@pytest.mark.parametrize(
    ("beside", "says"),
    [
        (EAGLE, "two records have the name 'eagle-1'"),
        (replace(EAGLE, name="eagle-0", title="EAGLE-0"), "two records have the arxiv '2401.15077'"),
        (replace(EAGLE, name="eagle-0", arxiv="2401.00001"), "two records have the title 'EAGLE'"),
        (replace(SPEC, name="kin", title="Kin", arxiv="2401.00001", builds_on=("eagle1",)), "did you mean 'eagle-1'"),
        (replace(SPEC, name="kin", title="Kin", arxiv="2401.00001", builds_on=("kin",)), "kin builds on itself"),
        (
            replace(SPEC, name="kin", title="Kin", arxiv="2401.00001", claims=(replace(GAIN, against="medusae"),)),
            "did you mean 'medusa'",
        ),
    ],
)
def test_records_beside_each_other(beside: Method, says: str) -> None:
    assert any(says in fault for fault in faults_between([*EVERY, beside]))


RECORD: Mapping[str, Any] = {
    "name": "x", "title": "X", "role": "drafter", "modality": ["text"], "evidence": ["abstract"],
    "arxiv": "2401.00001", "level": 1, "kind": "small-lm",
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"levl": 1}, "unknown key of the method 'x' 'levl'; did you mean 'level'?"),
        ({"level": "1"}, "level is '1'; expected int"),
        ({"level": True}, "level is True; expected int"),
        ({"modality": "text"}, "modality is 'text'; expected tuple"),
        ({"modality": [1]}, r"modality is \[1\]; expected tuple"),
        ({"conditioning": {"sources": ["tokens"]}}, "'sources'; did you mean 'source'?"),
        ({"conditioning": {"source": "tokens"}}, "source is 'tokens'; expected tuple"),
        ({"claims": [{"gain": [2.0], "measure": "tau"}]}, "lacks grade"),
        ({"claims": [{"gain": ["2.0"], "measure": "tau", "grade": "abstract"}]}, "gain is"),
        ({"claims": ["2.0"]}, "claims is"),
        ({"arxiv": "24"}, "the method 'x': an arXiv id"),
        ({"kind": "small-ml"}, "the method 'x': unknown kind 'small-ml'; did you mean 'small-lm'?"),
    ],
)
def test_a_broken_table_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        taxonomy.read({"axes": taxonomy.axes(), "method": [{**RECORD, **change}]})


def test_a_whole_table_is_read() -> None:
    (method,) = taxonomy.read({"axes": taxonomy.axes(), "method": [RECORD]})
    assert (method.level, method.conditioning, method.claims, method.runnable) == (1, Conditioning(), (), False)
    with pytest.raises(UsageError, match="the method 'x' lacks title, role, modality, evidence"):
        build({"name": "x"})


def test_every_kind_has_its_levels() -> None:
    axes = taxonomy.axes()
    assert set(LEVELS) == set(axes["kind"])
    assert {str(level) for levels in LEVELS.values() for level in levels} == set(axes["level"])


def test_every_word_is_used() -> None:
    """A word that no record uses would be a promise about nothing; these wait for theirs."""
    used = {axis: {word for m in EVERY for word in m.words(axis) or ()} for axis in AXES}
    used["evidence"] |= {claim.grade for m in EVERY for claim in m.claims}
    unused = {axis: set(taxonomy.axes()[axis]) - words for axis, words in used.items()}
    waiting = {"evidence": {"thread"}, "target_type": {"native"}}
    assert {axis: words for axis, words in unused.items() if words} == waiting


def test_records_and_drafters_are_in_step() -> None:
    """Every drafter of the table has a record that says of its level and training what its class says, and back."""
    linked = {m.drafter for m in EVERY if m.drafter is not None}
    assert linked == set(drafters.METHODS), 'link each drafter from its record: drafter = "…" in methods.toml'
    wrong = [m.name for m in EVERY if m.drafter is not None and not agrees(m, drafters.method(m.drafter))]
    assert wrong == []


def agrees(method: Method, made: Any) -> bool:
    """Whether a record says of level and training what the class says."""
    return (method.level, method.training not in (None, "none")) == (made.level, made.trained)


@pytest.mark.parametrize("break_it", [lambda m: replace(m, level=1), lambda m: replace(m, training="distilled")])
def test_a_record_out_of_step_is_seen(break_it: Callable[[Method], Method]) -> None:
    assert agrees(SJD, drafters.method("jacobi"))
    assert not agrees(break_it(SJD), drafters.method("jacobi"))


def settles(thing: Any) -> bool:
    """Whether this is a rule of the module of relaxed rules."""
    return isinstance(thing, type) and hasattr(thing, "settle") and thing.__module__ == "paceline.relaxed"


def test_records_and_couplings_are_in_step() -> None:
    exact = {name for name, rule in COUPLINGS.items() if rule.exact}
    relaxed = {f"paceline.relaxed:{name}" for name, rule in vars(paceline.relaxed).items() if settles(rule)}
    linked = {m.coupling for m in EVERY if m.coupling is not None}
    assert linked == set(COUPLINGS) | relaxed, 'link each coupling from its record: coupling = "…" in methods.toml'
    assert len(relaxed) >= 2
    for method in EVERY:
        if method.coupling is not None:
            told_exact = method.guarantee in ("greedy-exact", "distribution-exact")
            assert told_exact == (method.coupling in exact), method.name


def test_options_are_the_drafters_own() -> None:
    for method in EVERY:
        if method.options:
            made = drafters.method(method.drafter or "")(**dict(method.options))
            assert {key: getattr(made, key) for key, _ in method.options} == dict(method.options)


def test_select() -> None:
    names = {m.name for m in taxonomy.select(EVERY, {"level": ["3"], "modality": ["image", "video"]})}
    assert {"glance", "vdflash"} <= names
    assert not names & {"dflash", "dream"}
    assert taxonomy.select(EVERY, {}) == list(EVERY)
    assert {m.name for m in taxonomy.select(EVERY, {"source": ["unknown"]})}.isdisjoint({"dream", "dflash", "plain"})
    assert all(m.runnable for m in taxonomy.select(EVERY, {}, runnable=True))
    with pytest.raises(UsageError, match="unknown axis 'levle'; did you mean 'level'"):
        taxonomy.select(EVERY, {"levle": ["3"]})
    with pytest.raises(UsageError, match="unknown target type 'nativ'; did you mean 'native'"):
        taxonomy.select(EVERY, {"target_type": ["nativ"]})


def test_the_page_names_every_record_claim_and_word() -> None:
    text = page()
    assert [m.name for m in EVERY if f"`{m.name}`" not in text] == []
    assert [claim for m in EVERY for claim in m.claims if told(claim) not in text] == []
    assert [word for axis in AXES for word in taxonomy.axes()[axis] if f"| {word} |" not in text] == []


def test_a_claim_tells_its_convention() -> None:
    assert told(Claim((1.8,), "speedup", "code", of="mean", on="Qwen")) == (
        "1.80× speedup (mean; Qwen; window not stated; code)"
    )
    assert told(Claim((2.24,), "tau", "code", bonus=False)) == "2.24 tau (bonus not counted; code)"
    assert told(Claim((5.0,), "tau", "code")) == "5.00 tau (bonus not stated; code)"
    assert told(Claim((1.1, 1.3), "tau", "code", against="dflash")) == "1.10 to 1.30× tau (over dflash; code)"
