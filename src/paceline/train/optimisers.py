"""Optimisers: fused AdamW, and Muon (momentum orthogonalised by Newton-Schulz) for the matrices of a net."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

Kind = Literal["adamw", "muon"]


class Muon(torch.optim.Optimizer):
    """Steepest descent under the spectral norm, scaled to the RMS of AdamW's updates: one learning rate fits both.

    Runs in the parameters' own dtype: bfloat16 products are slow on CPUs without native support.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        iterations: int = 5,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "iterations": iterations}
        )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Apply one update to every matrix that has a gradient; equal shapes are orthogonalised in one batch."""
        if closure is not None:
            raise ValueError("Muon takes no closure")
        for group in self.param_groups:
            shapes: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes[parameter.shape].append(parameter)
            for parameters in shapes.values():
                self._update(parameters, group)

    def _update(self, parameters: list[nn.Parameter], group: dict[str, Any]) -> None:
        directions = []
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["momentum"] = torch.zeros_like(parameter)
            assert parameter.grad is not None
            state["momentum"].lerp_(parameter.grad, 1 - group["momentum"])
            directions.append(torch.lerp(parameter.grad, state["momentum"], group["momentum"]))
        updates = orthogonalise(torch.stack(directions), group["iterations"])
        scale = 0.2 * max(updates.shape[-2:]) ** 0.5
        for parameter, update in zip(parameters, updates, strict=True):
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            parameter.add_(update, alpha=-group["lr"] * scale)


def orthogonalise(matrices: Tensor, iterations: int) -> Tensor:
    """Return matrices [n, a, b] with singular values pushed towards one (into about 0.7 .. 1.2)."""
    a, b, c = 3.4445, -4.7750, 2.0315  # quintic whose slope at zero is largest while staying near one
    flip = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if flip else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if flip else x


def build(
    model: nn.Module,
    kind: Kind,
    lr: float,
    betas: tuple[float, float],
    weight_decay: float,
    rates: Mapping[str, float] | None = None,
) -> list[torch.optim.Optimizer]:
    """Return the optimisers of a model: embeddings, head, convolutions and vectors always take AdamW.

    Weight decay touches matrices only; a tied head is found once. `rates` multiplies the learning rate of parameters
    whose name starts with a key; the factor stands in each group as "factor".
    """
    embedding = {id(p) for module in model.modules() if isinstance(module, nn.Embedding) for p in module.parameters()}
    adamw: dict[tuple[float, float], list[nn.Parameter]] = defaultdict(list)
    muon: dict[float, list[nn.Parameter]] = defaultdict(list)
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        factor = next((rate for prefix, rate in (rates or {}).items() if name.startswith(prefix)), 1.0)
        if kind == "muon" and parameter.ndim == 2 and id(parameter) not in embedding:
            muon[factor].append(parameter)
        else:
            adamw[factor, weight_decay if parameter.ndim >= 2 else 0.0].append(parameter)
    found: list[torch.optim.Optimizer] = []
    if adamw:
        groups = [{"params": own, "weight_decay": decay, "factor": factor} for (factor, decay), own in adamw.items()]
        found.append(torch.optim.AdamW(groups, lr=lr, betas=betas, eps=1e-8, fused=True))
    if muon:
        groups = [{"params": own, "factor": factor} for factor, own in muon.items()]
        found.append(Muon(groups, lr=lr, weight_decay=weight_decay))
    return found
