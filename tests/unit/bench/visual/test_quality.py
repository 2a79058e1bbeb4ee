"""Quality measures with toy networks whose answers are known in closed form."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from paceline.bench.visual import quality
from paceline.errors import UsageError

pytest.importorskip("torchmetrics")


class Corner(nn.Module):
    """Features: red and green of the first pixel, of a picture or of the first frame of a clip."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(2)[:, :2, 0].double()


class Bright(nn.Module):
    """Logits of two classes, dark and bright, with hardly a doubt."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.double().flatten(1).mean(1)
        return torch.stack([127 - mean, mean - 128], 1) * 0.1


def saved(network: nn.Module, tmp_path: Path) -> Path:
    """The network as TorchScript, the form in which feature networks are published."""
    path = tmp_path / f"{type(network).__name__}.pt"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        torch.jit.script(network).save(str(path))
    return path


def noise(count: int, low: int, shape: tuple[int, ...], seed: int) -> Tensor:
    drawn = torch.randint(low, low + 40, (count, *shape), generator=torch.Generator().manual_seed(seed))
    return drawn.to(torch.uint8)


@pytest.mark.parametrize("shape", [(3, 4, 4), (3, 5, 4, 4)])
def test_frechet_is_the_distance_of_two_gaussians(tmp_path: Path, shape: tuple[int, ...]) -> None:
    from scipy.linalg import sqrtm

    real, drawn = noise(200, 20, shape, 1), noise(300, 60, shape, 2)
    features = quality.load_features(saved(Corner(), tmp_path), drawn)
    a, b = (Corner()(x).numpy() for x in (real, drawn))
    covariance = [np.cov(x, rowvar=False) for x in (a, b)]
    mixed = sqrtm(covariance[0] @ covariance[1]).real
    expected = ((a.mean(0) - b.mean(0)) ** 2).sum() + np.trace(covariance[0] + covariance[1] - 2 * mixed)
    assert quality.frechet(real, drawn, features) == pytest.approx(expected, rel=1e-3)
    assert quality.frechet(real, real, features) == pytest.approx(0, abs=1e-2)


def test_inception_score_counts_the_classes_that_are_drawn(tmp_path: Path) -> None:
    both = torch.cat([torch.full((20, 3, 4, 4), 10), torch.full((20, 3, 4, 4), 240)]).to(torch.uint8)
    classes = quality.load_features(saved(Bright(), tmp_path), both)
    assert quality.inception_score(both, classes) == pytest.approx(2, rel=1e-3)
    assert quality.inception_score(both[:20], classes) == pytest.approx(1, rel=1e-3)


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    """A CLIP of a few thousand random weights."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel, PreTrainedTokenizerFast

    words = {"<|startoftext|>": 0, "<|endoftext|>": 1, "red": 2, "blue": 3, "apple": 4}
    raw = Tokenizer(models.WordLevel(words, unk_token="<|endoftext|>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    raw.post_processor = processors.TemplateProcessing(  # type: ignore[assignment]
        single="<|startoftext|> $A <|endoftext|>", special_tokens=[("<|startoftext|>", 0), ("<|endoftext|>", 1)]
    )
    PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<|startoftext|>", eos_token="<|endoftext|>", pad_token="<|endoftext|>"
    ).save_pretrained(tmp_path)
    small = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = {**small, "vocab_size": 5, "max_position_embeddings": 16, "eos_token_id": 1, "bos_token_id": 0}
    torch.manual_seed(0)
    CLIPModel(
        CLIPConfig(text_config=text, vision_config={**small, "image_size": 16, "patch_size": 8}, projection_dim=8)
    ).save_pretrained(tmp_path)
    CLIPImageProcessorPil(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16}).save_pretrained(tmp_path)
    return tmp_path


def test_clip_score_is_a_hundred_times_the_cosine(clip: Path) -> None:
    drawn, captions = noise(3, 50, (3, 16, 16), 3), ["red apple", "blue apple", "red"]
    model, reader = quality._clip(clip)
    inputs = reader(text=captions, images=list(drawn), return_tensors="pt", padding=True)
    with torch.no_grad():
        out = model.model(**inputs)
    cosines = (out.image_embeds * out.text_embeds).sum(-1)
    expected = max(100 * float(cosines.mean()), 0.0)
    assert quality.clip_score(drawn, captions, clip) == pytest.approx(expected, abs=0.01)


@pytest.mark.slow
def test_exported_networks_are_read_too(tmp_path: Path) -> None:
    drawn = noise(5, 0, (3, 4, 4), 9)
    shapes = ({0: torch.export.Dim("batch", min=1, max=64)},)
    torch.export.save(torch.export.export(Corner(), (drawn,), dynamic_shapes=shapes), tmp_path / "corner.pt2")
    features = quality.load_features(tmp_path / "corner.pt2", drawn)
    assert features.num_features == 2
    assert torch.equal(features(drawn[:3]), Corner()(drawn[:3]))


def test_networks_that_are_not_there_are_named(tmp_path: Path) -> None:
    drawn = noise(2, 0, (3, 4, 4), 0)
    with pytest.raises(UsageError, match="no feature network at"):
        quality.load_features(tmp_path / "inception.pt", drawn)
    with pytest.raises(UsageError, match="no CLIP model at"):
        quality.clip_score(drawn, ["a", "b"], tmp_path)
    (tmp_path / "junk.pt").write_bytes(b"junk")
    with pytest.raises(UsageError, match="is not a network that takes"):
        quality.load_features(tmp_path / "junk.pt", drawn)


def test_the_command_prints_what_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, low in (("drawn", 10), ("real", 90)):
        (tmp_path / folder).mkdir()
        for i, pixels in enumerate(noise(4, low, (3, 6, 5), 5)):
            Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(tmp_path / folder / f"{i}.png")
    network = saved(Corner(), tmp_path)
    asked = ["--drawn", str(tmp_path / "drawn"), "--real", str(tmp_path / "real"), "--features", str(network)]
    assert quality.main(asked) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["drawn"] == told["real"] == 4
    assert math.isfinite(told["fid"])
    assert told["fid"] > 2 * 50**2
    assert quality.main(["--drawn", str(tmp_path / "drawn"), "--features", str(network)]) == 2
    assert "give --real" in capsys.readouterr().err
    assert quality.main(["--drawn", str(tmp_path)]) == 2
