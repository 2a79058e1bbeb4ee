"""Float32 linears laid out for the few rows of decoding and verification on a CPU.

Only on models that paceline has loaded itself: the values stay, but their order in memory, and with it the last bits
of the results, does not. Which layout a matrix gets follows from its size alone, so that two runs agree.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

from paceline.hf.attention import register

LARGE = 500_000  # weights from which a packed copy wins at two rows and more; below, its fixed cost of ~20 us loses
FEW = 32  # rows up to which it is used
LIMIT = 10**9  # parameters; above, no copies are made


class PackedLinear(nn.Module):
    """A linear layer with a second copy of its weight in oneDNN's blocked layout, for 2 … 32 rows.

    A single row goes through the plain weight: there the product only streams memory. So does whatever is to be
    differentiated. A deep copy is a plain linear.
    """

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = plain.weight, plain.bias
        self.in_features, self.out_features = plain.in_features, plain.out_features
        self._packed = torch.ops.mkldnn._reorder_linear_weight(plain.weight.detach().contiguous(), 8)

    def forward(self, x: Tensor) -> Tensor:
        if self.in_features < x.numel() <= FEW * self.in_features and not torch.is_grad_enabled():
            return torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")
        return linear(x, self.weight, self.bias)

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Linear:
        plain = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        plain.weight, plain.bias = copy.deepcopy(self.weight, memo), copy.deepcopy(self.bias, memo)
        return plain


def pack(model: PreTrainedModel) -> bool:
    """Lay out the decoder and head of a model that nobody else holds; False where there is nothing to win.

    That is anywhere but in float32 on a CPU, and for attention with options that ours does not take.
    """
    decoder = model.get_decoder()
    weights = [weight for weight in decoder.parameters() if weight.ndim == 2]
    if any(weight.dtype != torch.float32 or weight.device.type != "cpu" for weight in weights):
        return False
    config = model.config.get_text_config(decoder=True)
    if config._attn_implementation == "sdpa" and getattr(config, "attn_logit_softcapping", None) is None:
        decoder.set_attn_implementation(register())
    copies = torch.backends.mkldnn.is_available() and sum(weight.numel() for weight in weights) <= LIMIT
    for parent in list(decoder.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, _laid_out(child, copies))
    head = model.get_output_embeddings()
    if type(head) is nn.Linear and copies:
        model.set_output_embeddings(_laid_out(head, copies))
    return True


def _laid_out(plain: nn.Linear, copies: bool) -> nn.Module:
    with torch.no_grad():
        if plain.out_features >= plain.in_features:
            plain.weight = nn.Parameter(plain.weight.t().contiguous().t(), requires_grad=plain.weight.requires_grad)
    return PackedLinear(plain) if copies and plain.weight.numel() >= LARGE else plain
