"""How each slot samples: arrays for what is done to many rows at once, a state for the few rows that need one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from headway.engine.draw import seed_bits
from headway.engine.penalties import Penalties
from headway.scheduler.contract import Admitted, Ints


@dataclass(frozen=True, slots=True)
class SlotState:
    """How a slot's logits are changed before a token is chosen."""

    penalties: Penalties | None
    bias_ids: torch.Tensor | None
    bias: torch.Tensor | None

    def adjust(self, logits: torch.Tensor, drafts: Ints) -> None:
        """Penalties and bias, in place on [vocab]; `drafts` are tokens after those that were recorded."""
        if self.penalties is not None:
            self.penalties.apply(logits, drafts)
        if self.bias_ids is not None and self.bias is not None:
            logits.index_add_(0, self.bias_ids, self.bias)


class SamplingTable:
    """One row a slot; rows of released slots are stale."""

    def __init__(self, max_running: int, vocab: int, device: torch.device) -> None:
        self._vocab, self._device = vocab, device
        self.temperature = np.zeros(max_running, np.float32)
        self.top_k = np.zeros(max_running, np.int64)
        self.top_p = np.ones(max_running, np.float32)
        self.min_p = np.zeros(max_running, np.float32)
        self.seed = np.zeros(max_running, np.uint64)
        self.special = np.zeros(max_running, np.bool_)
        """Whether the slot needs more than the argmax of its logits."""
        self.filters = np.zeros(max_running, np.bool_)
        self.logprobs = np.zeros(max_running, np.bool_)
        self.top_logprobs = np.zeros(max_running, np.int64)
        self.invalid = np.zeros(max_running, np.bool_)
        """Whether its request names a token that the model does not have: its rows fail."""
        self.states: dict[int, SlotState] = {}
        """Of special slots."""

    def admit(self, admitted: Admitted) -> None:
        slot, s = admitted.slot, admitted.request.sampling
        self.release(slot)
        ids = np.array([token for token, _ in s.logit_bias], np.int64)
        self.invalid[slot] = any(((array < 0) | (array >= self._vocab)).any() for array in (ids, admitted.tokens))
        self.temperature[slot], self.top_k[slot] = s.temperature, s.top_k
        self.top_p[slot], self.min_p[slot] = s.top_p, s.min_p
        self.seed[slot] = seed_bits(s.seed)
        self.filters[slot] = s.top_k > 0 or s.top_p < 1 or s.min_p > 0
        self.logprobs[slot] = s.logprobs is not None
        self.top_logprobs[slot] = s.logprobs or 0
        penalised = (s.repetition_penalty, s.presence_penalty, s.frequency_penalty) != (1.0, 0.0, 0.0)
        self.special[slot] = not self.invalid[slot] and (s.temperature > 0 or penalised or len(ids) > 0)
        if self.special[slot]:
            self.states[slot] = self._state(admitted, penalised, ids)

    def release(self, slot: int) -> None:
        self.states.pop(slot, None)
        self.special[slot] = self.logprobs[slot] = self.invalid[slot] = False

    def record(self, slot: int, tokens: Ints) -> None:
        """Tokens that the slot's row has drawn."""
        state = self.states.get(slot)
        if state is not None and state.penalties is not None:
            state.penalties.add(tokens)

    def _state(self, admitted: Admitted, penalised: bool, ids: Ints) -> SlotState:
        request = admitted.request
        bias = [value for _, value in request.sampling.logit_bias]
        return SlotState(
            penalties=Penalties(request.sampling, admitted.tokens, request.num_prompt_tokens, self._vocab, self._device)
            if penalised
            else None,
            bias_ids=torch.from_numpy(ids).to(self._device) if bias else None,
            bias=torch.tensor(bias, dtype=torch.float32, device=self._device) if bias else None,
        )
