"""Log-probabilities that a request asked to see: log-softmax of the model's own logits, before any sampling option."""

from __future__ import annotations

import numpy as np
import torch

from headway.engine.model import Model
from headway.scheduler.contract import Admitted, Ints, TokenLogprobs

_SLICE = 64
"""Positions whose logits exist at the same time."""
MAX_REMEMBERED = 4096


def token_logprobs(logits: torch.Tensor, tokens: Ints, top: int) -> tuple[TokenLogprobs, ...]:
    """One entry for each row of logits [N, vocab] and its token [N]. Rank 1 is the best; equal tokens share a rank."""
    entries: list[TokenLogprobs] = []
    for first in range(0, len(tokens), _SLICE):
        entries += _slice_logprobs(logits[first : first + _SLICE], tokens[first : first + _SLICE], top)
    return tuple(entries)


def _slice_logprobs(logits: torch.Tensor, tokens: Ints, top: int) -> list[TokenLogprobs]:
    logprobs = logits.log_softmax(-1)
    chosen = logprobs.gather(1, torch.from_numpy(tokens).to(logits.device)[:, None])
    ranks = (logprobs > chosen).sum(-1) + 1
    best = logprobs.topk(min(top, logits.shape[1]), -1)
    return [
        TokenLogprobs(token, logprob, rank, tuple(zip(ids, values, strict=True)))
        for token, logprob, rank, ids, values in zip(
            tokens.tolist(),
            chosen[:, 0].tolist(),
            ranks.tolist(),
            best.indices.tolist(),
            best.values.tolist(),
            strict=True,
        )
    ]


class PromptScores:
    """Prompt logprobs: each prompt position but the first is reported once, even if a preempted prompt starts over."""

    def __init__(self) -> None:
        self._by_slot: dict[int, _Progress] = {}
        self._interrupted: dict[str, int] = {}

    def admit(self, admitted: Admitted) -> None:
        self.release(admitted.slot)
        request = admitted.request
        if request.sampling.prompt_logprobs is None:
            return
        began = self._interrupted.pop(request.id, 1)
        # Output exists already: the prompt was reported before it was drawn.
        reported = len(admitted.tokens) > request.num_prompt_tokens
        self._by_slot[admitted.slot] = _Progress(
            request_id=request.id,
            prompt=admitted.tokens[: request.num_prompt_tokens],
            next_position=request.num_prompt_tokens if reported else began,
            top=request.sampling.prompt_logprobs,
        )

    def release(self, slot: int) -> None:
        """The slot's owner ended or was preempted; which of the two, a body is not told."""
        progress = self._by_slot.pop(slot, None)
        if progress is not None and progress.next_position < len(progress.prompt):
            self._interrupted[progress.request_id] = progress.next_position
            while len(self._interrupted) > MAX_REMEMBERED:
                self._interrupted.pop(next(iter(self._interrupted)))

    def wanted(self, slot: int) -> bool:
        return slot in self._by_slot

    def score(self, slot: int, start: int, hidden: torch.Tensor, model: Model) -> tuple[TokenLogprobs, ...]:
        """hidden [C, hidden] of the row's tokens from position `start`: that at p scores the prompt token at p + 1."""
        progress = self._by_slot[slot]
        first, last = max(progress.next_position, start + 1), min(start + hidden.shape[0], len(progress.prompt) - 1)
        entries: list[TokenLogprobs] = []
        for at in range(first, last + 1, _SLICE):
            until = min(at + _SLICE, last + 1)
            logits = model.logits(hidden[at - 1 - start : until - 1 - start])
            entries += token_logprobs(logits, progress.prompt[at:until], progress.top)
        progress.next_position = max(first, last + 1)
        return tuple(entries)


class _Progress:
    def __init__(self, request_id: str, prompt: Ints, next_position: int, top: int) -> None:
        self.request_id, self.next_position, self.top = request_id, next_position, top
        self.prompt = np.array(prompt)
