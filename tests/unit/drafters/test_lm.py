"""A small model as drafter beside real classes: text-only beside a model that sees, or seeing itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers as T
from PIL import Image

from paceline.core import Prompt, Rule, decode
from paceline.couplings import Gumbel
from paceline.drafters.ar.lm import SmallLM, same_vocabulary, text_only
from paceline.drafters.free.none import NoDraft
from paceline.errors import UsageError
from paceline.loading import load_drafter
from paceline.sampling import Sampling
from paceline.targets import load_target
from unit.targets.checkpoints import save_idefics3
from unit.targets.tiny import IMAGE, TEXT, tiny

FREE = Sampling(temperature=1, top_k=30)
SETTINGS = {"greedy": Sampling(), "sampled": FREE}


def llama(vocab: int = 128, seed: int = 5) -> Any:
    """A two-layer text model of another width."""
    torch.manual_seed(seed)
    config = T.LlamaConfig(**{**TEXT, "vocab_size": vocab, "hidden_size": 32, "num_hidden_layers": 2}, head_dim=8)
    config.initializer_range = 0.4
    return load_target(T.LlamaForCausalLM(config).double())


def run(target: Any, drafter: Any, prompts: list[Prompt], sampling: Sampling, n: int = 24) -> tuple[Any, float]:
    rows, lengths = [list[int]() for _ in prompts], list[float]()
    seeds = torch.arange(len(prompts)) + 3
    for verdict in decode(target, drafter, Rule(sampling.law, Gumbel()), prompts, seeds):
        for row, tokens, length in zip(rows, verdict.tokens.tolist(), verdict.length.tolist(), strict=True):
            row += tokens[:length]
        lengths.append(float(verdict.length.double().mean()))
        if min(map(len, rows)) >= n:
            return [row[:n] for row in rows], sum(lengths[1:]) / len(lengths[1:])
    raise AssertionError("decode ended")


def as_given(prompt: Prompt, image: torch.Tensor) -> Prompt:
    return prompt


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", ["idefics3", "qwen2_5_vl"])
def test_a_text_only_drafter_beside_a_target_that_sees(name: str, setting: str) -> None:
    made = tiny(name)
    target, prompts = load_target(made.model), made.prompts()
    plain, _ = run(target, NoDraft(), prompts, SETTINGS[setting])
    drafted, _ = run(target, SmallLM(llama()), prompts, SETTINGS[setting])
    assert drafted == plain


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_drafter_that_sees_what_the_target_sees_agrees_always_when_it_is_the_target(setting: str) -> None:
    made = tiny("idefics3")
    target, prompts = load_target(made.model), made.prompts()
    plain, _ = run(target, NoDraft(), prompts, SETTINGS[setting])
    drafted, length = run(target, SmallLM(target, guesses=3, view=as_given), prompts, SETTINGS[setting])
    assert drafted == plain
    assert length == 4.0  # all three guesses and the bonus, in every round of every row


def test_text_only_drops_exactly_the_rows_of_pictures() -> None:
    made = tiny("idefics3")
    prompt = made.prompts()[2]
    shown = text_only(prompt, prompt.ids == IMAGE)
    assert shown.ids.tolist() == [i for i in prompt.ids.tolist() if i != IMAGE]
    assert not shown.inputs


@pytest.mark.parametrize("vocab", [100, 160])
@pytest.mark.parametrize("setting", SETTINGS)
def test_ids_that_one_side_lacks_are_never_guessed_and_never_missed(vocab: int, setting: str) -> None:
    made = tiny("llama")
    target, prompts = load_target(made.model), made.prompts()[:2]
    drafter = SmallLM(llama(vocab), vocab_size=128)
    plain, _ = run(target, NoDraft(), prompts, SETTINGS[setting])
    assert run(target, drafter, prompts, SETTINGS[setting])[0] == plain


@dataclass
class Spelling:
    vocab: dict[str, int]

    def get_vocab(self) -> dict[str, int]:
        return self.vocab


def test_another_vocabulary_is_refused_and_both_are_shown() -> None:
    one = SimpleNamespace(tokenizer=Spelling({"a": 0, "b": 1}))
    same_vocabulary(one, SimpleNamespace(tokenizer=Spelling({"a": 0, "b": 1, "<image>": 2})))
    with pytest.raises(UsageError, match=r"id 1 is 'b' there and 'c' here"):
        same_vocabulary(one, SimpleNamespace(tokenizer=Spelling({"a": 0, "c": 1})))


def test_no_guesses_is_no_drafter() -> None:
    with pytest.raises(ValueError, match="guesses is 0"):
        SmallLM(llama(), guesses=0)


@pytest.mark.parametrize("edge", [None, 32])
def test_a_seeing_drafter_rereads_pictures_at_the_targets_resolution(edge: int | None, tmp_path: Path) -> None:
    where = save_idefics3(tmp_path)
    target = load_target(where)
    drafter = load_drafter(where, target, guesses=2)
    picture = Image.radial_gradient("L").resize((40, 30)).convert("RGB")
    content = [{"type": "image", "image": picture}, {"type": "text", "text": "What is it?"}]
    prompt = target.encode([{"role": "user", "content": content}], longest_edge=edge)
    plain, _ = run(target, NoDraft(), [prompt], Sampling(), 13)
    drafted, length = run(target, drafter, [prompt], Sampling(), 13)
    assert drafted == plain
    assert length == 3.0  # it is the target itself, so nothing that it guesses is refused
