"""Targets that draw, from disk to pictures: prompts, sizes, decoded codes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as T

from paceline.core import Draft, Needs, Prompt
from paceline.errors import UsageError
from paceline.layout import Layout
from paceline.pictures.codebook import Codebook
from paceline.targets import DRAWN, load_target, load_visual
from paceline.targets.emu3 import first_code
from paceline.targets.glm_image import preview
from paceline.targets.visual import Plan, Visual
from unit.targets import checkpoints
from unit.targets.drawn import BUILDERS, TEXT, drawn


def test_every_family_that_draws_is_tested() -> None:
    assert set(DRAWN) <= {drawn(name).model.config.model_type for name in BUILDERS}


# Checkpoints ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama over bytes and 32 codes of 2-pixel patches, as a bundled target lies on disk."""
    where, size = tmp_path_factory.mktemp("drawing"), checkpoints.VOCAB + 32
    torch.manual_seed(0)
    T.LlamaForCausalLM(T.LlamaConfig(**TEXT | {"vocab_size": size})).save_pretrained(where)
    checkpoints.tokenizer().save_pretrained(where)
    Codebook(np.random.default_rng(0).random((32, 12), dtype=np.float32), 2).save(where / "codebook.safetensors")
    _plan(where)
    return where


def _plan(where: Path, **changed: Any) -> None:
    said = {"layout": [3, 4], "first_code": checkpoints.VOCAB, "codes": 32, "guidance": 1.5, "top_k": 7, **changed}
    (where / "visual.json").write_text(json.dumps({k: v for k, v in said.items() if v is not None}))


@pytest.mark.parametrize("opened", [load_target, load_visual])
def test_directory_with_a_plan_is_a_target_that_draws(directory: Path, opened: Any) -> None:
    target = opened(directory)
    assert isinstance(target, Visual)
    assert (target.layout.height, target.layout.width, target.size) == (3, 4, (8, 6))
    assert target.defaults == {"guidance": 1.5, "temperature": 1.0, "top_k": 7}
    assert load_visual(directory, size=(8, 6)).layout == target.layout
    begin, image = target.encode_caption("a fish").ids, target.tokenizer.convert_tokens_to_ids("<image>")
    assert image not in target.encode_caption("a <image> fish").ids
    assert not torch.equal(begin, target.unconditional(Prompt(begin)).ids)
    assert target.guided(1.0).open([Prompt(begin)])[2].logits.shape == (1, 1, target.vocab_size)


def test_other_precision_keeps_the_view(directory: Path) -> None:
    target = load_visual(directory).guided(2.0).unruled()
    exact = target.astype(torch.float64)
    assert (exact.guidance, exact.ruled, exact.dtype, target.dtype) == (2.0, False, torch.float64, torch.float32)
    prompt = target.encode_caption("x")
    ours, wide = (each.guided(1.0).open([prompt])[2].logits for each in (target, exact))
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours.double(), wide, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"layout": None}, "layout"),
        ({"layout": [1, 2, 3, 4]}, "cannot be read|a layout is"),
        ({"layout": [0, 4]}, "1 or more"),
        ({"codes": "many"}, "cannot be read"),
        ({"codes": 4000}, "the vocabulary has"),
    ],
)
def test_faulty_plans_are_refused(directory: Path, changed: dict[str, Any], message: str) -> None:
    _plan(directory, **changed)
    try:
        with pytest.raises(UsageError, match=message):
            load_visual(directory)
    finally:
        _plan(directory)


def test_model_without_a_plan_is_refused() -> None:
    with pytest.raises(UsageError, match="give the plan"):
        Visual(drawn("visual").model)


def test_target_that_draws_nothing_is_refused_by_name(directory: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown family of targets that draw 'llama'"):
        load_visual(drawn("visual").model)
    config = json.loads((directory / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "januss"}))
    with pytest.raises(UsageError, match="did you mean 'janus'"):
        load_visual(tmp_path)


