"""Drawing equals the class: logits a full forward's, greedy codes its own loop's, laws its own processed laws."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from paceline.core import Draft, Rule, decode
from paceline.couplings import Gumbel
from paceline.drafters.free.jacobi import pair
from paceline.drafters.free.none import NoDraft
from paceline.painting import strokes
from paceline.sampling import Sampling
from paceline.targets.drawing import Drawing
from paceline.tree import of
from unit.targets.drawn import BUILDERS, drawn
from unit.targets.own import full, generate, greedy, sampled_laws
from unit.targets.replay import Replay, Shape

GUIDED = ("visual", "janus", "emu3", "lumina")
COUNT = 27  # tokens compared: all of the smallest layout
GREEDY = Rule(Sampling().law, Gumbel())


def answer(target: Drawing, name: str, wanted: list[list[int]], shape: Shape) -> tuple[list[list[int]], set]:
    """Greedy codes of rows drawn side by side, and the numbers of guesses accepted in one round."""
    rows, ragged = [list[int]() for _ in wanted], set()
    prompts = drawn(name).prompts()[: len(wanted)]
    drafter = Replay(wanted, shape, ids=min(110, target.vocab_size))
    for verdict in decode(target, drafter, GREEDY, prompts, torch.zeros(len(wanted), dtype=torch.long)):
        for row, tokens, length in zip(rows, verdict.tokens.tolist(), verdict.length.tolist(), strict=True):
            row += tokens[:length]
        ragged.add(tuple(verdict.length.tolist()))
        if min(map(len, rows)) >= len(wanted[0]):
            return [row[: len(wanted[0])] for row in rows], ragged
    raise AssertionError("decode ended by itself")


@cache
def reference(name: str, guidance: float = 1.0) -> tuple[tuple[int, ...], ...]:
    """Greedy codes of the three prompts, drawn one by one: each the best behind those before it in a full forward."""
    target, prompts = drawn(name).target.guided(guidance), drawn(name).prompts()
    rows = answer(target, name, [[0] * COUNT] * len(prompts), "plain")[0]
    assert rows == [greedy(name, prompt, row, guidance) for prompt, row in zip(prompts, rows, strict=True)]
    return tuple(map(tuple, rows))


@pytest.mark.parametrize("name", BUILDERS)
def test_plain_codes_are_the_best_of_full_forwards(name: str) -> None:
    free = [
        i for row in reference(name) for i, at in zip(row, drawn(name).target.layout.forced, strict=False) if at < 0
    ]
    assert len(set(free)) >= 8
    if not drawn(name).alone:
        assert len(set(reference(name))) == 3, "the prompt changes nothing"


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("shape", ["chain", "tree"])
@pytest.mark.parametrize("name", BUILDERS)
def test_drafted_codes_equal_plain_ones(name: str, shape: Shape, rows: int) -> None:
    wanted = [list(row) for row in reference(name)[:rows]]
    got, lengths = answer(drawn(name).target, name, wanted, shape)
    assert got == wanted
    assert len(lengths) > 2, "acceptance is not ragged enough to test anything"


@pytest.mark.parametrize("name", GUIDED)
@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_guided_codes_equal_full_forwards(name: str, shape: Shape) -> None:
    wanted = [list(row) for row in reference(name, 2.5)]
    assert wanted != [list(row) for row in reference(name)], "guidance changes nothing"
    assert answer(drawn(name).target.guided(2.5), name, wanted, shape)[0] == wanted


@pytest.mark.parametrize("name", ["visual", "emu3", "glm_image", "imagegpt"])
def test_greedy_codes_equal_generate(name: str) -> None:
    """The full forwards that all else is compared with say what the class's own `generate` says."""
    prompt = drawn(name).prompts()[0]
    out = generate(name, prompt, COUNT, do_sample=False)
    assert out.sequences[0, len(prompt.ids) :].tolist() == list(reference(name)[0])


@pytest.mark.parametrize("name", ["visual", "emu3"])
def test_guided_greedy_codes_equal_generate(name: str) -> None:
    prompt = drawn(name).prompts()[0]
    out = generate(name, prompt, COUNT, guidance=2.5, do_sample=False)
    assert out.sequences[0, len(prompt.ids) :].tolist() == list(reference(name, 2.5)[0])


