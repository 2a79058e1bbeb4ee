"""Causal language models: text in, text out."""

from __future__ import annotations

from typing import Any

from paceline.hf.proof import prove
from paceline.hf.target import HFTarget


class Text(HFTarget):
    """No pictures."""

    auto = "AutoModelForCausalLM"


class UntestedText(Text):
    """A class that the tests do not know: it must show on a few tokens that it is driven exactly."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        prove(self.body)
