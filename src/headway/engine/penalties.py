"""Penalties on tokens that the sequence holds already."""

from __future__ import annotations

import numpy as np
import torch

from headway.scheduler.contract import Ints
from headway.scheduler.request import Sampling


class Penalties:
    """What one request holds: `seen`, in prompt or output, for repetition; output counts for presence and frequency."""

    def __init__(
        self, sampling: Sampling, tokens: Ints, num_prompt_tokens: int, vocab: int, device: torch.device
    ) -> None:
        self._repetition = sampling.repetition_penalty
        self._presence, self._frequency = sampling.presence_penalty, sampling.frequency_penalty
        self._seen = torch.zeros(vocab, dtype=torch.bool, device=device)
        self._counts = torch.zeros(vocab, dtype=torch.float32, device=device)
        self._seen[torch.from_numpy(tokens).to(device)] = True
        self.add(tokens[num_prompt_tokens:])

    def add(self, tokens: Ints) -> None:
        """Counts output tokens."""
        if len(tokens):
            ids, counts = np.unique(tokens, return_counts=True)
            places = torch.from_numpy(ids).to(self._seen.device)
            self._seen[places] = True
            self._counts[places] += torch.from_numpy(counts).to(self._counts)

    def apply(self, logits: torch.Tensor, drafts: Ints) -> None:
        """Changes logits [vocab] in place, as if the drafts stood in the output already."""
        seen, counts = self._seen, self._counts
        if len(drafts):
            ids, times = np.unique(drafts, return_counts=True)
            places = torch.from_numpy(ids).to(logits.device)
            seen, counts = seen.clone(), counts.clone()
            seen[places] = True
            counts[places] += torch.from_numpy(times).to(counts)
        if self._repetition != 1.0:
            penalised = torch.where(logits > 0, logits / self._repetition, logits * self._repetition)
            torch.where(seen, penalised, logits, out=logits)
        if self._frequency:
            logits -= self._frequency * counts
        if self._presence:
            logits -= self._presence * (counts > 0)
