"""Layers with a running state: they cannot be cropped, so the state before a block is kept and chains are replayed."""

from __future__ import annotations

from torch import Tensor
from transformers.cache_utils import LinearAttentionLayer


class RecurrentLayer(LinearAttentionLayer):
    """A recurrent layer that puts new states beside the old ones, so that holding on to the old ones costs nothing."""

    def update_conv_state(self, conv_states: Tensor, state_idx: int = 0, **kwargs: object) -> Tensor:  # type: ignore[override]
        """The states with the block behind them; what was there before is left as it was."""
        if self.is_conv_states_initialized[state_idx]:
            self.conv_states[state_idx] = self.conv_states[state_idx].clone()
        return super().update_conv_state(conv_states, state_idx, **kwargs)

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: object) -> Tensor:  # type: ignore[override]
        """The new state; the old one is left as it was."""
        self.recurrent_states[state_idx] = recurrent_states
        self.is_recurrent_states_initialized[state_idx] = True
        return recurrent_states

    def state(self) -> tuple[dict[int, Tensor | None], dict[int, Tensor | None]]:
        """All that a later `restore` needs."""
        return dict(self.conv_states), dict(self.recurrent_states)

    def restore(self, state: tuple[dict[int, Tensor | None], dict[int, Tensor | None]]) -> None:
        """Go back to an earlier `state`."""
        self.conv_states, self.recurrent_states = dict(state[0]), dict(state[1])
