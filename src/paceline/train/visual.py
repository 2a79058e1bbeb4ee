"""Trains a generator of pictures or clips from captions: a plain causal language model whose last ids are codes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from paceline.pictures.codebook import Codebook, cut, fit
from paceline.train import architecture, provenance, recipe
from paceline.train.loop import LoopConfig, Outcome, Result, Trainer
from paceline.train.media import MEDIA, Medium

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, BEGIN, DRAW = "<|pad|>", "<|begin|>", "<|image|>"


@dataclass(frozen=True, slots=True)
class CodebookConfig:
    """How many codes, and on how many patches of how many drawn pictures they are fitted."""

    codes: int = 512
    pictures: int = 3000
    patches: int = 160_000
    rounds: int = 25

    def __post_init__(self) -> None:
        if self.codes < 2 or self.patches < 40 * self.codes:
            raise ValueError("codes must be at least 2, and patches at least 40 a code")


@dataclass(frozen=True, slots=True)
class DefaultsConfig:
    """How a checkpoint is meant to be drawn from, unless the user says otherwise."""

    guidance: float = 1.0
    temperature: float = 1.0
    top_k: int = 0


@dataclass(frozen=True, slots=True)
class VisualRecipe:
    """Everything that makes a generator: same recipe, same machine, same weights."""

    kind: Literal["visual"]
    name: str
    seed: int
    medium: Literal["picture", "clip"]
    text: architecture.TextConfig
    words: int  # text part of the vocabulary, special tokens and 256 bytes included
    captions: int  # training captions that the tokenizer learns from
    batch: int  # pictures a step
    micro_batch: int
    drop: float  # share of pictures whose caption is left out, so that there is an unconditional branch to guide by
    loop: LoopConfig
    codebook: CodebookConfig = CodebookConfig()
    defaults: DefaultsConfig = DefaultsConfig()

    def __post_init__(self) -> None:
        if not 0 <= self.drop < 1 or self.batch < 1 or self.micro_batch < 1:
            raise ValueError("drop must be in [0, 1), batch and micro_batch at least 1")


@dataclass(frozen=True, slots=True)
class DrawnBatch:
    """Rows of caption and codes, padded on the right."""

    name: str
    ids: Tensor  # [B, S]
    source: Tensor  # [B, S] bool, True where the next token is a code


def run(path: Path, output: Path, data: Path | None = None, render: bool = True) -> Result:
    """Run the recipe at `path` to the end, or on from where a killed run stopped; the model lands in `output`/model.

    Pictures are drawn as they are needed: `data` and `render` are for recipes that keep scenes on disk.
    """
    config = recipe.load(path, VisualRecipe)
    medium = MEDIA[config.medium]
    tokenizer = prepare_tokenizer(config, medium, output / "tokenizer")
    codebook = prepare_codebook(config, medium, output / "codebook.safetensors")
    model = architecture.build_language_model(config.text, tokenizer, config.seed)

    def keep(step: int) -> None:
        write(model, tokenizer, codebook, medium.layout, config.defaults, output / "model")
        provenance.write(output / "model", path, name=config.name, steps=step)

    source = DrawnSource(config, medium, tokenizer, codebook)
    return Trainer(model, next_codes, source, config.loop, output / "run", on_checkpoint=keep).run()


def next_codes(model: nn.Module, batch: DrawnBatch) -> Outcome:
    """Cross-entropy of the codes, given caption and earlier codes; the head runs on those rows only."""
    hidden = model.model(input_ids=batch.ids, use_cache=False).last_hidden_state  # type: ignore[operator]
    logits = model.lm_head(hidden[batch.source])  # type: ignore[operator]
    labels = batch.ids.roll(-1, 1)[batch.source]
    loss = functional.cross_entropy(logits, labels, reduction="sum")
    return Outcome(loss, len(labels), {"right": float((logits.detach().argmax(-1) == labels).sum())})


@dataclass(frozen=True, slots=True)
class DrawnSource:
    """A `Source` that draws each step's pictures anew: no picture comes twice, and step s depends on s alone."""

    config: VisualRecipe
    medium: Medium
    tokenizer: PreTrainedTokenizerFast
    codebook: Codebook

    def micro_batches(self, step: int) -> list[DrawnBatch]:
        """The micro-batches of a step, each of captions of similar length."""
        numbers = range(step * self.config.batch, (step + 1) * self.config.batch)
        drawn = [self.medium.draw("train", number) for number in numbers]
        codes = self.codebook.encode(np.stack([pixels for _, pixels in drawn])).reshape(len(drawn), -1)
        dice = np.random.default_rng((self.config.seed, step)).random(len(drawn))
        captions = ["" if u < self.config.drop else caption for u, (caption, _) in zip(dice, drawn, strict=True)]
        rows = sorted(rows_of(self.tokenizer, captions, codes, self.config.codebook.codes), key=len)
        size = self.config.micro_batch
        return [collate(rows[at : at + size], codes.shape[1], f"step {step}") for at in range(0, len(rows), size)]


