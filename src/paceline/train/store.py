"""Taps on disk, so that many runs learn from one pass of the target: a file a talk, with an estimate before it starts.

`hidden_states/hs_{i}.safetensors` holds `hidden_states` [T, n, H] and `token_ids` [T] as speculators reads them, and
beside them what says which rows are whose.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from paceline.core import Needs, Shared
from paceline.errors import UsageError
from paceline.train.taps import Talk, Taps, tap

ROWS = ("position", "image", "owner", "before", "begin", "labels")
SPARE = 0.05  # share of the free disk that is left alone
Numbered = Callable[[int], Talk]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a store will take, from a sample of its talks."""

    talks: int
    rows: int  # tokens, all talks together
    bytes: int
    free: int  # bytes on the disk that it goes to

    def __str__(self) -> str:
        gib = 2**30
        return (
            f"{self.talks:,} talks, about {self.rows:,} tokens: {self.bytes / gib:.2f} GiB "
            f"of {self.free / gib:.2f} GiB free"
        )


class Store:
    """Taps by number. Raises UsageError for a directory that holds those of another target or other layers."""

    def __init__(self, directory: Path, target: Any, needs: Needs, talks: int) -> None:
        self.directory, self.target, self.needs, self.talks = directory, target, needs, talks
        self.layers = tuple(sorted({*needs.layers, *([0] if needs.embeddings else [])}))
        self.head = {"target": target.fingerprint(), "layers": list(self.layers), "scores": needs.scores}
        index = directory / "index.json"
        if index.is_file() and json.loads(index.read_text(encoding="utf-8")) != json.loads(json.dumps(self.head)):
            raise UsageError(f"{directory} holds taps of another target or of other layers: give another place")

    def path(self, number: int) -> Path:
        return self.directory / "hidden_states" / f"hs_{number}.safetensors"

    def estimate(self, talk: Numbered, sample: int = 32) -> Estimate:
        """The size of all talks, by the mean of some spread evenly over them."""
        count = min(sample, self.talks)
        chosen = [i * self.talks // count for i in range(count)]
        rows = round(sum(talk(i).rows for i in chosen) / count * self.talks)
        shared = self.target.shared
        each = len(self.layers) * shared.width * shared.like.element_size() + 8 * (len(ROWS) + 2)
        near = next(p for p in (self.directory, *self.directory.absolute().parents) if p.exists())
        return Estimate(self.talks, rows, rows * each, shutil.disk_usage(near).free)

    def fill(self, talk: Numbered, show: Callable[[int, int], None] | None = None) -> None:
        """Write what is missing. Raises UsageError before the first byte where the disk is too small."""
        missing = [i for i in range(self.talks) if not self.path(i).is_file()]
        if not missing:
            return
        whole = self.estimate(talk)
        wanted = whole.bytes * len(missing) // self.talks
        if wanted > whole.free * (1 - SPARE):
            raise UsageError(f"the store at {self.directory} does not fit its disk: {whole}")
        (self.directory / "hidden_states").mkdir(parents=True, exist_ok=True)
        (self.directory / "index.json").write_text(json.dumps(self.head, indent=1), encoding="utf-8")
        for done, number in enumerate(missing, start=1):
            self._write(number, tap(self.target, [talk(number)], self.needs))
            if show is not None:
                show(done, len(missing))

    def _write(self, number: int, taps: Taps) -> None:
        from safetensors.torch import save_file

        states = {**taps.at, **({} if taps.embeddings is None else {0: taps.embeddings})}
        tensors = {name: getattr(taps, name)[0].contiguous() for name in ROWS}
        tensors["hidden_states"] = torch.stack([states[k][0] for k in self.layers], 1)
        tensors["token_ids"] = taps.ids[0].contiguous()
        if taps.scores is not None:
            tensors["scores"] = taps.scores[0].contiguous()
        draft = self.path(number).with_suffix(".writing")
        save_file(tensors, draft, metadata={"name": taps.name})
        draft.replace(self.path(number))

    def read(self, numbers: Sequence[int]) -> Taps:
        """The taps of these talks side by side."""
        return together([self._read(number) for number in numbers])

    def _read(self, number: int) -> Taps:
        from safetensors import safe_open

        with safe_open(self.path(number), framework="pt") as file:
            got = {key: file.get_tensor(key)[None] for key in file.keys()}  # noqa: SIM118 - no mapping
            name = file.metadata()["name"]
        states = dict(zip(self.layers, got.pop("hidden_states").unbind(2), strict=True))
        ids = got.pop("token_ids")
        return Taps(
            name, ids, got["position"], torch.ones_like(ids, dtype=torch.bool), got["image"], got["owner"],
            got["before"], got["begin"], got["labels"], {k: states[k] for k in self.needs.layers},
            states[0] if self.needs.embeddings else None, got.get("scores"), self.target.shared,
        )  # fmt: skip


def together(taps: Sequence[Taps]) -> Taps:
    """Taps of one row each as one batch, padded on the right."""

    def padded(values: Sequence[Tensor], fill: float = 0) -> Tensor:
        return pad_sequence([value[0] for value in values], batch_first=True, padding_value=fill)

    def maybe(values: Sequence[Tensor | None]) -> Tensor | None:
        known = [value for value in values if value is not None]
        return padded(known) if known else None

    shared: Shared = taps[0].shared
    return Taps(
        "; ".join(t.name for t in taps),
        padded([t.ids for t in taps]),
        padded([t.position for t in taps]),
        padded([t.valid for t in taps]),
        padded([t.image for t in taps]),
        padded([t.owner for t in taps], -1),
        padded([t.before for t in taps]),
        padded([t.begin for t in taps]),
        padded([t.labels for t in taps], -1),
        {k: padded([t.at[k] for t in taps]) for k in taps[0].at},
        maybe([t.embeddings for t in taps]),
        maybe([t.scores for t in taps]),
        shared,
    )
