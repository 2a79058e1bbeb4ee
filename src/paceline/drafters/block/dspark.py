"""DSpark: DFlash's block, a Markov head by which a guess knows the one before it, a head that knows when to stop.

Block and keys are DFlash's; the anchor's row guesses too, so that a block of n rows has n guesses (arXiv 2607.05147).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from paceline import law as laws
from paceline.core import Draft, Rule, Shared, Verdict
from paceline.dice import Dice
from paceline.drafters.block.anchors import at_rows, draw_anchors, rows_behind, runs, shares
from paceline.drafters.block.best_first import Lattice, along, candidates, chances, likeliest
from paceline.drafters.block.dflash import BlockNet, DFlash, DFlashConfig
from paceline.drafters.lesson import Lesson, Loss
from paceline.errors import UsageError
from paceline.law import Law, Point


@dataclass(frozen=True, slots=True)
class DSparkConfig(DFlashConfig):
    """DFlash's, the rank of the Markov head, and how the three losses are weighed."""

    rank: int = 64  # published: 256, for vocabularies of 150,000
    right: float = 0.1  # weight of the cross-entropy
    near: float = 0.9  # of the distance between drafter's and target's law, |p - q| summed
    sure: float = 1.0  # of the confidence head's cross-entropy

    def __post_init__(self) -> None:
        DFlashConfig.__post_init__(self)
        if self.rank < 1 or min(self.right, self.near, self.sure) < 0:
            raise UsageError(f"rank must be 1 or more, weights 0 or more; got {self.rank}, {self.right}, {self.near}, "
                             f"{self.sure}")  # fmt: skip


class SparkNet(BlockNet):
    """DFlash's net with two heads that look at the token before a guess."""

    def __init__(self, width: int, config: DSparkConfig, vocab_size: int) -> None:
        super().__init__(width, config)
        self.before = nn.Embedding(vocab_size, config.rank)
        self.after = nn.Linear(config.rank, vocab_size, bias=False)
        self.confidence = nn.Linear(width + config.rank, 1)

    def bias(self, before: Tensor) -> Tensor:
        """[..., V] to be added to the logits of a guess behind these tokens. before: [...] int64."""
        return self.after(self.before(before))

    def sure(self, hidden: Tensor, before: Tensor) -> Tensor:
        """[...] log-odds that the guess of this state behind this token is accepted. hidden: [..., H]."""
        return self.confidence(torch.cat([hidden, self.before(before)], -1))[..., 0]


