"""Prompts on chips of their own: which cut computes them, and how many replicas of each kind keep one another busy."""

from __future__ import annotations

import itertools
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
from headway.planner.under_load import PERFECT, Load, Steps, longest

BUSIEST = 0.9
"""Share of the time that a replica for prompts is busy at most."""
MOST_DECODING = 16
"""Replicas that decode in one unit: more fill the others hardly better."""
Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Pool:
    """One replica of those that compute prompts, and how busy it may be."""

    where: Deployment
    prompt: PromptCost
    around_s: float
    """Of a first token: what is neither its prompt's step nor the wait for it."""
    busiest: float

    @property
    def chip_s(self) -> float:
        """Chip-seconds of a prompt, idle ones included."""
        return self.prompt.each_s * self.where.cut.chips / self.busiest


@dataclass(frozen=True, slots=True)
class Pools:
    """[M] whole replicas, and which of `pools` computes the prompts."""

    pools: tuple[Pool, ...]
    chosen: Ints
    prefill_replicas: Ints
    decode_replicas: Ints

    def cut(self, j: int) -> Parallelism:
        return self.pools[int(self.chosen[j])].where.cut

    def chips(self, decode_chips: int) -> Ints:
        each = np.array([pool.where.cut.chips for pool in self.pools])[self.chosen]
        return np.asarray(self.prefill_replicas * each + self.decode_replicas * decode_chips)


@dataclass(frozen=True, slots=True)
class Split:
    """Of one cut that decodes: those of its batches, `room` [N], for which both kinds of replicas find room."""

    load: Load
    pools: Pools
    room: Flags


def best_pools(found: Sequence[tuple[Deployment, Steps]], lengths: Lengths, ttft_s: float | None) -> tuple[Pool, ...]:
    """For each number of chips, the fewest chip-seconds a prompt of all that make the TTFT. Empty: none does, the
    system has no link to move the cache over, or nothing is left to decode.
    """
    best: dict[int, Pool] = {}
    if lengths.output < 2:
        return ()
    for where, steps in found:
        try:
            around_s = _around_s(where, lengths)
        except CatalogError:
            return ()
        pool = Pool(where, steps.prompt, around_s, _busiest(steps.prompt, around_s, ttft_s))
        chips = where.cut.chips
        if pool.busiest > 0 and (chips not in best or pool.chip_s < best[chips].chip_s):
            best[chips] = pool
    return tuple(best.values())


def split(
    found: Sequence[tuple[Deployment, Steps]], pools: Sequence[Pool], lengths: Lengths, max_chips: int
) -> list[Split]:
    """One for each cut."""
    sizes = [len(steps.batch) for _, steps in found]
    serving = found[0][0].fitted.serving if found[0][0].fitted else PERFECT
    batch = np.concatenate([steps.batch for _, steps in found])
    tpot_s = np.concatenate([steps.decode.step_s for _, steps in found]) / serving.tokens_per_step
    around_s = np.repeat([_around_s(where, lengths) for where, _ in found], sizes)
    chips = np.repeat([where.cut.chips for where, _ in found], sizes)
    requests_per_s = batch / ((lengths.output - 1) * tpot_s)
    chosen, prefills, decodes = _cheapest(pools, requests_per_s, chips, max_chips)
    ttft_s = _ttft_s(pools, chosen, requests_per_s * decodes / np.maximum(prefills, 1), around_s)
    rate, ends = requests_per_s * lengths.output, np.cumsum(sizes).tolist()
    splits = []
    for (_, steps), start, end in zip(found, [0, *ends], ends, strict=False):
        room = decodes[start:end] > 0
        tpot, ttft, made = (array[start:end][room] for array in (tpot_s, ttft_s, rate))
        which, p, d = (array[start:end][room] for array in (chosen, prefills, decodes))
        bounds = tuple(itertools.compress(longest(steps.decode.busy_s), room))
        splits.append(Split(Load(tpot, ttft, made, bounds), Pools(tuple(pools), which, p, d), room))
    return splits


def _cheapest(
    pools: Sequence[Pool], requests_per_s: FloatArray, decode_chips: Ints, max_chips: int
) -> tuple[Ints, Ints, Ints]:
    """[N] which pool, and its and the decoding replicas, that need the fewest chips."""
    tried = [_replicas(requests_per_s * pool.prompt.each_s, pool, decode_chips, max_chips) for pool in pools]
    chosen = np.argmin([_chips_each(t, pool, decode_chips) for t, pool in zip(tried, pools, strict=True)], axis=0)
    prefills, decodes = np.take_along_axis(np.array(tried), chosen[None, None, :], 0)[0]
    return chosen, prefills, decodes


def _ttft_s(pools: Sequence[Pool], chosen: Ints, prompts_per_s: FloatArray, around_s: FloatArray) -> FloatArray:
    """[N] of replicas that get so many prompts each; M/D/1, as `_busiest` has it."""
    times = np.array([(pool.prompt.alone_s, pool.prompt.each_s, pool.around_s) for pool in pools])
    alone_s, each_s, own_s = times[chosen].T
    busy = prompts_per_s * each_s
    return np.asarray(alone_s + busy / (2 * (1 - busy)) * each_s + np.maximum(around_s, own_s))


def _replicas(asked: FloatArray, pool: Pool, decode_chips: Ints, max_chips: int) -> tuple[Ints, Ints]:
    """[N] of prompts and of decoding, so that the fewest chips stand beside each that decodes; 0: there is no room.
    `asked`: busy replicas for prompts that one decoding replica needs.
    """
    decodes = np.arange(1, MOST_DECODING + 1)
    prefills = np.maximum(1, np.ceil(asked[:, None] / pool.busiest * decodes - 1e-9))
    chips = prefills * pool.where.cut.chips + decodes * decode_chips[:, None]
    each = np.where(chips <= max_chips, chips / decodes, np.inf)
    best = np.argmin(each, axis=1)
    rows = np.arange(len(asked))
    fits = np.isfinite(each[rows, best])
    return np.where(fits, prefills[rows, best], 0).astype(np.int64), np.where(fits, decodes[best], 0)


def _chips_each(replicas: tuple[Ints, Ints], pool: Pool, decode_chips: Ints) -> FloatArray:
    """[N] chips beside and of each replica that decodes."""
    prefills, decodes = replicas
    beside = np.divide(prefills * pool.where.cut.chips, decodes, out=np.full(len(decodes), np.inf), where=decodes > 0)
    return np.asarray(beside + decode_chips)


def _busiest(prompt: PromptCost, around_s: float, ttft_s: float | None) -> float:
    """How busy a replica may be for the mean wait to leave the TTFT. One server, equal jobs, random arrivals (M/D/1):
    wait = u / (2 (1 - u)) x service, solved for u.
    """
    if ttft_s is None:
        return BUSIEST
    twice_s = 2 * (ttft_s - prompt.alone_s - around_s)
    return min(BUSIEST, twice_s / (prompt.each_s + twice_s)) if twice_s > 0 else 0.0


def _around_s(where: Deployment, lengths: Lengths) -> float:
    """What a first token takes besides: the cache moves, from or to each chip of this cut, once it is all there; and
    what a request takes outside of steps. Raises CatalogError where there is no link.
    """
    share = kv_bytes_per_chip(where.model, lengths.prompt, 1, where.precision, where.cut)
    link = where.system.scaleout
    latency_s = (link.latency_s or 0.0) if link else 0.0
    outside_s = where.fitted.serving.request_s if where.fitted else 0.0
    return outside_s + latency_s + share / where.link_bytes_per_s
