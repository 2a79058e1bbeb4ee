"""Any causal language model: text in, text out."""

from __future__ import annotations

from paceline.hf.target import HFTarget


class Text(HFTarget):
    """No pictures."""

    auto = "AutoModelForCausalLM"