@dataclass(frozen=True, slots=True)
class DSpark(DFlash):
    """As DFlash, but guesses are made one behind the other, and a chain ends where it is likely to have failed.

    Whether there is a guess at a place is decided by the guesses before it and by the state that its law is made of,
    never by the guess itself: a drawn block that is cut by what it holds would bend the outcome under Maximal.
    """

    least: float = 0.0  # chance to get this far, by the confidence head, below which a chain ends; 0: never

    first: ClassVar[int] = 0
    Config: ClassVar[type[DSparkConfig]] = DSparkConfig

    def __post_init__(self) -> None:
        DFlash.__post_init__(self)
        if not 0 <= self.least <= 1:
            raise UsageError(f"least is {self.least}; it must be a chance, 0 … 1")

    @classmethod
    def made(cls, shared: Shared, config: Any) -> SparkNet:
        """The net of this config, with weights as torch makes them."""
        return SparkNet(shared.width, config, shared.vocab_size)

    def guess(self, hidden: Tensor, verdict: Verdict, rule: Rule) -> Draft:
        """The draft of one pass. hidden: [B, K, H], of the rows that guess."""
        if self.nodes:
            return likeliest(self.lattice(hidden, verdict, rule), self.nodes)
        net, logits, before = self.spark, self.shared.head(hidden), verdict.root
        odds, on = hidden.new_ones(len(hidden)), torch.ones_like(before, dtype=torch.bool)
        tokens, given = list[Tensor](), list[Law]()
        for k in range(hidden.shape[1]):
            if self.least:
                odds = odds * net.sure(hidden[:, k], before).sigmoid()
                on = on & (odds >= self.least) if k else on
                if not bool(on.any()):
                    break
            given.append(rule.law(logits[:, k] + net.bias(before)))
            before = rule.coupling.propose(given[-1], 1, verdict.dice.ahead(k))[:, 0]
            tokens.append(before.where(on, -1))
        drawn = None if isinstance(given[0], Point) else laws.stack([*given, given[-1]])
        return Draft.chain(torch.stack(tokens, 1), drawn)

    @property
    def spark(self) -> SparkNet:
        """The net, as what it is."""
        assert isinstance(self.net, SparkNet)
        return self.net

    def lattice(self, hidden: Tensor, verdict: Verdict, rule: Rule) -> Lattice:
        """Candidates of each place behind the best of the place before, scored behind each of them."""
        logits, dice = self.shared.head(hidden), along(verdict.dice, hidden.shape[1])
        before, found = verdict.root, list[Tensor]()
        for k in range(hidden.shape[1]):
            z = logits[:, k] + self.spark.bias(before)
            found.append(candidates(z, rule.law(z), rule, verdict.dice.ahead(k), self.width))
            before = found[-1][:, 0]
        ids = torch.stack(found, 1)
        wide = verdict.root[:, None, None].expand(-1, 1, ids.shape[2])
        return Lattice(ids, self._score(logits, torch.cat([wide, ids[:, :-1]], 1).clamp(min=0), ids, rule, dice))

    def _score(self, logits: Tensor, before: Tensor, ids: Tensor, rule: Rule, dice: Dice) -> Tensor:
        """[B, K, P, C] log-chances of ids [B, K, C] behind tokens before [B, K, P]. logits: [B, K, V]."""
        z = logits[:, :, None] + self.spark.bias(before)
        after = ids[:, :, None].expand(-1, -1, before.shape[2], -1)
        return chances(z, rule.law(z), after, rule, replace(dice, position=dice.position[..., None]))

    def loss(self, lesson: Lesson, generator: torch.Generator) -> Loss:
        """Cross-entropy, distance of laws and the confidence's cross-entropy, weighed place by place as in DFlash.

        What the confidence head learns is the acceptance rate under Maximal, 1 - |p - q| / 2.
        """
        anchors, config = draw_anchors(lesson, self.config.anchors, generator), self.config
        assert isinstance(config, DSparkConfig)
        rows = rows_behind(lesson, anchors, config.block_size)
        labels = at_rows(lesson.labels, rows)
        asked = labels >= 0
        before = torch.cat([lesson.rows.ids.gather(1, anchors.clamp(min=0))[..., None], labels[..., :-1]], 2)[asked]
        hidden = self.taught(lesson, anchors)[asked]
        logits = self.shared.head(hidden) + self.spark.bias(before)
        far = (logits.softmax(-1) - target_law(lesson, rows)[asked]).abs().sum(-1)
        rate = 1 - far.detach() / 2
        doubt = F.binary_cross_entropy_with_logits(self.spark.sure(hidden, before), rate, reduction="none")
        found = config.right * F.cross_entropy(logits, labels[asked], reduction="none") + config.near * far
        value = ((found + config.sure * doubt) * shares(asked, config.decay)[asked]).sum()
        logged = {name: _at_first(found, asked) for name, found in (("rate", rate), ("doubt", doubt))}
        return Loss(value, int(asked[..., 0].sum()), runs(logits, labels) | logged)


def target_law(lesson: Lesson, rows: Tensor) -> Tensor:
    """[B, A, places, V]; the target's probabilities behind the tokens of these rows, anything where rows are -1."""
    where = lesson.labels >= 0
    number = (where.flatten().cumsum(0) - 1).view_as(where)
    probs = lesson.target_logits(where).softmax(-1)
    return probs[at_rows(number, rows, 0)]


def _at_first(values: Tensor, asked: Tensor) -> float:
    """The sum of those values [n] that belong to first places. asked: [B, A, places] bool, n of them True."""
    first = torch.zeros_like(asked)
    first[..., 0] = True
    return float(values.detach()[first[asked]].sum())
