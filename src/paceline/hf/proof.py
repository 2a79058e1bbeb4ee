"""Is a class that nobody tested driven exactly? Asked of itself on a few tokens when it is loaded."""

from __future__ import annotations

import torch
from torch import Tensor

from paceline import tree
from paceline.clock import silent
from paceline.core import Draft, Needs, Prompt
from paceline.errors import UsageError
from paceline.hf.body import Body, unchanged
from paceline.hf.prefill import open_session

PROMPT, COLUMNS = 4, 5
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3}  # of the logits' spread; shorter floats: a tenth


@torch.inference_mode()
def prove(body: Body) -> None:
    """Raise UsageError unless prefill, a verified draft and what follows it equal the class's own full forward.

    The draft is a tree with a wrong branch, or a chain where layers are recurrent; its right branch is committed.
    """
    vocab = body.model.get_output_embeddings().weight.shape[0]
    ids = (torch.arange(PROMPT + COLUMNS + 1, device=body.model.device) * 7 + 5) % vocab
    line, after = ids[PROMPT : PROMPT + 4], ids[-1:]
    zero = torch.zeros_like(after)
    session, _, seen = open_session(body, [Prompt(ids[:PROMPT])], Needs(), (), silent)
    session.commit(zero[None], zero + 1)
    found = [seen.logits[0, 0]]
    if body.recurrent:
        found += session.forward(line[:1], Draft.chain(line[None, 1:])).logits[0]
        path = [0, 1, 2, 3]
    else:  # the root, a wrong child, the right one, a wrong grandchild, the right one, and one more below that
        wrong = ids[PROMPT + 4].expand(2)
        tokens = torch.stack([wrong[0], line[1], wrong[1], line[2], line[3]])
        parents = torch.tensor([[0, 0, 2, 2, 4]], device=ids.device)
        path = [0, 2, 4, 5]
        found += session.forward(line[:1], Draft(tokens[None], tree.of(parents))).logits[0, path]
    session.commit(torch.tensor([path], device=ids.device), zero + 4)
    found.append(session.forward(after, Draft.none(after)).logits[0, 0])
    error = _error(body, torch.cat([ids[:PROMPT], line, after]), torch.stack(found))
    if not error <= TOLERANCE.get(body.dtype, 0.1):
        raise UsageError(
            f"{type(body.model).__name__} cannot be driven exactly: drafted logits differ from its own by {error:.1e} "
            "of their spread"
        )


def _error(body: Body, ids: Tensor, found: Tensor) -> float:
    with unchanged(body.model):
        own = body.model(input_ids=ids[None], use_cache=False).logits[0, PROMPT - 1 :]
    return float((found - own).abs().max() / own.std())
