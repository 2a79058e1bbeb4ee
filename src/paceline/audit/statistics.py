"""Tests of laws: chi-square of two samples or of one against exact chances, and ranks of tokens under their laws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

LEAST = 5.0  # expected count of a cell; rarer ones are pooled
BINS = 10


@dataclass(frozen=True, slots=True)
class ChiSquare:
    """A chi-square statistic; several of them add up."""

    statistic: float = 0.0
    freedom: int = 0

    def __add__(self, other: ChiSquare) -> ChiSquare:
        return ChiSquare(self.statistic + other.statistic, self.freedom + other.freedom)

    @property
    def pvalue(self) -> float:
        """Chance of a statistic this large if the laws are equal; 1 without freedom."""
        if self.freedom == 0:
            return 1.0
        half = torch.tensor([self.freedom / 2, self.statistic / 2], dtype=torch.float64)
        return float(torch.special.gammaincc(half[0], half[1]))


def two_samples(ours: Sequence[Hashable], theirs: Sequence[Hashable]) -> ChiSquare:
    """Homogeneity of two samples of words; words too rare to count are pooled."""
    mine, other = Counter(ours), Counter(theirs)
    n, m = len(ours), len(theirs)
    common = [w for w in mine | other if (mine[w] + other[w]) * min(n, m) / (n + m) >= LEAST]
    cells = [(mine[word], other[word]) for word in common]
    rest = (n - sum(a for a, _ in cells), m - sum(b for _, b in cells))
    if sum(rest) * min(n, m) / (n + m) >= LEAST:
        cells.append(rest)
    if len(cells) < 2:
        return ChiSquare()
    total = 0.0
    for a, b in cells:
        for seen, size in ((a, n), (b, m)):
            hoped = (a + b) * size / (n + m)
            total += (seen - hoped) ** 2 / hoped
    return ChiSquare(total, len(cells) - 1)


def against(ours: Sequence[Hashable], chances: Mapping[Hashable, float]) -> ChiSquare:
    """Fit of a sample of words to their exact chances. A word without a chance makes it infinite."""
    seen, n = Counter(ours), len(ours)
    if any(chances.get(word, 0.0) == 0.0 for word in seen):
        return ChiSquare(math.inf, 1)
    common = [word for word, chance in chances.items() if chance * n >= LEAST]
    cells = [(seen[word], chances[word] * n) for word in common]
    rest = (n - sum(a for a, _ in cells), n - sum(b for _, b in cells))
    if rest[1] > 1e-9 * n:
        cells.append(rest)
    return ChiSquare(sum((a - b) ** 2 / b for a, b in cells), max(0, len(cells) - 1))


def total_variation(ours: Sequence[Hashable], chances: Mapping[Hashable, float]) -> float:
    """Half the sum of differences between a sample's shares and the exact chances; biased upwards by its noise."""
    seen, n = Counter(ours), len(ours)
    return 0.5 * sum(abs(seen[word] / n - chances.get(word, 0.0)) for word in {*seen, *chances})


@dataclass(frozen=True, slots=True)
class Ranks:
    """Tokens under the laws that they should be drawn from: uniform ranks, surprise as large as the entropy."""

    ranks: Sequence[float]  # of each token in its law, in [0, 1]: uniform if it was drawn from it
    surprise: float  # sum of -log p(token) - entropy
    variance: float  # of that sum
    impossible: int  # tokens of probability zero

    @property
    def uniform(self) -> ChiSquare:
        counts = Counter(min(int(rank * BINS), BINS - 1) for rank in self.ranks)
        hoped = len(self.ranks) / BINS
        if hoped < LEAST:
            return ChiSquare()
        return ChiSquare(sum((counts[k] - hoped) ** 2 / hoped for k in range(BINS)), BINS - 1)

    @property
    def z(self) -> float:
        """Surprise in standard deviations: negative where texts are too likely."""
        return self.surprise / math.sqrt(self.variance) if self.variance > 0 else 0.0

    @property
    def pvalue(self) -> float:
        """Of the worse of both tests, corrected for there being two; 0 with an impossible token."""
        if self.impossible:
            return 0.0
        normal = math.erfc(abs(self.z) / math.sqrt(2)) if self.variance > 0 else 1.0
        return min(1.0, 2 * min(normal, self.uniform.pvalue))


def ranks_of(laws: Tensor, tokens: Sequence[int], generator: torch.Generator) -> Ranks:
    """Where each token stands in its law, ids from likely to unlikely, at random within its own share. laws: [n, V]."""
    p = laws.double()
    chosen = p.gather(1, torch.tensor(list(tokens), device=p.device)[:, None])[:, 0].cpu()
    above = torch.where(p > chosen.to(p.device)[:, None], p, 0.0).sum(1).cpu()
    noise = torch.rand(len(chosen), generator=generator, dtype=torch.float64)
    logs = torch.where(p > 0, p, 1.0).log()
    entropy = -(p * logs).sum(1).cpu()
    spread = (p * logs**2).sum(1).cpu() - entropy**2
    real = (chosen > 0) & (entropy > 1e-6)
    surprise = (-chosen.where(chosen > 0, 1.0).log() - entropy)[real].sum()
    ranks = (above + noise * chosen)[real]
    return Ranks(ranks.tolist(), float(surprise), float(spread[real].sum()), int((chosen == 0).sum()))


def pooled(parts: Sequence[Ranks]) -> Ranks:
    """The ranks of several texts together."""
    return Ranks(
        [rank for part in parts for rank in part.ranks],
        sum(part.surprise for part in parts),
        sum(part.variance for part in parts),
        sum(part.impossible for part in parts),
    )