def test_checkpoint_of_a_family_opens_by_its_type(tmp_path: Path) -> None:
    drawn("emu3").model.save_pretrained(tmp_path)
    checkpoints.tokenizer().save_pretrained(tmp_path)
    target = load_visual(tmp_path, size=(10, 8), dtype="fp64")
    assert target.layout == drawn("emu3").target.layout
    prompts = drawn("emu3").prompts()
    ours, own = target.open(prompts)[2].logits, drawn("emu3").target.open(prompts)[2].logits
    torch.testing.assert_close(ours, own, atol=1e-12, rtol=1e-12)


# Sizes, prompts, guidance ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("visual", (7, 6), "6 x 6 pixels only"),
        ("janus", (24, 12), "cannot draw 24 x 12; it draws 12 x 12 pixels only"),
        ("emu3", (11, 8), "multiples of 2 pixels"),
        ("emu3", (0, 8), "multiples of 2 pixels"),
        ("emu3", (80, 80), "fewer than 160 tokens"),
        ("glm_image", (256, 100), "multiples of 32 pixels"),
        ("glm_image", (32 * 400, 32), "sides that differ less"),
        ("chameleon", (256, 512), "512 x 512 pixels only"),
        ("lumina", (96, 40), "multiples of 32 pixels"),
        ("imagegpt", (12, 12), "6 x 6 pixels only"),
    ],
)
def test_sizes_that_the_layout_forbids_are_refused(name: str, size: tuple[int, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        drawn(name).target.sized(*size)


def test_sizes_that_it_allows_change_a_view_only() -> None:
    target = drawn("emu3").target
    wide = target.sized(12, 4)
    assert (wide.layout.width, wide.layout.height, wide.layout.size) == (6, 2, 2 * 7 + 3)
    assert (target.layout.width, target.layout.height) == (5, 4)
    assert wide.size == (12, 4)
    lines = drawn("lumina").target.sized(64, 32)
    assert lines.head() == [20, 24, 25]  # begin of image, one step high, two wide


@pytest.mark.parametrize("name", BUILDERS)
def test_empty_prompts_are_refused(name: str) -> None:
    for empty in ("", " \n"):
        with pytest.raises(UsageError, match="the prompt is empty"):
            drawn(name).target.encode_caption(empty)
    with pytest.raises(UsageError, match="0 tokens"):
        drawn(name).target.open([Prompt(torch.empty(0, dtype=torch.long))])


def test_prompts_that_leave_no_room_for_the_picture_are_refused() -> None:
    target = drawn("visual").target
    fits = target.max_length - target.layout.size + 1
    target.open([Prompt(torch.full((fits,), 5))])
    with pytest.raises(UsageError, match="1 fewer"):
        target.open([Prompt(torch.full((fits + 1,), 5))])


@pytest.mark.parametrize("name", ["glm_image", "chameleon", "imagegpt"])
def test_guidance_without_an_unconditional_branch_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no unconditional branch"):
        drawn(name).target.guided(3.0)
    assert drawn(name).target.guided(1.0).guidance == 1.0


@pytest.mark.parametrize("scale", [0.5, -1.0, float("inf"), float("nan")])
def test_guidance_out_of_range_is_refused(scale: float) -> None:
    with pytest.raises(UsageError, match="1 \\(none\\) or more"):
        drawn("janus").target.guided(scale)


def test_editing_a_picture_is_refused() -> None:
    prompt = Prompt(torch.tensor([5, 6]), {"pixel_values": torch.zeros(1)})
    with pytest.raises(UsageError, match="captions"):
        drawn("glm_image").target.open([prompt])


def test_codes_that_are_scattered_are_refused() -> None:
    assert first_code([4, 5, 6], "X") == 4
    with pytest.raises(UsageError, match="do not follow one another"):
        first_code([4, 6], "X")


# What captions become -------------------------------------------------------------------------------------------------


def _spelled(target: Any, ids: torch.Tensor) -> str:
    return target.tokenizer.decode(ids, skip_special_tokens=False)


def test_emu3_prompt_tells_the_size_in_codes() -> None:
    target = drawn("emu3").target._view(processor=checkpoints.tokenizer())
    text = _spelled(target, target.encode_caption("a fish").ids)
    assert text == "<|begin|>a fish<|image start|>4*5<|image token|>"
    against = target.against("ugly")
    assert _spelled(against, against.unconditional(Prompt(torch.tensor([1]))).ids).startswith("<|begin|>ugly<|image")


def test_janus_prompt_ends_with_the_begin_of_the_image() -> None:
    target = drawn("janus").target._view(processor=checkpoints.tokenizer())
    ids = target.encode_caption("a fish").ids
    assert int(ids[-1]) == 90
    assert _spelled(target, ids[:-1]) == "<|begin|><|user|>a fish<end_of_utterance><|assistant|>"
    assert target.unconditional(Prompt(torch.tensor([1, 5, 6, 90]))).ids.tolist() == [1, 0, 0, 90]


def test_glm_image_prompt_tells_both_grids() -> None:
    target = drawn("glm_image").target._view(processor=checkpoints.tokenizer())
    assert "a fish" in (text := _spelled(target, target.encode_caption("a fish").ids))
    assert text.endswith("<sop>1 8<eop><sop>5 45<eop><|begin|>")


@pytest.mark.parametrize(("columns", "rows"), [(36, 24), (24, 36), (32, 32), (8, 1), (40, 17)])
def test_previews_have_the_processors_own_shape(columns: int, rows: int) -> None:
    height, width, low, narrow = T.GlmImageProcessor._get_target_shape(None, rows * 32, columns * 32)  # type: ignore[arg-type]
    assert (width, height) == (columns, rows)
    assert preview(columns, rows) == (narrow, low)


def test_lumina_prompt_asks_for_the_size_and_ends_with_it() -> None:
    target = drawn("lumina").target._view(processor=checkpoints.tokenizer())
    ids = target.encode_caption("a fish").ids
    assert ids[-4:].tolist() == [22, 20, 25, 26]  # end of turn, begin of image, two steps high, three wide
    assert "96x64" in _spelled(target, ids[:-4])
    assert target.unconditional(Prompt(ids)).ids.tolist() == [20, 25, 26]


# Pictures -------------------------------------------------------------------------------------------------------------


def _codes(layout: Layout, seed: int = 0) -> list[int]:
    draw = torch.Generator().manual_seed(seed)
    free = torch.randint(*layout.codes, (layout.size,), generator=draw).tolist()
    return [code if demand < 0 else demand for code, demand in zip(free, layout.forced, strict=True)]


def test_janus_pictures_are_its_processors_own() -> None:
    made = drawn("janus")
    tokens = _codes(made.target.layout)
    with torch.no_grad():
        own = made.model.decode_image_tokens(torch.tensor([tokens]))
    processor = T.JanusImageProcessorPil(image_mean=[0.5] * 3, image_std=[0.5] * 3)
    given = list(own.float().permute(0, 3, 1, 2))
    wanted = processor.postprocess(given, return_tensors="PIL.Image.Image")["pixel_values"][0]
    (picture,) = made.target.frames(tokens)
    assert picture.size == made.target.size == (12, 12)
    assert np.array_equal(np.asarray(picture), np.asarray(wanted))


def test_emu3_pictures_are_its_own_decoders() -> None:
    made = drawn("emu3")
    tokens, layout = _codes(made.target.layout), made.target.layout
    own = made.model.decode_image_tokens(image_tokens=torch.tensor([tokens]), height=layout.height, width=layout.width)
    (picture,) = made.target.frames(tokens)
    assert picture.size == (10, 8)
    wanted = ((own[0].float().permute(1, 2, 0) * 0.5 + 0.5) * 255).clamp(0, 255).to(torch.uint8)
    assert np.array_equal(np.asarray(picture), wanted.numpy())


def test_imagegpt_pictures_are_its_clusters() -> None:
    made = drawn("imagegpt")
    tokens = _codes(made.target.layout)
    clusters = np.asarray(made.target.processor.clusters)
    wanted = np.rint(127.5 * (clusters[tokens] + 1.0)).reshape(6, 6, 3).astype(np.uint8)
    assert np.array_equal(np.asarray(made.target.frames(tokens)[0]), wanted)


def test_what_is_not_drawn_is_grey_and_clips_have_frames() -> None:
    book = Codebook(np.zeros((32, 12), np.float32), 2)
    layout = Layout.raster(4, 3, 2, codes=(30, 62))
    target = Visual(drawn("visual").model, plan=Plan(layout, book))
    first, second = target.frames([30] * 13 + [-1, 31])
    assert first.size == second.size == (8, 6)
    assert not np.asarray(first).any()
    cells = np.asarray(second)[::2, ::2, 0]
    assert cells.tolist() == [[0, 128, 0, 128], [128] * 4, [128] * 4]


@pytest.mark.parametrize("name", ["chameleon", "glm_image", "visual"])
def test_classes_without_a_decoder_say_so(name: str) -> None:
    target = drawn(name).target
    with pytest.raises(UsageError, match="no decoder for its codes"):
        target.frames(_codes(target.layout))


# Traps ----------------------------------------------------------------------------------------------------------------


def test_chameleon_forbids_itself_to_draw_and_is_not_asked() -> None:
    """The class writes the lowest float over the logits of codes: its own `generate` can never draw."""
    made = drawn("chameleon")
    prompt = made.prompts()[0]
    with torch.no_grad():
        masked = made.model(prompt.ids[None]).logits[0, -1]
    ours = made.target.unruled().open([prompt])[2].logits[0, 0]
    codes = slice(*made.target.layout.codes)
    assert (masked[codes] == torch.finfo(masked.dtype).min).all()
    assert (ours[codes].abs() < 1e3).all()
    assert torch.equal(ours[: codes.start], masked[: codes.start])


def test_guidance_of_a_checkpoint_is_its_default_and_no_lost_setting(recwarn: pytest.WarningsRecorder) -> None:
    model = drawn("emu3").model
    model.generation_config.guidance_scale, model.generation_config.top_k = 3.0, 2048
    try:
        target = load_target(model)
        assert target.dropped == {}
        assert target.defaults == {"guidance": 3.0, "temperature": 1.0, "top_k": 2048}
        assert target.guidance == 1.0
    finally:
        model.generation_config.guidance_scale, model.generation_config.top_k = None, None
    assert not recwarn.list


def test_guesses_that_are_no_codes_are_read_without_harm() -> None:
    """A drafter may copy ids of the prompt, which the embedding of codes does not hold."""
    target, prompt = drawn("janus").target, drawn("janus").prompts()[0]
    session, _, _ = target.open([prompt])
    session.commit(torch.zeros(1, 1, dtype=torch.long), torch.ones(1, dtype=torch.long))
    odd = session.forward(torch.tensor([5]), Draft.chain(torch.tensor([[7, 95]]))).logits
    plain = session.forward(torch.tensor([5]), Draft.chain(torch.tensor([[7]]))).logits
    torch.testing.assert_close(odd[:, :2], plain)


def test_shared_parts_of_janus_are_those_of_its_codes() -> None:
    target = drawn("janus").target
    shared = target.shared
    assert (shared.vocab_size, shared.width, shared.depth) == (72, 32, 3)
    assert shared.head(shared.embed(torch.tensor([[3, 71]]))).shape == (1, 2, 72)


@pytest.mark.parametrize("name", ["janus", "emu3", "imagegpt"])
def test_what_trained_drafters_read_is_there(name: str) -> None:
    """Merged embeddings, layers and received attention of the conditional rows; a class that hides it says so."""
    target, prompts = drawn(name).target, drawn(name).prompts()
    _, context, seen = target.open(prompts, Needs(layers=(1, 3), embeddings=True))
    assert context.features is not None
    assert context.embeddings is not None
    assert seen.features is not None
    last = [row[len(prompt.ids) - 1] for row, prompt in zip(context.features, prompts, strict=True)]
    assert torch.equal(torch.stack(last), seen.features[:, 0])
    assert context.embeddings.shape[2] * 2 == context.features.shape[2] == 64
    if name == "imagegpt":
        with pytest.raises(UsageError, match="no received attention"):
            target.open(prompts, Needs(scores=True))
    else:
        assert target.open(prompts, Needs(scores=True))[1].scores is not None
