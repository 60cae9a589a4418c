"""Prompts on chips of their own: which cut computes them, and how many replicas of each kind keep one another busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.parallelism import Parallelism, kv_bytes_per_chip
from headway.arithmetic.spans import Ints
from headway.catalog import CatalogError
from headway.planner.deployment import Deployment
from headway.planner.lengths import Lengths
from headway.planner.prompts import PromptCost
from headway.planner.under_load import PERFECT, Load, longest
from headway.roofline import StepCost

BUSIEST = 0.9
"""Share of the time that a replica for prompts is busy at most."""
Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Pool:
    """One replica of those that compute prompts, and how busy it may be."""

    where: Deployment
    prompt: PromptCost
    busiest: float

    @property
    def chip_s(self) -> float:
        """Chip-seconds of a prompt, idle ones included."""
        return self.prompt.each_s * self.where.cut.chips / self.busiest


@dataclass(frozen=True, slots=True)
class Pools:
    """[N] whole replicas."""

    prefill_cut: Parallelism
    prefill_replicas: Ints
    decode_replicas: Ints

    def chips(self, decode_chips: int) -> Ints:
        return self.prefill_replicas * self.prefill_cut.chips + self.decode_replicas * decode_chips


def best_pool(tried: Sequence[tuple[Deployment, PromptCost]], lengths: Lengths, ttft_s: float | None) -> Pool | None:
    """The fewest chip-seconds a prompt of all that make the TTFT. None: none does, the system has no link to move the
    cache over, or nothing is left to decode.
    """
    if lengths.output < 2:
        return None
    found = []
    for where, prompt in tried:
        try:
            busiest = _busiest(prompt, _around_s(where, where, lengths), ttft_s)
        except CatalogError:
            return None
        if busiest > 0:
            found.append(Pool(where, prompt, busiest))
    return min(found, key=lambda pool: (pool.chip_s, pool.where.cut.chips), default=None)


def split(
    where: Deployment, step: StepCost, batch: Ints, pool: Pool, lengths: Lengths, max_chips: int
) -> tuple[Load, Pools, Flags]:
    """Of `where`'s replicas that decode beside `pool`'s, [M] for the batches that find room; and which of [N] do."""
    serving = where.fitted.serving if where.fitted else PERFECT
    tpot_s = step.step_s / serving.tokens_per_step
    requests_per_s = batch / ((lengths.output - 1) * tpot_s)
    asked = requests_per_s * pool.prompt.each_s
    prefills, decodes = _replicas(asked / pool.busiest, pool.where.cut.chips, where.cut.chips, max_chips)
    room = decodes > 0
    prefills, decodes, asked = prefills[room], decodes[room], asked[room]
    ttft_s = (
        pool.prompt.alone_s + _wait_s(asked * decodes / prefills, pool.prompt) + _around_s(pool.where, where, lengths)
    )
    bounds = tuple(bound for bound, fits in zip(longest(step.busy_s), room, strict=True) if fits)
    load = Load(tpot_s[room], ttft_s, requests_per_s[room] * lengths.output, bounds)
    return load, Pools(pool.where.cut, prefills, decodes), room


def _replicas(asked: FloatArray, prefill_chips: int, decode_chips: int, max_chips: int) -> tuple[Ints, Ints]:
    """[N] of prompts and of decoding, so that the fewest chips stand beside each that decodes; 0: there is no room.
    `asked`: busy replicas for prompts that one decoding replica needs.
    """
    decodes = np.arange(1, max(1, max_chips // decode_chips) + 1)
    prefills = np.maximum(1, np.ceil(asked[:, None] * decodes - 1e-9)).astype(np.int64)
    chips = prefills * prefill_chips + decodes * decode_chips
    each = np.where(chips <= max_chips, chips / decodes, np.inf)
    best = np.argmin(each, axis=1)
    rows = np.arange(len(asked))
    return prefills[rows, best], np.where(np.isfinite(each[rows, best]), decodes[best], 0)


def _busiest(prompt: PromptCost, around_s: float, ttft_s: float | None) -> float:
    """How busy a replica may be for the mean wait to leave the TTFT: wait = u / (2 (1 - u)) x service, solved for u."""
    if ttft_s is None:
        return BUSIEST
    twice_s = 2 * (ttft_s - prompt.alone_s - around_s)
    return min(BUSIEST, twice_s / (prompt.each_s + twice_s)) if twice_s > 0 else 0.0


def _wait_s(busy_share: FloatArray, prompt: PromptCost) -> FloatArray:
    """One server, equal jobs, random arrivals (M/D/1)."""
    return np.asarray(busy_share / (2 * (1 - busy_share)) * prompt.each_s)


def _around_s(prefills: Deployment, decodes: Deployment, lengths: Lengths) -> float:
    """What a first token takes besides: the cache moves once it is all there; and what is outside of steps.

    Raises CatalogError where there is no link.
    """
    cut, precision = (prefills.cut, decodes.cut), prefills.precision
    share = max(kv_bytes_per_chip(prefills.model, lengths.prompt, 1, precision, c) for c in cut)
    link = prefills.system.scaleout
    latency_s = (link.latency_s or 0.0) if link else 0.0
    outside_s = decodes.fitted.serving.request_s if decodes.fitted else 0.0
    return outside_s + latency_s + share / prefills.link_bytes_per_s
