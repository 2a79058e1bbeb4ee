"""Data parallel training under torchrun: each process takes its share of micro-batches, gradients are summed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch import Tensor, distributed, nn


@contextmanager
def group() -> Iterator[None]:
    """The process group that torchrun asks for while inside; nothing where there is one process."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or distributed.is_initialized():
        yield
        return
    distributed.init_process_group("gloo", timeout=timedelta(hours=2))
    try:
        yield
    finally:
        distributed.destroy_process_group()


def rank() -> int:
    """Number of this process, 0 where it is alone."""
    return distributed.get_rank() if distributed.is_initialized() else 0


def world() -> int:
    """How many processes train together."""
    return distributed.get_world_size() if distributed.is_initialized() else 1


def wait() -> None:
    """Until all processes are here."""
    if world() > 1:
        distributed.barrier()


def any_of(flag: bool) -> bool:
    """Whether it holds in any process, so that all stop at the same step."""
    if world() == 1:
        return flag
    found = torch.tensor(int(flag))
    distributed.all_reduce(found, distributed.ReduceOp.MAX)
    return bool(found)


def summed(
    model: nn.Module, total: float, terms: int, sums: Mapping[str, float]
) -> tuple[float, int, dict[str, float]]:
    """Loss, terms and log of all processes together; gradients, zero where a process has none, are summed in place."""
    if world() == 1:
        return total, terms, dict(sums)
    parameters = [p for p in model.parameters() if p.requires_grad]
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    _reduce([p.grad for p in parameters if p.grad is not None])
    logs: list[Mapping[str, float] | None] = [None] * world()
    distributed.all_gather_object(logs, {**sums, "total": total, "terms": float(terms)})
    together: dict[str, float] = {}
    for log in logs:
        for key, value in (log or {}).items():
            together[key] = together.get(key, 0.0) + value
    return together.pop("total"), int(together.pop("terms")), together


def _reduce(gradients: list[Tensor]) -> None:
    """Sum over all processes, as one message."""
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(flat)
    for gradient, piece in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(piece.view_as(gradient))
