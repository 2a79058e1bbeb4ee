"""Teacher-forced replay: what a drafter's rounds would have been along recorded answers, without the target.

Under the Gumbel race, greedy included, the text does not depend on the drafter: rounds along a recorded text are those
of live decoding, integer for integer, up to the end of the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from paceline.clock import Clock, silent
from paceline.core import Context, Draft, Drafter, Needs, Pass, Prompt, Rule, Shared, decode
from paceline.couplings import Gumbel
from paceline.sampling import GREEDY, Sampling
from paceline.trace import Round
from paceline.train.taps import Taps


@dataclass(frozen=True, slots=True)
class Recording:
    """One prompt with its answer and what the target held at each token but the last."""

    prompt: Prompt
    answer: Tensor  # [A] int64
    taps: Taps  # of this talk alone, one branch
    seed: int = 0

    @property
    def text(self) -> Tensor:
        """[S + A]; prompt and answer."""
        return torch.cat([self.prompt.ids, self.answer])


@dataclass(frozen=True)
class ReplayTarget:
    """Speaks recorded texts to whoever opens it with their prompts, in this order; off the text it says the same."""

    recordings: Sequence[Recording]
    forced: bool = True  # the recorded token always wins, as a greedy target says it; else the laws are the target's

    @property
    def shared(self) -> Shared:
        return self.recordings[0].taps.shared

    @property
    def vocab_size(self) -> int:
        return self.shared.vocab_size

    def open(
        self, prompts: Sequence[Prompt], needs: Needs = Needs(), *, clock: Clock = silent
    ) -> tuple[ReplaySession, Context, Pass]:
        """Raises ValueError for prompts that are not the recorded ones."""
        if [len(p.ids) for p in prompts] != [len(r.prompt.ids) for r in self.recordings]:
            raise ValueError("a replay opens with the prompts that were recorded, in their order")
        session = ReplaySession(self, needs.layers)
        sizes = [len(prompt.ids) for prompt in prompts]

        def padded(values: Sequence[Tensor]) -> Tensor:
            return pad_sequence([v[:n] for v, n in zip(values, sizes, strict=True)], batch_first=True)

        every = [recording.taps for recording in self.recordings]
        ids = pad_sequence([p.ids for p in prompts], batch_first=True, padding_value=-1).to(session.text.device)
        context = Context(
            tuple(prompts), ids, ids >= 0, padded([t.image[0] for t in every]),
            padded([_some(t.embeddings)[0] for t in every]) if needs.embeddings else None,
            padded([_layers(t, needs.layers) for t in every]) if needs.layers else None,
            padded([_some(t.scores)[0] for t in every]) if needs.scores else None,
        )  # fmt: skip
        root = session.text.gather(1, session.length[:, None])[:, 0]
        return session, context, session.forward(root, Draft.none(root))


class ReplaySession:
    """Where in its text each row stands."""

    def __init__(self, target: ReplayTarget, layers: tuple[int, ...]) -> None:
        every = target.recordings
        shared, self.forced = target.shared, target.forced
        self.text = pad_sequence([r.text for r in every], batch_first=True, padding_value=0).to(shared.like.device)
        self.features = pad_sequence([_layers(r.taps, layers) for r in every], batch_first=True) if layers else None
        self.last = pad_sequence([r.taps.at[shared.depth][0] for r in every], batch_first=True)
        self.head = shared.head
        self.length = torch.tensor([len(r.prompt.ids) - 1 for r in every], device=self.text.device)

    @torch.inference_mode()
    def forward(self, root: Tensor, draft: Draft, start: int = 0) -> Pass:
        """What stands in the text at each node's place, whatever the node guessed."""
        place = (self.length[:, None] + draft.tree.depth)[:, start:].clamp(max=self.last.shape[1] - 1)
        rows = torch.arange(len(place), device=place.device)[:, None]
        logits = self.head(self.last[rows, place])
        if self.forced:
            truth = self.text[rows, (place + 1).clamp(max=self.text.shape[1] - 1)]
            logits = logits.scatter(-1, truth[..., None], logits.amax(-1, keepdim=True) + 1)
        return Pass(logits, None if self.features is None else self.features[rows, place])

    def commit(self, path: Tensor, length: Tensor) -> None:
        self.length = self.length + length

    def keep(self, rows: Tensor) -> None:
        self.text, self.last, self.length = self.text[rows], self.last[rows], self.length[rows]
        self.features = None if self.features is None else self.features[rows]

    def join(self, other: ReplaySession) -> None:
        raise NotImplementedError("a replay is not joined: open it with all of its recordings")


def rounds(
    recordings: Sequence[Recording], drafter: Drafter, sampling: Sampling = GREEDY, *, together: int = 16
) -> list[list[Round]]:
    """The rounds of each recording: accepted and committed are clipped where its answer ends."""
    found: list[list[Round]] = []
    for start in range(0, len(recordings), together):
        found += _rounds(recordings[start : start + together], drafter, sampling)
    return found


def _rounds(recordings: Sequence[Recording], drafter: Drafter, sampling: Sampling) -> list[list[Round]]:
    target = ReplayTarget(recordings, forced=sampling.temperature == 0)
    seeds = torch.tensor([r.seed for r in recordings], device=target.shared.like.device)
    decoding = decode(target, drafter, Rule(sampling.law, Gumbel()), [r.prompt for r in recordings], seeds)
    found: list[list[Round]] = [[] for _ in recordings]
    left, alive = [len(r.answer) for r in recordings], list(range(len(recordings)))
    for number, verdict in enumerate(decoding):
        for row, length, proposed in zip(alive, verdict.length.tolist(), verdict.proposed.tolist(), strict=True):
            kept = min(length, left[row])
            left[row] -= kept
            if number:
                found[row].append(Round(proposed, min(length - 1, kept), kept))
        stay = [i for i, row in enumerate(alive) if left[row]]
        if not stay:
            break
        if len(stay) < len(alive):
            decoding.keep(torch.tensor(stay, device=seeds.device))
            alive = [alive[i] for i in stay]
    return found


def _layers(taps: Taps, layers: tuple[int, ...]) -> Tensor:
    """[T, F] of a talk alone, the asked-for layers side by side."""
    count = int(taps.valid[0].sum())
    return torch.cat([taps.at[k][0, :count] for k in layers], -1)


def _some(values: Tensor | None) -> Tensor:
    if values is None:
        raise ValueError("the recording lacks what this drafter reads: tap it with the drafter's needs")
    return values
