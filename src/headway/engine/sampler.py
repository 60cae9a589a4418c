"""Logits to tokens. A draw depends on its own logits, its request's sampling and its position, on nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional

from headway.engine.draw import uniforms
from headway.engine.filters import thresholds
from headway.engine.sampling_table import SamplingTable
from headway.scheduler.contract import Ints

_BUCKET = 256
"""Tokens whose weights are summed together before the cumulative sum: only one bucket is summed token by token."""


@dataclass(frozen=True, slots=True)
class Draws:
    """N draws, row by row. All arrays are [N]."""

    slots: Ints
    positions: Ints
    """Where in its sequence the drawn token would stand."""
    depths: Ints
    """How many of the row's drafts stand before it."""
    read: Ints
    """The token read at the position before it; a draft where the depth is not 0."""


def sample(logits: torch.Tensor, draws: Draws, table: SamplingTable) -> Ints:
    """One token id a draw, [N]. logits [N, vocab] in fp32, left as they are; rows must be finite.

    Repetition, presence and frequency penalties come first, then logit_bias, then temperature and the filters.
    """
    special = np.flatnonzero(table.special[draws.slots])
    tokens: Ints = logits.argmax(-1).cpu().numpy()
    if not len(special):
        return tokens
    rows = logits[torch.from_numpy(special).to(logits.device)]
    for i, n in enumerate(special.tolist()):
        state = table.states[int(draws.slots[n])]
        drafts = draws.read[n - int(draws.depths[n]) + 1 : n + 1]
        state.adjust(rows[i], drafts)
    tokens[special] = _draw(rows, draws.slots[special], draws.positions[special], table)
    return tokens


def _draw(rows: torch.Tensor, slots: Ints, positions: Ints, table: SamplingTable) -> Ints:
    """Overwrites rows [M, vocab]."""
    tokens = rows.argmax(-1)
    hot = np.flatnonzero(table.temperature[slots] > 0)
    if not len(hot):
        greedy: Ints = tokens.cpu().numpy()
        return greedy
    chosen, device = slots[hot], rows.device
    picked = torch.from_numpy(hot).to(device)
    z = rows[picked] if len(hot) < len(slots) else rows
    # The best logit becomes 0 first: a tiny temperature then gives -inf elsewhere, never NaN.
    z -= z.amax(-1, keepdim=True)
    z /= torch.from_numpy(table.temperature[chosen]).to(device)[:, None]
    if table.filters[chosen].any():
        top_k, top_p, min_p = (
            torch.from_numpy(values[chosen]).to(device) for values in (table.top_k, table.top_p, table.min_p)
        )
        z.masked_fill_(z < thresholds(z, top_k, top_p, min_p), float("-inf"))
    u = torch.from_numpy(uniforms(table.seed[chosen], positions[hot])).to(device)
    tokens[picked] = inverse_cdf(z.exp_(), u)
    drawn: Ints = tokens.cpu().numpy()
    return drawn


def inverse_cdf(weights: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """The first token id, in id order, whose cumulative share of a row's weights exceeds u.

    weights [N, vocab] in fp32, not negative, with a positive sum; u [N] in fp64; sums are in fp64.
    """
    buckets = functional.pad(weights, (0, -weights.shape[1] % _BUCKET)).view(weights.shape[0], -1, _BUCKET)
    upto = buckets.sum(-1, dtype=torch.float64).cumsum(-1)
    target = u[:, None] * upto[:, -1:]
    bucket = _first_above(upto, target)
    before = torch.where(bucket > 0, upto.gather(1, (bucket - 1).clamp(min=0)), 0.0)
    inside = buckets.gather(1, bucket[:, :, None].expand(-1, -1, _BUCKET))[:, 0].double()
    offset = _first_above(inside.cumsum(-1), target - before)
    return (bucket * _BUCKET + offset)[:, 0]


def _first_above(cumulative: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """[N, 1] index of the first entry above the target, or, where rounding left none, of the last that grew."""
    last = (cumulative < cumulative[:, -1:]).sum(-1, keepdim=True)
    return torch.minimum((cumulative <= target).sum(-1, keepdim=True), last)
