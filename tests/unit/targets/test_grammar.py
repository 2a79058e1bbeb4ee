"""Guidance, then row grammar, then the law, as in transformers, at every node of a window; with faults planted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
import torch
import transformers as T
from torch import Tensor

from paceline.core import Draft, Needs, Prompt, Rule, decode
from paceline.couplings import Gumbel, Maximal
from paceline.drafters.free.lookup import Lookup
from paceline.errors import UsageError
from paceline.layout import Layout
from paceline.sampling import Sampling
from paceline.targets import grammar, guided
from paceline.targets.glm_image import GridSession
from paceline.targets.grammar import Grammar, GrammarSession
from paceline.targets.guided import Guided, GuidedSession
from paceline.targets.table import TableTarget
from paceline.tree import of
from unit.targets.drawn import drawn
from unit.targets.test_drawn import answer, reference

LINES = Layout.raster(2, 2, codes=(2, 6), line_end=7, tail=(1,))  # c c 7 c c 7 1


def test_grammar_leaves_what_may_stand() -> None:
    logits = torch.randn(1, 9, 8, dtype=torch.float64)
    masked = Grammar.of(LINES, logits)(logits, torch.arange(9)[None])[0]
    alive = [row.isfinite().nonzero()[:, 0].tolist() for row in masked]
    codes, anything = [2, 3, 4, 5], list(range(8))
    assert alive == [codes, codes, [7], codes, codes, [7], [1], anything, anything]
    assert torch.equal(masked.where(masked.isfinite(), 0), logits[0].where(masked.isfinite(), 0))


def test_grammar_that_allows_all_is_left_out() -> None:
    assert drawn("janus").target.ruled
    session, _, _ = drawn("janus").target.open(drawn("janus").prompts())
    assert not isinstance(session, GrammarSession)
    assert isinstance(drawn("emu3").target.open(drawn("emu3").prompts())[0], GrammarSession)


def _processed(logits: Tensor, order: tuple[str, ...]) -> Tensor:
    """Laws of transformers' own processors, in this order, for what follows four tokens of a line."""
    made = {
        "grammar": T.PrefixConstrainedLogitsProcessor(lambda _, said: list(range(2, 6)), 1),
        "temperature": T.TemperatureLogitsWarper(0.7),
        "top_k": T.TopKLogitsWarper(3),
        "top_p": T.TopPLogitsWarper(0.9),
    }
    return T.LogitsProcessorList([made[name] for name in order])(torch.zeros(len(logits), 4), logits).softmax(-1)  # type: ignore[arg-type]


