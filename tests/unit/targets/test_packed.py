"""Packed models compute what they computed, but for the last bits."""

from __future__ import annotations

import copy

import pytest
import torch
import transformers as T

from paceline import tree
from paceline.core import Draft, Prompt
from paceline.hf import packed
from paceline.hf.attention import grouped_attention
from paceline.hf.packed import PackedLinear, pack
from paceline.targets import load_target
from unit.targets.checkpoints import TEXT


@pytest.mark.parametrize("rows", [1, 2, 8, 32, 33])
@pytest.mark.parametrize("bias", [False, True])
def test_packed_linear_is_the_plain_one(rows: int, bias: bool) -> None:
    plain = torch.nn.Linear(96, 40, bias=bias)
    x = torch.randn(1, rows, 96)
    with torch.inference_mode():
        assert torch.allclose(PackedLinear(plain)(x), plain(x), atol=1e-5)
        assert torch.equal(copy.deepcopy(PackedLinear(plain))(x), plain(x))
    assert type(copy.deepcopy(PackedLinear(plain))) is torch.nn.Linear
    x.requires_grad_()
    PackedLinear(plain)(x).sum().backward()
    assert torch.allclose(x.grad, plain.weight.sum(0).expand_as(x), atol=1e-5)


@pytest.mark.parametrize("kind", ["Llama", "Qwen3", "Gemma3Text", "Olmo2"])
def test_packed_model_is_the_plain_one(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LARGE", 64 * 96)
    torch.manual_seed(0)
    head = {"head_dim": 16} if kind in ("Qwen3", "Gemma3Text") else {}
    config = getattr(T, f"{kind}Config")(**TEXT, **head, initializer_range=0.1)
    plain = getattr(T, f"{kind.removesuffix('Text')}ForCausalLM")(config).eval()
    own = copy.deepcopy(plain)
    assert pack(own)
    assert any(isinstance(module, PackedLinear) for module in own.modules())
    assert not any(isinstance(module, PackedLinear) for module in plain.modules())
    ids = torch.randint(3, 200, (20,), generator=torch.Generator().manual_seed(1))
    draft = Draft(torch.tensor([[20, 30, 40, 50, 60]]), tree.of(torch.tensor([[0, 0, 2, 1, 3]])))
    seen = []
    for model in (plain, own, own.to(torch.float32)):
        session, _, first = load_target(model).open([Prompt(ids)])
        session.commit(torch.zeros(1, 1, dtype=torch.long), torch.ones(1, dtype=torch.long))
        seen.append(torch.cat([first.logits, session.forward(torch.tensor([9]), draft).logits], 1))
    assert torch.allclose(seen[0], seen[1], atol=1e-3 * float(seen[0].std()))
    exact = load_target(own).astype(torch.float64)
    assert exact.dtype == torch.float64
    assert not any(isinstance(module, PackedLinear) for module in exact.model.modules())


def test_nothing_is_packed_where_nothing_is_won() -> None:
    model = T.LlamaForCausalLM(T.LlamaConfig(**TEXT)).double()
    before = {type(module) for module in model.modules()}
    assert not pack(model)
    assert {type(module) for module in model.modules()} == before


def test_grouped_attention_refuses_what_it_would_ignore() -> None:
    q, k = torch.randn(1, 4, 2, 8), torch.randn(1, 2, 2, 8)
    with pytest.raises(ValueError, match="softcap"):
        grouped_attention(torch.nn.Module(), q, k, k, None, softcap=30.0)
    with pytest.raises(ValueError, match="dropout"):
        grouped_attention(torch.nn.Module(), q, k, k, None, dropout=0.1)
