"""Checkpoints are read from disk as stock transformers writes them, or refused in one line that helps."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers as T

from paceline.core import Prompt
from paceline.errors import UsageError
from paceline.hf import packed
from paceline.hf.packed import PackedLinear
from paceline.hf.target import HFTarget
from paceline.targets import load_target
from unit.targets.checkpoints import BYTES, TEXT, VOCAB, save_idefics3, save_llama
from unit.targets.replay import Replay
from unit.targets.test_identity import answer
from unit.targets.tiny import tiny


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("checkpoints")
    return {"idefics3": save_idefics3(root / "idefics3"), "llama": save_llama(root / "llama")}


@pytest.fixture
def copied(places: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda name: Path(shutil.copytree(places[name], tmp_path / name))


def test_directory_is_read(places: dict[str, Path]) -> None:
    target = load_target(places["idefics3"], threads=1)
    assert (target.vocab_size, target.max_length, target.end_ids) == (VOCAB, 1024, (BYTES + 2,))
    assert (target.dtype, target.device.type, target.name, target.sees) == (torch.float32, "cpu", "", True)
    assert target.image_ids == (BYTES + 3,)
    text = load_target(str(places["llama"]), dtype="fp64", pack=False)
    assert (text.dtype, text.sees, text.path) == (torch.float64, False, places["llama"])
    prompt = text.encode([{"role": "user", "content": "Hi"}])
    mine, _ = answer(text, [prompt], Replay([[]], "plain"), 12)
    stock = T.AutoModelForCausalLM.from_pretrained(places["llama"], dtype=torch.float64)
    stock.generation_config.eos_token_id = None
    ids = prompt.ids[None]
    out = stock.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, pad_token_id=0)
    assert mine[0] == out[0, len(prompt.ids) :].tolist()


def test_model_in_memory_needs_no_processor() -> None:
    target = load_target(tiny("idefics3").model)
    assert not target.sees
    with pytest.raises(UsageError, match="no tokenizer"):
        target.encode([{"role": "user", "content": "Hi"}])


def test_unknown_names_offer_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown target 'tiny-natve'"):
        load_target("tiny-natve")
    with pytest.raises(UsageError, match=r"unknown dtype 'flaot32'; did you mean 'float32'"):
        load_target("nobody/nothing", dtype="flaot32")
    with pytest.raises(UsageError, match=r"unknown device 'gpu9x'"):
        load_target("nobody/nothing", device="gpu9x")
    with pytest.raises(UsageError, match=r"threads is 0"):
        load_target("nobody/nothing", threads=0)
    with pytest.raises(UsageError, match=r"target 'nobody/nothing' cannot be read"):
        load_target("nobody/nothing")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_missing_device_is_refused() -> None:
    with pytest.raises(UsageError, match="sees no CUDA device"):
        load_target("nobody/nothing", device="cuda")


def test_pickles_are_never_opened(copied: Callable[[str], Path]) -> None:
    here = copied("llama")
    (here / "model.safetensors").unlink()
    (here / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(UsageError, match=r"pickle weights only \(pytorch_model.bin\)"):
        load_target(here)


def _no_config(here: Path) -> None:
    (here / "config.json").unlink()


def _broken_config(here: Path) -> None:
    (here / "config.json").write_text("{")


def _nameless_config(here: Path) -> None:
    (here / "config.json").write_text("{}")


def _strange_type(here: Path) -> None:
    config = json.loads((here / "config.json").read_text())
    (here / "config.json").write_text(json.dumps({**config, "model_type": "vit", "architectures": ["ViTModel"]}))


def _no_weights(here: Path) -> None:
    (here / "model.safetensors").unlink()


def _cut_weights(here: Path) -> None:
    whole = (here / "model.safetensors").read_bytes()
    (here / "model.safetensors").write_bytes(whole[: len(whole) // 2])


def _fewer_weights(here: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(here / "model.safetensors")
    weights.pop("model.layers.1.mlp.up_proj.weight")
    save_file(weights, here / "model.safetensors", metadata={"format": "pt"})


def _no_tokenizer(here: Path) -> None:
    for file in here.glob("tokenizer*"):
        file.unlink()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_no_config, "holds no config.json"),
        (_broken_config, "not valid JSON"),
        (_nameless_config, "names no model_type"),
        (_strange_type, "unknown model type 'vit'"),
        (_no_weights, "holds no weights"),
        (_cut_weights, "cannot be read"),
        (_fewer_weights, r"lack 1 tensors, such as model.layers.1.mlp.up_proj.weight"),
        (_no_tokenizer, "cannot be read"),
    ],
)
def test_damaged_directories_are_refused(
    damage: Callable[[Path], None], said: str, copied: Callable[[str], Path]
) -> None:
    here = copied("llama")
    damage(here)
    with pytest.raises(UsageError, match=said) as caught:
        load_target(here)
    assert "\n" not in str(caught.value)


def test_settings_with_memory_are_left_out_with_one_warning(tmp_path: Path) -> None:
    where = save_llama(tmp_path, repetition_penalty=1.2, do_sample=True, temperature=0.7, top_p=0.9)
    with pytest.warns(UserWarning, match=r"repetition_penalty=1.2 is left out") as said:
        target = load_target(where)
    assert len(said) == 1
    assert dict(target.dropped) == {"repetition_penalty": 1.2}
    assert dict(target.sampling_defaults) == {"temperature": 0.7, "top_p": 0.9}


def test_fingerprint_follows_the_stored_embedding(places: dict[str, Path], tmp_path: Path) -> None:
    first = load_target(places["llama"]).fingerprint()
    assert first == load_target(places["llama"], dtype="bfloat16").fingerprint()
    assert first["class"] == "LlamaForCausalLM"
    model = T.LlamaForCausalLM.from_pretrained(places["llama"], dtype=torch.float32)
    assert load_target(model).fingerprint() == first
    with torch.no_grad():
        model.model.embed_tokens.weight[5, 3] += 1e-3
    assert load_target(model).fingerprint() != first


def test_strange_architectures_are_refused() -> None:
    recurrent = T.MambaForCausalLM(T.MambaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, state_size=4))
    with pytest.raises(UsageError, match="no attention layers"):
        load_target(recurrent)
    flexible = T.LlamaConfig(**TEXT, attn_implementation="flex_attention")
    with pytest.raises(UsageError, match="'flex_attention', which takes no block masks"):
        load_target(T.LlamaForCausalLM(flexible))
    growing = T.LlamaConfig(**TEXT, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0})
    with pytest.raises(UsageError, match=r"rescales its positions.*'dynamic'"):
        load_target(T.LlamaForCausalLM(growing))
    shapeless = T.FalconForCausalLM(
        T.FalconConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    )
    with pytest.raises(UsageError, match="no decoder with `layers`"):
        load_target(shapeless)


def test_learned_positions_end_where_they_end() -> None:
    torch.manual_seed(0)
    config = T.OPTConfig(
        vocab_size=100,
        hidden_size=32,
        ffn_dim=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        word_embed_proj_dim=32,
        max_position_embeddings=24,
        init_std=0.4,
        pad_token_id=0,
    )
    target = load_target(T.OPTForCausalLM(config).double())
    prompt = Prompt(torch.arange(3, 13))
    wanted, _ = answer(target, [prompt], Replay([[]], "plain"), 14)
    assert len(set(wanted[0])) >= 8
    got, _ = answer(target, [prompt], Replay(wanted, "chain", depth=6), 14)
    assert got == wanted


def test_untested_class_must_prove_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = T.OlmoForCausalLM(T.OlmoConfig(**TEXT, initializer_range=0.3)).double()
    assert load_target(model).vocab_size == VOCAB
    from unit.targets.mutants import commit_short, position_shifted, sibling_leak

    for plant in (sibling_leak, position_shifted, commit_short):
        with monkeypatch.context() as patch:
            plant(patch)
            with pytest.raises(UsageError, match="OlmoForCausalLM cannot be driven exactly"):
                load_target(model)


def test_only_own_instances_are_packed(places: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LARGE", 1000)

    def is_packed(target: HFTarget) -> bool:
        attention = target.model.config._attn_implementation
        kinds = {type(module) for module in target.model.modules()}
        assert (PackedLinear in kinds) == (attention == "paceline")
        return attention == "paceline"

    assert is_packed(load_target(places["llama"]))
    assert not is_packed(load_target(places["llama"], pack=False))
    assert not is_packed(load_target(places["llama"], dtype="bfloat16"))
    mine = T.LlamaForCausalLM.from_pretrained(places["llama"], dtype=torch.float32)
    assert not is_packed(load_target(mine))