def test_grammar_comes_before_temperature_and_top_k() -> None:
    """Mutant: after them. What top-k kept may be few codes or none."""
    logits = torch.randn(400, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    masked = Grammar.of(LINES, logits)(logits[None], torch.zeros(1, 400, dtype=torch.long))
    ours = Sampling(temperature=0.7, top_k=3, top_p=0.9).law(masked).dense(8)[0]
    own = _processed(logits, ("grammar", "temperature", "top_k", "top_p"))
    torch.testing.assert_close(ours, own, atol=1e-12, rtol=0)
    late = _processed(logits, ("temperature", "top_k", "top_p", "grammar"))
    distance = (ours - late).abs().sum(-1) / 2
    assert float(distance.mean()) > 0.05


def test_guidance_comes_before_the_grammar() -> None:
    """Mutant: guidance on masked logits is infinity minus infinity."""
    logits = torch.randn(2, 3, 8, dtype=torch.float64)
    rules, at = Grammar.of(LINES, logits), torch.arange(3)[None]
    from paceline.core import Pass

    right = rules(guided.combine(Pass(logits), 3.0).logits, at)
    assert not right.isnan().any()
    wrong = guided.combine(Pass(rules(logits, at.expand(2, 3))), 3.0).logits
    assert wrong.isnan().any()


# Faults ---------------------------------------------------------------------------------------------------------------


def depth_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Every node is judged by the committed prefix, as a processor that reads `input_ids` would judge a window."""

    def forward(self: GrammarSession, root: Tensor, draft: Draft, start: int = 0) -> Any:
        seen = self.inner.forward(root, draft, start)
        offset = (self.length - self._prompt)[:, None] + 1
        return replace(seen, logits=self.grammar(seen.logits, offset.expand(seen.logits.shape[:2])))

    patch.setattr(GrammarSession, "forward", forward)


def one_late(patch: pytest.MonkeyPatch) -> None:
    """Offsets are one too large."""
    right = Grammar.__call__
    patch.setattr(Grammar, "__call__", lambda self, logits, offset: right(self, logits, offset + 1))


def grammar_lost(patch: pytest.MonkeyPatch) -> None:
    """The grammar is never applied."""
    patch.setattr(grammar.Grammar, "__call__", lambda self, logits, offset: logits)


def halves_swapped(patch: pytest.MonkeyPatch) -> None:
    """Guidance leads towards the unconditional half."""
    right = guided.combine

    def swapped(seen: Any, scale: float) -> Any:
        return right(replace(seen, logits=torch.cat(seen.logits.chunk(2)[::-1])), scale)

    patch.setattr(guided, "combine", swapped)


def scale_lost(patch: pytest.MonkeyPatch) -> None:
    """The conditional half alone."""
    right = guided.combine
    patch.setattr(guided, "combine", lambda seen, scale: right(seen, 1.0))


def positions_counted_on(patch: pytest.MonkeyPatch) -> None:
    """Codes stand at sequence indices, not at their place in the grid."""
    patch.setattr(GridSession, "positions", lambda self, index: index.expand(3, -1, -1))


FAULTS: Mapping[str, tuple[Callable[[pytest.MonkeyPatch], None], str, float]] = MappingProxyType({
    "depth forgotten": (depth_forgotten, "emu3", 1.0),
    "one late": (one_late, "emu3", 1.0),
    "grammar lost": (grammar_lost, "lumina", 1.0),
    "halves swapped": (halves_swapped, "emu3", 2.5),
    "scale lost": (scale_lost, "janus", 2.5),
    "positions counted on": (positions_counted_on, "glm_image", 1.0),
})  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_fault_changes_the_codes(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, name, scale = FAULTS[fault]
    wanted = [list(row) for row in reference(name, scale)]
    target = drawn(name).target.guided(scale)
    assert answer(target, name, wanted, "chain")[0] == wanted
    plant(monkeypatch)
    assert answer(target, name, wanted, "chain")[0] != wanted


# Sessions -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [None, "keep", "join"])
def test_rows_that_leave_and_join_go_on_as_they_would_alone(fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guided and ruled rows of unlike age. Mutants: rows kept without their own prompt lengths; twins left in place."""
    if fault == "keep":
        monkeypatch.setattr(GrammarSession, "keep", _keep_first)
    if fault == "join":
        monkeypatch.setattr(GuidedSession, "join", lambda self, other: self.inner.join(other.inner))
    target, prompts = drawn("emu3").target.guided(2.0), drawn("emu3").prompts()
    codes = torch.randint(30, 70, (3, 8), generator=torch.Generator().manual_seed(1))
    alone = [_grown(target, [prompt], codes[i : i + 1])[0] for i, prompt in enumerate(prompts)]
    both, _ = _grown(target, prompts[:2], codes[:2])
    late, _ = _grown(target, prompts[2:], codes[2:])
    both.join(late)
    both.keep(torch.tensor([2, 1]))
    got = _next(both, codes[[2, 1]])
    wanted = torch.cat([_next(alone[2], codes[2:]), _next(alone[1], codes[1:2])])
    same = got.shape == wanted.shape and torch.allclose(got, wanted, atol=1e-9)
    assert same == (fault is None)


def _keep_first(self: GrammarSession, rows: Tensor) -> None:
    self.inner.keep(rows)
    self._prompt = self._prompt[: len(rows)]


def _grown(target: Any, prompts: list[Prompt], codes: Tensor) -> tuple[Any, Any]:
    """A session with the first codes of each row committed."""
    session, context, _ = target.open(prompts)
    n = len(prompts)
    session.commit(torch.zeros(n, 1, dtype=torch.long), torch.ones(n, dtype=torch.long))
    session.forward(codes[:, 0], Draft.chain(codes[:, 1:4]))
    session.commit(torch.arange(4).expand(n, 4), torch.tensor([1 + len(prompt.ids) % 3 for prompt in prompts]))
    return session, context


def _next(session: Any, codes: Tensor) -> Tensor:
    shape = of(torch.tensor([[0, 0, 2, 3]]))
    return session.forward(codes[:, 4], Draft(codes[:, 4:8], shape)).logits


def _table() -> TableTarget:
    return TableTarget(torch.randn(4, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 1.5)


def _twin(prompt: Prompt) -> Prompt:
    return Prompt(torch.tensor([0, 0]))


@pytest.mark.parametrize("coupling", [Gumbel(), Maximal()])
def test_guided_laws_are_exact_at_every_node(coupling: Any) -> None:
    """p = softmax(u + s (c - u)) with both tables read behind their own prompts, for any target, under any drafter."""
    inner, scale = _table(), 1.75
    target = Guided(inner, _twin, scale)
    prompts = [Prompt(torch.tensor([1, 2, 3, 1, 2])), Prompt(torch.tensor([3, 3]))]
    rule = Rule(Sampling(temperature=1.0).law, coupling)
    texts = [[*prompt.ids.tolist()] for prompt in prompts]
    frees = [[0, 0], [0, 0]]
    for number, verdict in enumerate(decode(target, Lookup(), rule, prompts, torch.tensor([1, 2]))):
        for row in range(2):
            path = verdict.path[row][: int(verdict.length[row])].tolist()
            for column, token in zip(path, verdict.tokens[row].tolist(), strict=False):
                c, u = inner.table[*texts[row][-2:]], inner.table[*frees[row][-2:]]
                wanted = (u + scale * (c - u)).softmax(-1)
                torch.testing.assert_close(verdict.law.dense(4)[row, column], wanted)
                texts[row].append(token)
                frees[row].append(token)
        if number == 12:
            break
    assert verdict.draft.tokens.shape[1] > 0


def test_guided_context_and_features_are_those_of_the_prompts() -> None:
    inner = _table()
    prompts = [Prompt(torch.tensor([1, 2])), Prompt(torch.tensor([3, 2]))]
    needs = Needs(layers=(1, 2), embeddings=True, scores=True)
    longer = Guided(inner, lambda prompt: Prompt(torch.tensor([0, 1, 2, 3, 0])), 2.0)
    _, context, seen = longer.open(prompts, needs)
    _, own, alone = inner.open(prompts, needs)
    for name in ("ids", "valid", "image", "embeddings", "features", "scores"):
        assert torch.equal(getattr(context, name), getattr(own, name)), name
    assert context.prompts == own.prompts
    assert seen.features is not None
    assert alone.features is not None
    assert torch.equal(seen.features, alone.features)


def test_rows_under_unlike_guidance_are_not_joined() -> None:
    prompts = [Prompt(torch.tensor([1, 2]))]
    session, _, _ = Guided(_table(), _twin, 2.0).open(prompts)
    other, _, _ = Guided(_table(), _twin, 3.0).open(prompts)
    with pytest.raises(UsageError, match="guidance 2 and 3"):
        session.join(other)
