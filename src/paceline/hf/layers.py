"""Cache layers for recurrent attention whose past states stay valid."""

from __future__ import annotations

from torch import Tensor
from transformers.cache_utils import LinearAttentionLayer

State = tuple[dict[int, Tensor | None], dict[int, Tensor | None]]


class RecurrentLayer(LinearAttentionLayer):
    """Puts new states beside the old ones instead of over them, so that going back is a matter of holding on."""

    def update_conv_state(self, conv_states: Tensor, state_idx: int = 0, **kwargs: object) -> Tensor:  # type: ignore[override]
        """The states with the block behind them; those of an earlier `state` are left as they were."""
        if self.is_conv_states_initialized[state_idx]:
            self.conv_states[state_idx] = self.conv_states[state_idx].clone()
        return super().update_conv_state(conv_states, state_idx, **kwargs)

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: object) -> Tensor:  # type: ignore[override]
        """The new state; those of an earlier `state` are left as they were."""
        self.recurrent_states[state_idx] = recurrent_states
        self.is_recurrent_states_initialized[state_idx] = True
        return recurrent_states

    def state(self) -> State:
        """All that a later `restore` needs."""
        return dict(self.conv_states), dict(self.recurrent_states)

    def restore(self, state: State) -> None:
        """Go back to an earlier `state`."""
        self.conv_states, self.recurrent_states = dict(state[0]), dict(state[1])