def test_janus_draws_what_its_own_generate_draws() -> None:
    made = drawn("janus")
    prompt, size = made.prompts()[0], made.target.layout.size
    with torch.no_grad():
        own = made.model.generate(
            prompt.ids[None], attention_mask=torch.ones_like(prompt.ids[None]), generation_mode="image",
            do_sample=False, guidance_scale=2.5,
        )[0].tolist()  # fmt: skip
    assert len(own) == size
    assert own == greedy("janus", prompt, own, 2.5)
    assert answer(made.target.guided(2.5), "janus", [own], "chain")[0] == [own]


def test_janus_own_generate_fails_without_guidance_and_ours_does_not() -> None:
    """`guidance_scale=1` leaves the class with rows for two halves and a law for one; here 1 means one half only."""
    made = drawn("janus")
    prompt = made.prompts()[0]
    with pytest.raises((RuntimeError, ValueError)), torch.no_grad():
        made.model.generate(
            prompt.ids[None], attention_mask=torch.ones_like(prompt.ids[None]), generation_mode="image",
            do_sample=False, guidance_scale=1.0,
        )  # fmt: skip
    session, _, _ = made.target.guided(1.0).open([prompt])
    assert len(session.length) == 1


def _laws(target: Drawing, prompt: object, said: list[int], sampling: Sampling) -> torch.Tensor:
    """[N, V]; the law at each offset of a sequence of codes, from one window over all of it."""
    session, _, seen = target.open([prompt])  # type: ignore[list-item]
    law = target.rule_law(sampling)
    session.commit(torch.zeros(1, 1, dtype=torch.long), torch.ones(1, dtype=torch.long))
    window = session.forward(torch.tensor(said[:1]), Draft.chain(torch.tensor([said[1:-1]])))
    return law(torch.cat([seen.logits, window.logits], 1)).dense(target.vocab_size)[0]


LAWS = [
    (name, guidance, top_k, top_p)
    for name in ("visual", "emu3", "glm_image", "imagegpt")
    for guidance, top_k, top_p in ((1.0, 0, 1.0), (1.0, 6, 0.8), (2.5, 6, 1.0))
    if guidance == 1 or name in GUIDED
]


@pytest.mark.parametrize(("name", "guidance", "top_k", "top_p"), LAWS)
def test_law_is_the_processed_law_of_generate(name: str, guidance: float, top_k: int, top_p: float) -> None:
    """Guidance, grammar, temperature, top-k, top-p, in this order: grammar after top-k would be another law."""
    torch.manual_seed(5)
    prompt = drawn(name).prompts()[0]
    out = generate(
        name, prompt, 20, guidance=guidance, do_sample=True, temperature=0.8, top_k=top_k or None, top_p=top_p
    )
    own = torch.stack(out.scores, 1)[0].softmax(-1)
    said = out.sequences[0, len(prompt.ids) :].tolist()
    target = drawn(name).target.guided(guidance)
    ours = _laws(target, prompt, said, Sampling(temperature=0.8, top_k=top_k, top_p=top_p))
    _near(ours.to(own.dtype), own, 1e-5)


def test_law_without_grammar_is_that_of_bare_generate() -> None:
    torch.manual_seed(5)
    prompt = drawn("glm_image").prompts()[0]
    out = generate("glm_image", prompt, 20, ruled=False, do_sample=True, top_k=0)
    said = out.sequences[0, len(prompt.ids) :].tolist()
    ours = _laws(drawn("glm_image").target.unruled(), prompt, said, Sampling(temperature=1.0))
    _near(ours.float(), torch.stack(out.scores, 1)[0].softmax(-1), 1e-5)


@pytest.mark.parametrize("top_k", [None, 0])
def test_janus_own_law_has_an_implicit_top_k(top_k: int | None) -> None:
    """Nobody asked for top-k 50, and the class applies it. Ours is 0 unless asked for."""
    made, prompt = drawn("janus"), drawn("janus").prompts()[0]
    torch.manual_seed(5)
    with sampled_laws() as seen, torch.no_grad():
        said = made.model.generate(
            prompt.ids[None], attention_mask=torch.ones_like(prompt.ids[None]), generation_mode="image",
            do_sample=True, guidance_scale=2.5, **({} if top_k is None else {"top_k": top_k}),
        )[0].tolist()  # fmt: skip
    own = torch.cat(seen)
    assert int((own > 0).sum(-1).max()) == (50 if top_k is None else made.target.vocab_size)
    assert made.target.defaults["top_k"] == 0
    sampling = Sampling(temperature=1.0, top_k=50 if top_k is None else 0)
    ours = _laws(made.target.guided(2.5), prompt, said, sampling)
    _near(ours.to(own.dtype), own, 1e-5)


