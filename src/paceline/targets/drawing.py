"""Targets that draw: a caption in, a grid of codes out, and pictures made of the codes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from paceline.clock import Clock, silent
from paceline.core import Context, Needs, Pass, Prompt, TargetSession
from paceline.errors import UsageError
from paceline.hf.messages import encode_literally
from paceline.hf.target import HFTarget
from paceline.law import Law
from paceline.layout import Layout
from paceline.sampling import Sampling
from paceline.targets.grammar import obey
from paceline.targets.guided import Opened, check_scale, guide

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

GREY = 128  # of what is not drawn yet


class Drawing(HFTarget):
    """A model that draws. `guided`, `sized` and `unruled` give views of it, which share the model and change nothing.

    A family says in a subclass how captions are put to it, which layouts it takes and how its codes become pixels.
    """

    auto = "AutoModelForCausalLM"
    reader = "AutoTokenizer"
    obeys = frozenset({"guidance_scale"})
    model: Any  # of a stock class whose parts the family names
    layout: Layout
    guidance: float = 1.0
    ruled: bool = True  # whether the row grammar enters the law

    @property
    def defaults(self) -> Mapping[str, float]:
        """What the checkpoint asks for: guidance, temperature and top_k (0: all ids; never an implicit 50)."""
        config = self.model.generation_config
        return {
            "guidance": float(getattr(config, "guidance_scale", None) or 1.0),
            "temperature": float(getattr(config, "temperature", None) or 1.0),
            "top_k": int(getattr(config, "top_k", None) or 0),
        }

    def open(
        self, prompts: Sequence[Prompt], needs: Needs = Needs(), *, clock: Clock = silent
    ) -> tuple[TargetSession, Context, Pass]:
        """Read the prompts; guidance comes first, the row grammar second, temperature and the rest in the law.

        Raises UsageError for an empty prompt, one that leaves no room for the layout, and one that holds pictures.
        """
        for prompt in prompts:
            if any(key.startswith("pixel") for key in prompt.inputs):
                raise UsageError(f"{type(self.model).__name__} draws from captions here: leave pictures out")
            if (total := len(prompt.ids) + self.layout.size - 1) > self.max_length:
                raise UsageError(
                    f"the prompt has {len(prompt.ids):,} tokens and the picture {self.layout.size:,}; "
                    f"this model takes {self.max_length:,} together, {total - self.max_length:,} fewer"
                )
        twins = [] if self.guidance == 1 else [self.unconditional(prompt) for prompt in prompts]
        both = [*prompts, *twins]
        opened = self.placed(super().open(both, needs, clock=clock), both)
        if twins:
            opened = guide(opened, self.guidance)
        return obey(opened, prompts, self.layout) if self.ruled else opened

    def placed(self, opened: Opened, prompts: Sequence[Prompt]) -> Opened:
        """What was opened on these prompts, at the positions that the class gives to codes."""
        return opened

    def encode_caption(self, caption: str) -> Prompt:
        """The prompt for a caption. Raises UsageError for an empty one."""
        if not caption.strip():
            raise UsageError("the prompt is empty: say what to draw, such as 'a red apple'")
        return self.worded(caption)

    def worded(self, caption: str) -> Prompt:
        """The prompt for any caption, an empty one too; markup within it is spelled as text."""
        talk = [{"role": "user", "content": [{"type": "text", "text": caption}]}]
        markup = self._markup(self.tokenizer)

        def read(talk: list[dict[str, Any]]) -> dict[str, Tensor]:
            return {"input_ids": self.tokens(talk[0]["content"][0]["text"])[None]}

        return Prompt(encode_literally(read, talk, self.tokenizer, markup)["input_ids"][0])

    def tokens(self, caption: str) -> Tensor:
        """[S]; the ids that a caption is put to the model with, up to the first code."""
        return self.tokenizer(caption, return_tensors="pt")["input_ids"][0]

    def unconditional(self, prompt: Prompt) -> Prompt:
        """The prompt without what it asks for. Raises UsageError where the class was not trained for such."""
        raise UsageError(
            f"{self.name or type(self.model).__name__} has no unconditional branch, so that it takes no guidance: "
            f"leave it at 1 (given: {self.guidance:g})"
        )

    def guided(self, scale: float) -> Self:
        """The target under classifier-free guidance; 1 is none. Raises UsageError for less, and where there is none."""
        view = self._view(guidance=check_scale(scale))
        if scale != 1:
            view.unconditional(Prompt(torch.zeros(1, dtype=torch.long)))
        return view

    def sized(self, width: int, height: int) -> Self:
        """The target drawing pictures of so many pixels. Raises UsageError for a size that its layout forbids."""
        return self._view(layout=self.laid(width, height))

    def unruled(self) -> Self:
        """The target without row grammar: the law of the class's bare logits."""
        return self._view(ruled=False)

    def laid(self, width: int, height: int) -> Layout:
        """The layout of a picture of so many pixels. Raises UsageError: here for all but the target's only size."""
        if (width, height) != self.size:
            raise self.no_size(width, height, f"{self.size[0]} x {self.size[1]} pixels only")
        return self.layout

    def no_size(self, width: int, height: int, allowed: str) -> UsageError:
        """The error for a size that cannot be drawn."""
        name = self.name or type(self.model).__name__
        return UsageError(f"{name} cannot draw {width} x {height}; it draws {allowed}")

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) in pixels of what is drawn."""
        return self.layout.width * self.cell, self.layout.height * self.cell

    @property
    def cell(self) -> int:
        """Pixels a side that one code stands for."""
        raise NotImplementedError

    def rule_law(self, sampling: Sampling) -> Callable[[Tensor], Law]:
        """How this target's logits become laws: guidance and grammar are in the logits already, each once."""
        return sampling.law

    def frames(self, tokens: Sequence[int]) -> list[Image]:
        """Pictures of a row's generated tokens, one a frame; where a token is -1, or not there yet, it is grey."""
        from PIL import Image

        layout, cell = self.layout, self.cell
        row = [tokens[at] if at < len(tokens) else -1 for at in layout.places()]
        grid = torch.tensor(row).view(layout.frames, layout.height, layout.width)
        drawn = (grid >= layout.codes[0]) & (grid < layout.codes[1])
        pixels = self.pixels(self.codes(grid.where(drawn, layout.codes[0])))
        blank = (~drawn).repeat_interleave(cell, 1).repeat_interleave(cell, 2).numpy()
        pixels = pixels.copy()
        pixels[blank] = GREY
        return [Image.fromarray(frame) for frame in pixels]

    def codes(self, ids: Tensor) -> Tensor:
        """Codes of the codebook, from 0, for ids of the vocabulary."""
        return ids - self.layout.codes[0]

    def pixels(self, codes: Tensor) -> np.ndarray:
        """[T, H * cell, W * cell, 3] bytes of codes [T, H, W]. Raises UsageError where the class cannot decode."""
        raise UsageError(f"{type(self.model).__name__} has no decoder for its codes: read the tokens instead")

    def astype(self, dtype: torch.dtype) -> Self:
        """The same view over a deep copy of the model in another precision."""
        fresh = self._view(model=copy.deepcopy(self.model).to(dtype))
        fresh.body = fresh.seen()
        return fresh

    def _view(self, **changed: Any) -> Self:
        view = copy.copy(self)
        for name, value in changed.items():
            setattr(view, name, value)
        return view
