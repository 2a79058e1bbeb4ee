"""Drafters: one file a method, shelved by level. This table is the only place that knows their names."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

METHODS: Mapping[str, str] = MappingProxyType({
    "none": "paceline.drafters.free.none:NoDraft",
    "lookup": "paceline.drafters.free.lookup:Lookup",
    "synthetic": "paceline.drafters.free.synthetic:Synthetic",
    "ngram": "paceline.drafters.free.ngram:NGram",
    "jacobi": "paceline.drafters.free.jacobi:Jacobi",
    "lm": "paceline.drafters.ar.lm:SmallLM",
    "eagle": "paceline.drafters.ar.eagle:Eagle",
    "dream": "paceline.drafters.ar.dream:Dream",
    "mtp": "paceline.drafters.heads.mtp:Mtp",
    "pard": "paceline.drafters.heads.pard:Pard",
    "medusa": "paceline.drafters.heads.medusa:Medusa",
    "hydra": "paceline.drafters.heads.hydra:Hydra",
    "dflash": "paceline.drafters.block.dflash:DFlash",
    "dspark": "paceline.drafters.block.dspark:DSpark",
})  # fmt: skip


def method(name: str) -> Any:
    """The class of a method, imported on use. Raises UsageError for an unknown name, with the nearest one."""
    from paceline.errors import unknown

    if name not in METHODS:
        raise unknown("drafting method", name, METHODS)
    module, _, attribute = METHODS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
