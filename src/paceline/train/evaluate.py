"""Measures a target on the suite: token accuracy and grounding under teacher forcing, items of its own answers.

A family counts as grounded when item accuracy is at least 60 % and a wrong picture makes answers clearly less likely.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from paceline.tasks import FAMILIES, Sample, prompts, scoring
from paceline.tasks import scene as draw_scene
from paceline.tasks.scene import Split
from paceline.train.packing import PackedBatch, collate
from paceline.train.scenes import Encoder

if TYPE_CHECKING:
    from transformers import Idefics3ForConditionalGeneration, Idefics3Processor

GROUNDED_ITEMS = 0.6  # item accuracy from which a family can be called grounded
GROUNDED_GAP = 0.5  # nats a token that a wrong picture must cost


@dataclass(frozen=True, slots=True)
class FamilyReport:
    """What a target does on one family; accuracies are shares, likelihoods nats a token."""

    task: str
    token_accuracy: float  # teacher-forced, answer and end tokens, right picture
    nll: float
    nll_wrong_picture: float
    tokens: int
    item_accuracy: float
    exact: float
    answers: int
    by_slice: dict[str, float]  # item accuracy of the seen, style and new slices
    grounded: bool
    examples: list[dict[str, str]]


def teacher_forced(
    model: Idefics3ForConditionalGeneration, processor: Idefics3Processor, task: str, split: Split, scenes: int
) -> tuple[float, float, float, int]:
    """Return token accuracy, NLL, NLL with another scene's pictures, and the number of tokens, over `scenes` scenes."""
    encoder, right, nll, wrong, tokens = Encoder(processor), 0.0, 0.0, 0.0, 0
    pad = processor.tokenizer.pad_token_id
    for start in range(0, scenes, 8):
        packed = [encoder.encode(draw_scene(task, split, index)) for index in range(start, min(start + 8, scenes))]
        batch = collate(packed, pad)
        logits = _answer_logits(model, batch, batch.pixels)
        other = None if batch.pixels is None else batch.pixels.roll(1, 0)
        right += float((logits.argmax(-1) == batch.labels).sum())
        nll += float(functional.cross_entropy(logits, batch.labels, reduction="sum"))
        wrong += float(functional.cross_entropy(_answer_logits(model, batch, other), batch.labels, reduction="sum"))
        tokens += len(batch.labels)
    return right / tokens, nll / tokens, wrong / tokens, tokens


@torch.inference_mode()
def _answer_logits(model: Any, batch: PackedBatch, pixels: torch.Tensor | None) -> torch.Tensor:
    hidden = model.model(
        input_ids=batch.ids,
        position_ids=batch.positions,
        attention_mask=batch.mask,
        pixel_values=pixels,
        use_cache=False,
    ).last_hidden_state
    return model.lm_head(hidden[batch.source])


@torch.inference_mode()
def answers_to(
    model: Idefics3ForConditionalGeneration,
    processor: Idefics3Processor,
    samples: Sequence[Sample],
    max_new_tokens: int,
    batch: int = 16,
    temperature: float = 0.0,
) -> Iterator[str]:
    """Yield the answer to every sample, greedy at temperature 0.

    All samples must have equally many pictures and one longest edge.
    """
    drawn: dict[str, Any] = {"do_sample": False}
    if temperature > 0:
        drawn = {"do_sample": True, "temperature": temperature, "top_k": 0}
    for start in range(0, len(samples), batch):
        part = samples[start : start + batch]
        texts = [chat(processor, sample.exchange.question, len(sample.images)) for sample in part]
        inputs: Any = processor(
            text=texts,
            images=[list(sample.images) for sample in part],
            size={"longest_edge": part[0].longest_edge},
            padding=True,
            return_tensors="pt",
        )
        out: Any = model.generate(**inputs, max_new_tokens=max_new_tokens, **drawn)
        for ids in out[:, inputs["input_ids"].shape[1] :]:
            yield processor.tokenizer.decode(ids, skip_special_tokens=True)


def chat(processor: Idefics3Processor, question: str, pictures: int) -> str:
    """Return the prompt text of one question about `pictures` pictures, ready for the processor."""
    content = [*({"type": "image"} for _ in range(pictures)), {"type": "text", "text": question}]
    return str(processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True))


def family(
    model: Idefics3ForConditionalGeneration,
    processor: Idefics3Processor,
    task: str,
    split: Split,
    scenes: int,
    answers: int,
    shown: int = 3,
    temperature: float = 0.0,
) -> FamilyReport:
    """Measure one family on the first scenes of a split; `shown` examples are kept, all of them if negative."""
    accuracy, nll, wrong, tokens = teacher_forced(model, processor, task, split, scenes)
    samples = prompts(task, split, answers)
    found = list(answers_to(model, processor, samples, 420 if task == "long" else 110, temperature=temperature))
    triples = [(answer, s.exchange.answer, s.exchange.items) for answer, s in zip(found, samples, strict=True)]
    total = scoring.score(triples)
    slices = {s.slice for s in samples}
    by_slice = {
        part: scoring.score([t for t, s in zip(triples, samples, strict=True) if s.slice == part]).items
        for part in slices
    }
    examples = [
        {"question": s.exchange.question, "expected": s.exchange.answer, "answer": answer}
        for answer, s in list(zip(found, samples, strict=True))[: shown if shown >= 0 else None]
    ]
    grounded = total.items >= GROUNDED_ITEMS and wrong - nll >= GROUNDED_GAP
    return FamilyReport(
        task, accuracy, nll, wrong, tokens, total.items, total.exact, total.answers, by_slice, grounded, examples
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a JSON report of every family asked for."""
    from transformers import AutoModelForImageTextToText, AutoProcessor

    parser = argparse.ArgumentParser(prog="python -m paceline.train.evaluate", description=__doc__)
    parser.add_argument("model", type=Path, help="directory of the target")
    parser.add_argument("--tasks", default="all")
    parser.add_argument("--split", choices=("val", "test", "train"), default="val")
    parser.add_argument("--scenes", type=int, default=24, help="scenes under teacher forcing")
    parser.add_argument("--limit", type=int, default=24, help="answers")
    parser.add_argument("--examples", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=0.0, help="of the answers; 0: greedy")
    parser.add_argument("--answers", type=Path, help="write the answers here, JSON lines for paceline.tasks.ngram")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    model = AutoModelForImageTextToText.from_pretrained(given.model).eval()
    processor = AutoProcessor.from_pretrained(given.model)
    tasks = list(FAMILIES) if given.tasks == "all" else given.tasks.split(",")
    reports = []
    for task in tasks:
        kept = -1 if given.answers else given.examples
        report = family(model, processor, task, given.split, given.scenes, given.limit, kept, given.temperature)
        print(
            f"{task:8} tokens {report.token_accuracy:.3f}  items {report.item_accuracy:.3f}  exact {report.exact:.3f}  "
            f"nll {report.nll:.3f}  wrong picture {report.nll_wrong_picture:.3f}  grounded {report.grounded}",
            file=sys.stderr,
            flush=True,
        )
        reports.append(asdict(report))
    if given.answers:
        told = [{"task": report["task"], **example} for report in reports for example in report["examples"]]
        given.answers.write_text("".join(json.dumps(line) + "\n" for line in told), encoding="utf-8")
    for report in reports:
        report["examples"] = report["examples"][: given.examples]
    print(json.dumps({"model": str(given.model), "split": given.split, "families": reports}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