def rows_of(tokenizer: PreTrainedTokenizerFast, captions: Sequence[str], codes: np.ndarray, count: int) -> list[Tensor]:
    """One row of ids each: caption with its marks, then codes [B, N] as the last `count` ids of the vocabulary."""
    first = len(tokenizer) - count
    prompts = tokenizer(list(captions))["input_ids"]
    return [
        torch.cat([torch.tensor(ids), torch.from_numpy(own) + first])
        for ids, own in zip(prompts, codes, strict=True)
    ]  # fmt: skip


def collate(rows: Sequence[Tensor], codes: int, name: str = "") -> DrawnBatch:
    """A batch of rows whose last `codes` ids are to be predicted; pads (id 0) follow."""
    length = max(map(len, rows))
    ids, source = torch.zeros(len(rows), length, dtype=torch.long), torch.zeros(len(rows), length, dtype=torch.bool)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        source[number, len(row) - codes - 1 : len(row) - 1] = True
    return DrawnBatch(name, ids, source)


def prepare_tokenizer(config: VisualRecipe, medium: Medium, directory: Path) -> PreTrainedTokenizerFast:
    """The tokenizer in `directory`; learnt from captions first when there is none."""
    from transformers import AutoTokenizer

    if not (directory / "tokenizer.json").is_file():
        captions = [medium.caption("train", number) for number in range(config.captions)]
        train_tokenizer(captions, config.words, config.codebook.codes).save_pretrained(directory)
    return AutoTokenizer.from_pretrained(directory)


def train_tokenizer(captions: Sequence[str], words: int, codes: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE of `words` ids, then one id a code; text is lower-cased and stands between two marks."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([normalizers.Strip(), normalizers.Lowercase()])  # type: ignore[assignment]
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)  # type: ignore[assignment]
    tokenizer.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    specials = [AddedToken(token, special=True, normalized=False) for token in (PAD, BEGIN, DRAW)]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(captions, trainers.BpeTrainer(
        vocab_size=words, special_tokens=specials, initial_alphabet=alphabet, show_progress=False,
    ))  # fmt: skip
    short = words - tokenizer.get_vocab_size()  # few captions make few merges: the codes must still come last
    tokenizer.add_special_tokens([AddedToken(f"<spare_{n}>", special=True, normalized=False) for n in range(short)])
    tokenizer.add_special_tokens([AddedToken(f"<code_{n}>", special=True, normalized=False) for n in range(codes)])
    marks = [(token, tokenizer.token_to_id(token)) for token in (BEGIN, DRAW)]
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{BEGIN} $A {DRAW}", special_tokens=marks)  # type: ignore[assignment]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        pad_token=PAD,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )


def prepare_codebook(config: VisualRecipe, medium: Medium, path: Path) -> Codebook:
    """The codebook at `path`; fitted on training pictures first when there is none. Half its patches show edges."""
    if not path.is_file():
        wanted = config.codebook
        pixels = np.stack([medium.draw("train", number)[1] for number in range(wanted.pictures)])
        patches = cut(pixels, medium.patch).reshape(-1, medium.patch**2 * 3)
        busy = patches.reshape(len(patches), -1, 3).std(1).mean(1) > 0.06
        rng, half = np.random.default_rng(config.seed), wanted.patches // 2
        chosen = [rng.permutation(np.flatnonzero(kind))[:half] for kind in (busy, ~busy)]
        fit(patches[np.concatenate(chosen)], wanted.codes, medium.patch, config.seed, wanted.rounds).save(path)
    return Codebook.load(path)


def write(
    model: Any,
    tokenizer: PreTrainedTokenizerFast,
    codebook: Codebook,
    layout: Sequence[int],
    defaults: DefaultsConfig,
    directory: Path,
) -> None:
    """Save model, tokenizer, codebook and `visual.json`: plain `AutoModelForCausalLM` and `AutoTokenizer` suffice."""
    architecture.write(model, directory, tokenizer)
    codebook.save(directory / "codebook.safetensors")
    codes = len(codebook.table)
    facts = {"layout": list(layout), "patch": codebook.patch, "codes": codes, "first_code": len(tokenizer) - codes}
    text = json.dumps({**facts, **asdict(defaults)}, indent=2)
    (directory / "visual.json").write_text(text + "\n", encoding="utf-8")
