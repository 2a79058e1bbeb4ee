"""Quality of drawn pictures and clips, through torchmetrics and feature networks on local disk.

    python -m paceline.bench.visual.quality --drawn DIR [--real DIR] [--features FILE] [--classes FILE] [--clip DIR]

FID and FVD say how far apart two sets look to a network; they cannot prove losslessness (a biased rule scored 30.83
beside 30.79), which the laws do. They are noisy below some thousand samples: the counts are printed with them.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from paceline.errors import UsageError

BATCH = 32  # pictures, or clips, in one forward of a network
ENDINGS = (".png", ".jpg", ".jpeg", ".webp")


class Features(nn.Module):
    """A local network: pictures [n, 3, H, W], or clips [n, 3, T, H, W], of bytes to features [n, F].

    `options` are keywords of its forward, such as {"return_features": True} of the published Inception and I3D files.
    """

    def __init__(self, network: nn.Module, size: int, options: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.network, self.num_features, self.options = network, size, options or {}

    def forward(self, x: Tensor) -> Tensor:
        """[n, F] features."""
        return self.network(x, **self.options).reshape(len(x), -1)


def load_features(path: Path, example: Tensor, options: dict[str, Any] | None = None) -> Features:
    """The network in a file (.pt2: torch.export; else TorchScript, as Inception and I3D are published).

    Its width is learnt from an example. Raises UsageError for a file that is missing, or no network for such input.
    """
    if not path.is_file():
        raise UsageError(f"no feature network at {path}: FID, IS and FVD need one on local disk (.pt2 or TorchScript)")
    try:
        network = _open(path)
        with torch.inference_mode():
            size = network(example[:1], **(options or {})).reshape(1, -1).shape[1]
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise UsageError(f"{path} is not a network that takes {list(example.shape[1:])}: {reason}") from None
    return Features(network, size, options)


def _open(path: Path) -> nn.Module:
    if path.suffix == ".pt2":
        return torch.export.load(path).module()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)  # the form in which others publish them
        return torch.jit.load(path, map_location="cpu").eval()


def frechet(real: Tensor, drawn: Tensor, features: Features) -> float:
    """Fréchet distance of two sets: FID for pictures (Heusel et al. 2017), FVD for clips (Unterthiner et al. 2018)."""
    from torchmetrics.image.fid import FrechetInceptionDistance

    if min(len(real), len(drawn)) < 2:
        raise UsageError(f"a distance of sets needs 2 samples or more on each side, not {len(real)} and {len(drawn)}")
    metric = FrechetInceptionDistance(feature=features)
    for samples, is_real in ((real, True), (drawn, False)):
        for part in samples.split(BATCH):
            metric.update(part, real=is_real)
    return float(metric.compute())


def inception_score(drawn: Tensor, classes: Features) -> float:
    """exp of the mean KL of p(class | picture) from p(class) over all pictures (Salimans et al. 2016), in one split."""
    from torchmetrics.image.inception import InceptionScore

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Metric `InceptionScore` will save all", UserWarning)
        warnings.filterwarnings("ignore", "std.*degrees of freedom", UserWarning)  # of one split, which nobody reads
        metric = InceptionScore(feature=classes, splits=1)
        for part in drawn.split(BATCH):
            metric.update(part)
        return float(metric.compute()[0])


def clip_score(drawn: Tensor, captions: Sequence[str], directory: Path) -> float:
    """100 times the mean cosine between picture and caption (Hessel et al. 2021), by a CLIP in a local directory."""
    from torchmetrics.multimodal.clip_score import CLIPScore

    if not (directory / "config.json").is_file():
        raise UsageError(f"no CLIP model at {directory}: CLIP-score needs one on local disk")
    if len(captions) != len(drawn):
        raise UsageError(f"{len(drawn)} pictures, but {len(captions)} captions")
    metric = CLIPScore(lambda: _clip(directory))
    for start in range(0, len(drawn), BATCH):
        metric.update(list(drawn[start : start + BATCH]), list(captions[start : start + BATCH]))
    return float(metric.compute())


def _clip(directory: Path) -> tuple[Any, Any]:
    from transformers import CLIPImageProcessorPil, CLIPModel, CLIPProcessor, CLIPTokenizer

    reader = CLIPProcessor(CLIPImageProcessorPil.from_pretrained(directory), CLIPTokenizer.from_pretrained(directory))
    return _Embedder(CLIPModel.from_pretrained(directory).eval()), reader


class _Embedder(nn.Module):
    """A CLIP whose two methods give plain tensors, as torchmetrics expects and transformers 5 no longer does."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.config = model, model.config

    def get_image_features(self, *inputs: Tensor) -> Tensor:
        return self.model.get_image_features(*inputs).pooler_output

    def get_text_features(self, *inputs: Tensor) -> Tensor:
        return self.model.get_text_features(*inputs).pooler_output


def pictures(folder: Path) -> tuple[Tensor, list[str]]:
    """[n, 3, H, W] bytes of the pictures of a folder in the order of names, which come too. All of one size."""
    paths = sorted(path for path in folder.glob("*") if path.suffix.lower() in ENDINGS)
    if not paths:
        raise UsageError(f"{folder} holds no pictures ({', '.join(ENDINGS)})")
    loaded = []
    for path in paths:
        with Image.open(path) as picture:
            loaded.append(np.asarray(picture.convert("RGB")))
    if len({array.shape for array in loaded}) > 1:
        raise UsageError(
            f"the pictures of {folder} have {len({a.shape for a in loaded})} sizes; scale them to one first"
        )
    return batch(np.stack(loaded)), [path.name for path in paths]


def batch(pixels: np.ndarray) -> Tensor:
    """Bytes [n, H, W, 3] as [n, 3, H, W], or clips [n, T, H, W, 3] as [n, 3, T, H, W]."""
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(pixels, -1, 1)))


def _measure(given: argparse.Namespace) -> dict[str, Any]:
    drawn, names = pictures(given.drawn)
    found: dict[str, Any] = {"drawn": len(names)}
    options = json.loads(given.options)
    if given.features:
        if not given.real:
            raise UsageError("--features compares with real pictures: give --real")
        real, known = pictures(given.real)
        found |= {"real": len(known), "fid": frechet(real, drawn, load_features(given.features, drawn, options))}
    if given.classes:
        found["inception_score"] = inception_score(drawn, load_features(given.classes, drawn))
    if given.clip:
        if not given.captions:
            raise UsageError("--clip compares with captions: give --captions, one a line in the order of names")
        captions = [line for line in given.captions.read_text(encoding="utf-8").splitlines() if line.strip()]
        found["clip_score"] = clip_score(drawn, captions, given.clip)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the measures that were asked for as JSON; 2 for input that cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m paceline.bench.visual.quality", description=__doc__)
    parser.add_argument("--drawn", type=Path, required=True, help="folder of drawn pictures")
    parser.add_argument("--real", type=Path, help="folder of real pictures of the same size")
    parser.add_argument("--features", type=Path, help="file of FID's feature network (.pt2 or TorchScript)")
    parser.add_argument("--options", default="{}", help="keywords of its forward as JSON")
    parser.add_argument("--classes", type=Path, help="file of the inception score's classifier (logits)")
    parser.add_argument("--clip", type=Path, help="directory of a CLIP model")
    parser.add_argument("--captions", type=Path, help="captions, one a line, in the order of the drawn names")
    try:
        print(json.dumps(_measure(parser.parse_args(arguments)), indent=2))
    except UsageError as error:
        print(f"quality: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
