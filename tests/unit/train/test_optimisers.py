"""Muon: singular values go to about one; matrices go there and nothing else does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from paceline.train import optimisers


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 5, 17), (2, 17, 5)])
def test_orthogonalised_matrices_have_singular_values_near_one(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(optimisers.orthogonalise(matrices, 5))
    assert values.min() > 0.3
    assert values.max() < 1.4


def test_embeddings_tied_head_and_vectors_stay_with_adamw() -> None:
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 3), nn.Linear(3, 5, bias=False))
    model[2].weight = nn.Parameter(torch.zeros(5, 3))
    head = nn.Linear(4, 5, bias=False)
    head.weight = model[0].weight
    tied = nn.ModuleDict({"body": model, "head": head})
    adamw, muon = optimisers.build(tied, "muon", 1e-3, (0.9, 0.95), 0.1)
    names = {id(p): name for name, p in tied.named_parameters()}
    owned = [{names[id(p)] for group in o.param_groups for p in group["params"]} for o in (adamw, muon)]
    assert owned == [{"body.0.weight", "body.1.bias"}, {"body.1.weight", "body.2.weight"}]
    assert [group["weight_decay"] for group in adamw.param_groups] == [0.1, 0.0]


def test_muon_shrinks_a_quadratic() -> None:
    target = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    weight = nn.Parameter(torch.zeros(6, 4))
    muon = optimisers.Muon([weight], lr=0.1)
    losses = []
    for _ in range(120):
        loss = (weight - target).square().sum()
        muon.zero_grad()
        loss.backward()
        muon.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 * losses[0]


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_rates_multiply_the_learning_rate_of_named_parts(kind: optimisers.Kind) -> None:
    model = nn.ModuleDict({"tower": nn.Linear(3, 3), "head": nn.Linear(3, 2)})
    found = optimisers.build(model, kind, 1e-3, (0.9, 0.95), 0.1, {"tower": 0.25})
    names = {id(p): name for name, p in model.named_parameters()}
    factors = {names[id(p)]: group["factor"] for o in found for group in o.param_groups for p in group["params"]}
    assert factors == {"tower.weight": 0.25, "tower.bias": 0.25, "head.weight": 1.0, "head.bias": 1.0}