@pytest.mark.parametrize("name", BUILDERS)
def test_windows_and_rollbacks_equal_full_forwards(name: str) -> None:
    """Ragged rows, windows with a wrong branch, what is kept of them unlike from row to row: logits to 1e-9."""
    made = drawn(name)
    target, prompts = made.target.unruled(), made.prompts()
    draw = torch.Generator().manual_seed(7)
    low, high = target.layout.codes
    size = min(target.layout.size, 240)
    codes = torch.randint(low, high, (3, size), generator=draw)
    wanted = [full(name, prompt.ids, row[:-1]) for prompt, row in zip(prompts, codes, strict=True)]
    session, _, seen = target.open(prompts)
    _near(seen.logits[:, 0], torch.stack([row[0] for row in wanted]))
    session.commit(torch.zeros(3, 1, dtype=torch.long), torch.ones(3, dtype=torch.long))
    at, step, spread = torch.zeros(3, dtype=torch.long), 0, 0
    parents, spine = torch.tensor([[0, 0, 2, 2, *range(4, 12)]]), [0, 2, *range(4, 13)]
    while int(at.max()) + len(spine) + 1 < size:
        right = torch.stack([row[i + 1 : i + len(spine)] for row, i in zip(codes, at, strict=True)])
        wrong = torch.randint(low, high, (3, 2), generator=draw)
        tokens = torch.cat([wrong[:, :1], right[:, :1], wrong[:, 1:], right[:, 1:]], 1)
        root = codes[torch.arange(3), at]
        logits = session.forward(root, Draft(tokens, of(parents))).logits[:, spine]
        for row, i in enumerate(at.tolist()):
            _near(logits[row], wanted[row][i + 1 : i + 1 + len(spine)])
        kept = torch.tensor([1 + (4 * step + 3 * row) % len(spine) for row in range(3)])
        path = torch.tensor([spine[:k] + [-1] * (len(spine) - k) for k in kept.tolist()])
        session.commit(path, kept)
        at, step = at + kept, step + 1
        spread = max(spread, int(at.max() - at.min()))
    assert spread >= 3
    assert step >= 2


def _near(ours: torch.Tensor, own: torch.Tensor, within: float = 1e-9) -> None:
    torch.testing.assert_close(ours, own, atol=within, rtol=1e-9)


@pytest.mark.parametrize("method", ["scd-exact", "sjd"])
@pytest.mark.parametrize("name", ["visual_clip", "emu3", "imagegpt"])
def test_whole_pictures_by_jacobi_windows(name: str, method: str) -> None:
    """To the last place of the layout, ragged; under the Gumbel race the codes are plain decoding's, one by one."""
    made = drawn(name)
    target = made.target.guided(2.0) if name in GUIDED else made.target
    size, law = target.layout.size, target.rule_law(Sampling(temperature=1.0, top_k=12))
    rule = Rule(law, Gumbel())

    def paint(drafter: object, how: Rule) -> list[list[int]]:
        canvases = ()
        for stroke in strokes(target, drafter, how, made.prompts(), [5, 6, 7], size, device=target.device):  # type: ignore[arg-type]
            canvases = stroke.canvases
        return [canvas.tokens for canvas in canvases]

    drafter, coupling = pair(method, window=9, start="left", layout=target.layout)
    drawn_codes = paint(drafter, Rule(law, coupling))
    for row in drawn_codes:
        codes = [i for i, demand in zip(row, target.layout.forced, strict=True) if demand < 0]
        assert [i for i, demand in zip(row, target.layout.forced, strict=True) if demand >= 0] == [
            demand for demand in target.layout.forced if demand >= 0
        ]
        assert all(target.layout.codes[0] <= i < target.layout.codes[1] for i in codes)
    if method == "scd-exact":
        assert drawn_codes == paint(NoDraft(), rule)
