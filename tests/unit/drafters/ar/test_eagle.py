"""EAGLE-3 by the numbers of its paper, and trained as it drafts: teacher-forced logits are the drafting logits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from paceline.conditioning import Full, Recent, TextOnly
from paceline.core import Draft, Prompt, Rule, decode
from paceline.dice import Dice
from paceline.drafters.ar import growth
from paceline.drafters.ar.eagle import Eagle, EagleConfig, EagleNet, Queries, three_layers, unroll
from paceline.errors import UsageError
from paceline.law import Law
from paceline.sampling import Sampling
from paceline.targets import load_target
from paceline.train.taps import Talk, lesson, needs_of, tap
from unit.targets.tiny import tiny
from unit.train.test_taps import TWO, deep


def test_the_published_layer_rule() -> None:
    assert three_layers(32) == (2, 16, 29)
    assert three_layers(10) == (2, 5, 7)
    assert three_layers(8) == (2, 4, 5)
    with pytest.raises(UsageError, match=r"\(2, 3, 3\) for a target of 6 layers"):
        three_layers(6)


def test_parameters_by_arithmetic() -> None:
    """fc 3H -> H, attention reading 2H, SwiGLU, five norms, and the head of a draft vocabulary of 32 000."""
    H, F, V = 4096, 14336, 32_000
    config = EagleConfig(layers=(2, 16, 29), heads=32, groups=8, feed_forward=F, draft_vocab=V)
    with torch.device("meta"):
        net = EagleNet(H, config, 128_256)
    attention = 2 * H * H + 2 * (2 * H * H // 4) + H * H
    assert sum(p.numel() for p in net.parameters()) == 3 * H * H + attention + 3 * H * F + 4 * H + V * H


def test_loss_weights_and_alignment() -> None:
    """Step j weighs 0.8^j and learns the token j + 1 further on; the sum is recomputed from single softmaxes."""
    target = deep()
    drafter = Eagle.tiny(target)
    made = lesson(tap(target, [TWO], needs_of([drafter], target.shared)), drafter)
    queries = Queries.of(made)
    assert queries.row[0].tolist() == [5, 6, 7, 9, 10]
    assert queries.ahead(1)[0].tolist() == [6, 7, -1, 10, -1]
    assert queries.ahead(2)[0].tolist() == [7, -1, -1, -1, -1]
    with torch.no_grad():
        states, logits = unroll(drafter, made, queries), target.shared.head(made.at[8][0])
    total = 0.0
    for j, state in enumerate(states):
        for q, row in enumerate(queries.ahead(j)[0].tolist()):
            if row >= 0:
                own = drafter.net.logits(state[0, q], target.shared).detach().log_softmax(-1)
                total -= 0.8**j * float(logits[row].softmax(-1) @ own)
    loss = drafter.loss(made, torch.Generator())
    assert loss.terms == 5
    assert float(loss.value.detach()) == pytest.approx(total, rel=1e-5)


def test_a_reduced_vocabulary_learns_only_what_it_can_say() -> None:
    target = deep()
    drafter = Eagle.create(target.shared, EagleConfig(heads=2, groups=1, draft_vocab=30, unroll=1), Full(), seed=1)
    drafter.speak(torch.arange(128) % 97)
    chosen = drafter.net.ids()
    assert chosen is not None
    assert chosen.tolist() == sorted((torch.arange(128) % 97).topk(30).indices.tolist())
    made = lesson(tap(target, [TWO], needs_of([drafter], target.shared)), drafter)
    queries = Queries.of(made)
    with torch.no_grad():
        states, logits = unroll(drafter, made, queries), target.shared.head(made.at[8][0])
    total = 0.0
    for q, row in enumerate(queries.row[0].tolist()):
        if int(logits[row].argmax()) in chosen.tolist():
            own = drafter.net.logits(states[0][0, q], target.shared).detach().log_softmax(-1)
            total -= float(logits[row, chosen].softmax(-1) @ own)
    assert float(drafter.loss(made, torch.Generator()).value.detach()) == pytest.approx(total, rel=1e-5)


@dataclass(frozen=True)
class Told:
    """Guesses are the text itself up to each position in `slips`, and outcomes always are."""

    text: Tensor  # [B, T]
    slips: tuple[int, ...]
    exact = True

    def propose(self, q: Law, width: int, dice: Dice) -> Tensor:
        right = self.text.gather(1, dice.position[:, None].clamp(max=self.text.shape[1] - 1))
        slip = torch.isin(dice.position, torch.tensor(self.slips))[:, None]
        return torch.where(slip, (right + 1) % 100, right)

    def outcome_law(self, p: Law, x: Tensor, q: Law | None) -> Law:
        return p

    def settle(self, p: Law, x: Tensor, q: Law | None, dice: Dice) -> Tensor:
        return self.text.gather(1, dice.position.clamp(max=self.text.shape[1] - 1))


@pytest.mark.parametrize("how", [Full(), TextOnly(), Recent(4)], ids=lambda how: how.spec)
@pytest.mark.parametrize("name", ["deep", "idefics3"])
def test_drafting_logits_are_the_teacher_forced_ones(name: str, how: Any) -> None:
    """Replayed along a text with slips: the logits of every pass are those of the training-time test at its row."""
    if name == "deep":
        target, prompt = deep(), Prompt(torch.tensor([5, 6, 7, 8, 9, 10, 11]))
    else:
        made = tiny(name)
        target, prompt = load_target(made.model), made.prompts()[0]
    answer = torch.randint(3, 99, (24,), generator=torch.Generator().manual_seed(1))
    config = EagleConfig(layers=(1, 2, 3), heads=2, groups=1, feed_forward=24, unroll=4)
    drafter = replace(Eagle.create(target.shared, config, how, seed=3), depth=4, drawn=True)
    lines = lesson(tap(target, [Talk("t", (prompt,), (answer,))], needs_of([drafter], target.shared)), drafter)
    queries = Queries.of(lines)
    states = unroll(drafter, lines, queries)
    place = {int(lines.rows.position[0, r]): i for i, r in enumerate(queries.row[0].tolist())}
    laws: list[Tensor] = []

    def law(logits: Tensor) -> Law:
        if logits.dim() == 2:  # a drafter's; the target's come with nodes
            laws.append(logits[0])
        return Sampling(temperature=1).law(logits)

    text = torch.cat([prompt.ids, answer])[None]
    slips = tuple(len(prompt.ids) + i for i in (3, 4, 9, 15))
    compared, before = 0, 0
    for verdict in decode(target, drafter, Rule(law, Told(text, slips)), [prompt], torch.tensor([0])):
        told, laws = laws, []
        if before:
            for j in range(min(drafter.depth, 4)):
                at = before - 1  # position of the root
                wrong = any(p in slips for p in range(before, before + j))  # a guess above this pass left the text
                if not wrong and at + j < int(lines.rows.position.max()):
                    torch.testing.assert_close(
                        told[j], drafter.net.logits(states[j][0, place[at]], target.shared), rtol=1e-6, atol=1e-7
                    )
                    compared += 1
        before = int(verdict.dice.position[0])
        if before >= len(text[0]) - 1:
            break
    assert compared >= 15


def test_a_tree_pass_equals_the_pass_of_its_path() -> None:
    """What a node's pass says does not depend on its neighbours: a wide tree holds the narrow one's path and scores."""
    target = deep()
    wide = replace(Eagle.tiny(target), depth=4, width=3, nodes=20)
    narrow = replace(wide, width=1, nodes=4)
    prompt, found = Prompt(torch.tensor([5, 6, 7, 8])), list[list[Draft]]()
    for drafter in (wide, narrow):
        rounds = decode(target, drafter, Rule(Sampling().law, growth.Gumbel()), [prompt], torch.tensor([0]))
        found.append([next(rounds).draft for _ in range(8)])
    greedy = found[1][1]
    tree = found[0][1]
    here = 0
    for token in greedy.tokens[0].tolist():  # the narrow chain is a path of the wide tree
        below = [i for i in range(tree.tokens.shape[1]) if int(tree.parent[0, i]) == here]
        assert token in tree.tokens[0, below].tolist()
        here = 1 + next(i for i in below if int(tree.tokens[0, i]) == token)
    assert tree.tree.depth[0].max() == 4


def test_a_tree_hangs_together_when_scores_tie() -> None:
    """Children as likely as their parent come after it: ties keep the order of creation."""

    def pick(logits: Tensor, width: int, level: int) -> tuple[Tensor, Tensor]:
        ids = torch.arange(width).expand(*logits.shape[:2], width)
        return ids, torch.zeros(*ids.shape)

    tokens, shape = growth.grow(
        torch.zeros(2, 5), lambda ids, came, shape, start: torch.zeros(*ids.shape, 5), pick, 4, 3, 6
    )
    assert tokens.shape == (2, 6)
    assert bool((shape.parent <= torch.arange(6)).all())


@pytest.mark.parametrize(
    ("change", "said"),
    [({"heads": 3}, "multiple"), ({"draft_vocab": 999}, "at most"), ({"layers": (1, 2, 40)}, "has 0")],
)
def test_a_config_that_does_not_fit_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Eagle.create(deep().shared, EagleConfig(**{"groups": 1, "heads": 2, **change}), Full())
