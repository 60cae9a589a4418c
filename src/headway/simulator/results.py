"""Records and counters of a run, boiled down: quantiles, goodput, throughput, hit rate, bounds, joules, dollars."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headway.simulator.executor import ModelledExecutor, bound_shares
from headway.simulator.kv_use import KVUse
from headway.simulator.pool_use import PoolSummary, PoolUse
from headway.simulator.price import added
from headway.simulator.record import Record
from headway.simulator.token_gaps import TokenGaps


@dataclass(frozen=True, slots=True)
class Slo:
    """What a good request keeps: it gets its whole answer, and each of these that is set."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    def keeps(self, record: Record) -> bool:
        r = record.receipt
        return (
            record.ok
            and (self.ttft_s is None or record.ttft_ns <= self.ttft_s * 1e9)
            and (self.tpot_s is None or r.tpot_ns <= self.tpot_s * 1e9)
            and (self.e2e_s is None or record.e2e_ns <= self.e2e_s * 1e9)
        )


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Nearest rank. None where there is nothing to measure."""

    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None


def quantiles(values: Iterable[float], scale: float = 1.0) -> Quantiles:
    ordered = sorted(values)
    if not ordered:
        return Quantiles(None, None, None, None, None)
    rank = [ordered[max(0, math.ceil(q * len(ordered)) - 1)] * scale for q in (0.5, 0.9, 0.99, 1.0)]
    return Quantiles(math.fsum(ordered) / len(ordered) * scale, *rank)


@dataclass(frozen=True, slots=True)
class Summary:
    """Seconds, tokens, joules, dollars. Refused calls count nowhere but in `refused`."""

    calls: int
    finished: int
    cut_at_limit: int
    refused: dict[str, int]
    first_refusals: dict[str, str]
    """Of each kind the first, in the scheduler's words."""
    interrupted: bool
    duration_s: float
    """From the first arrival to the last end."""
    input_tokens: int
    output_tokens: int
    reused_tokens: int
    hit_rate: float
    """Share of prompt tokens whose KV was found in the cache."""
    empty_answers: int
    """That have no token in the trace: they are taken as one token long."""
    preemptions: int
    failures: int
    """Of replicas and links, while the run went on."""
    resent: int
    """Calls that were sent again because their replica failed, as often as that happened."""
    queue_s: Quantiles
    ttft_s: Quantiles
    tpot_s: Quantiles
    """Of requests with two tokens or more."""
    itl_s: Quantiles
    """Of each gap between two tokens; to 1/64."""
    e2e_s: Quantiles
    interactivity_tokens_per_s: float | None
    """Of the median request: 1 / TPOT."""
    requests_per_s: float
    output_tokens_per_s: float
    output_tokens_per_s_per_chip: float
    goodput_share: float | None
    """Of all calls, refused ones included. None, as the two below: no SLO was given."""
    goodput_requests_per_s: float | None
    goodput_tokens_per_s: float | None
    steps: int
    busy_share: float
    """Of the replicas' time between first arrival and last end."""
    bound_share: dict[str, float]
    """Of the busy time."""
    busy_s: float
    """Device and host time of all steps, summed over replicas."""
    charged_s: float
    """The same, summed over receipts: equal when nothing is left in progress."""
    energy_j: float | None
    """Of busy steps, every chip at its power limit."""
    energy_j_per_output_token: float | None
    cost_usd: float | None
    """Of all chips and all tiers for the whole duration. None: not known of one of them."""
    chip_usd: float | None
    tier_usd: float | None
    charged_usd: float | None
    """The part that receipts carry, of the chips' busy time; the rest is idle time and tiers."""
    usd_per_mtok_output: float | None
    tier_usd_per_mtok_output: float | None
    """What tiers are of it."""
    loaded_share: dict[str, float]
    """By tier: share of prompt tokens whose KV came back from there."""
    handed_over_bytes: float
    """KV that replicas which only prefill sent to those that decode."""
    pools: tuple[PoolSummary, ...]
    kv: tuple[KVUse, ...]
    """By memory: the device, then tiers."""


@dataclass(slots=True)
class _Totals:
    """Over all calls that were not refused."""

    input: int = 0
    output: int = 0
    reused: int = 0
    empty: int = 0
    preemptions: int = 0
    resent: int = 0
    charged_ns: Counter[int] = field(default_factory=Counter)
    """By pool."""
    good: int = 0
    good_tokens: int = 0


@dataclass(slots=True)
class Results:
    """Takes records one by one and keeps only what quantiles need: 32 bytes a record."""

    slo: Slo = field(default_factory=Slo)
    _queue_ns: array[int] = field(default_factory=lambda: array("q"))
    _ttft_ns: array[int] = field(default_factory=lambda: array("q"))
    _tpot_ns: array[float] = field(default_factory=lambda: array("d"))
    _e2e_ns: array[int] = field(default_factory=lambda: array("q"))
    _reasons: Counter[str] = field(default_factory=Counter)
    _refusals: dict[str, str] = field(default_factory=dict)
    _totals: _Totals = field(default_factory=_Totals)
    _first_ns: int | None = None
    _last_ns: int = 0

    @property
    def num_records(self) -> int:
        return self._reasons.total()

    @property
    def duration_s(self) -> float:
        """From the first arrival to the last end."""
        return (self._last_ns - (self._first_ns or 0)) / 1e9

    def add(self, record: Record) -> None:
        self._reasons[record.reason] += 1
        self._first_ns = record.arrival_ns if self._first_ns is None else min(self._first_ns, record.arrival_ns)
        self._last_ns = max(self._last_ns, record.end_ns)
        r, total = record.receipt, self._totals
        total.resent += record.resent
        for pool, charged_ns in record.charged_ns:
            total.charged_ns[pool] += charged_ns
        if record.refused:
            self._refusals.setdefault(record.reason, record.refusal)
            return
        self._queue_ns.append(r.queue_ns)
        self._ttft_ns.append(record.ttft_ns)
        self._e2e_ns.append(record.e2e_ns)
        if r.tokens_generated > 1:
            self._tpot_ns.append(r.tpot_ns)
        total.input += record.call.num_input_tokens
        total.output += r.tokens_generated
        total.empty += record.call.was_empty
        total.reused += r.tokens_reused
        total.preemptions += r.preemptions
        if self.slo.keeps(record):
            total.good += 1
            total.good_tokens += r.tokens_generated

    def summary(
        self,
        pools: Sequence[PoolUse],
        interrupted: bool = False,
        kv: tuple[KVUse, ...] = (),
        failures: int = 0,
    ) -> Summary:
        executors, limited = [e for pool in pools for e in pool.executors], self.slo != Slo()
        total, ended = self._totals, len(self._e2e_ns)
        duration_s, charged_ns = self.duration_s, total.charged_ns
        each = tuple(pool.summary(duration_s, charged_ns[number]) for number, pool in enumerate(pools))
        chips, busy_s = sum(pool.chips for pool in each), sum(pool.busy_s for pool in each)
        tpot_s = quantiles(self._tpot_ns, 1e-9)
        energy_j, cost_usd = added(p.energy_j for p in each), added(p.cost_usd for p in each)
        tier_usd = added(p.tier_usd for p in each)
        return Summary(
            calls=self.num_records,
            finished=self._reasons["stop"],
            cut_at_limit=self._reasons["length"],
            refused={reason: n for reason, n in sorted(self._reasons.items()) if reason not in ("stop", "length")},
            first_refusals=dict(sorted(self._refusals.items())),
            interrupted=interrupted,
            duration_s=duration_s,
            input_tokens=total.input,
            output_tokens=total.output,
            reused_tokens=total.reused,
            hit_rate=_ratio(total.reused, total.input),
            empty_answers=total.empty,
            preemptions=total.preemptions,
            failures=failures,
            resent=total.resent,
            queue_s=quantiles(self._queue_ns, 1e-9),
            ttft_s=quantiles(self._ttft_ns, 1e-9),
            tpot_s=tpot_s,
            itl_s=_gap_quantiles(executors),
            e2e_s=quantiles(self._e2e_ns, 1e-9),
            interactivity_tokens_per_s=1 / tpot_s.p50 if tpot_s.p50 else None,
            requests_per_s=_ratio(ended, duration_s),
            output_tokens_per_s=_ratio(total.output, duration_s),
            output_tokens_per_s_per_chip=_ratio(total.output, duration_s * chips),
            goodput_share=_ratio(total.good, self.num_records) if limited else None,
            goodput_requests_per_s=_ratio(total.good, duration_s) if limited else None,
            goodput_tokens_per_s=_ratio(total.good_tokens, duration_s) if limited else None,
            steps=sum(e.num_steps for e in executors),
            busy_share=_ratio(busy_s, duration_s * len(executors)),
            bound_share=bound_shares([sum(column) for column in zip(*(e.bound_ns for e in executors), strict=True)]),
            busy_s=busy_s,
            charged_s=charged_ns.total() / 1e9,
            energy_j=energy_j,
            energy_j_per_output_token=_each(energy_j, total.output),
            cost_usd=cost_usd,
            chip_usd=added(p.chip_usd for p in each),
            tier_usd=tier_usd,
            charged_usd=added(p.charged_usd for p in each),
            usd_per_mtok_output=_each(cost_usd, total.output / 1e6),
            tier_usd_per_mtok_output=_each(tier_usd, total.output / 1e6),
            loaded_share={use.memory: _ratio(use.loaded_tokens, total.input) for use in kv[1:]},
            handed_over_bytes=sum(pool.received_bytes for pool in each),
            pools=each,
            kv=kv,
        )


def _gap_quantiles(executors: list[ModelledExecutor]) -> Quantiles:
    gaps = TokenGaps()
    for executor in executors:
        gaps.merge(executor.gaps)
    return Quantiles(gaps.mean_s(), *(gaps.quantile_s(q) for q in (0.5, 0.9, 0.99, 1.0)))


def _each(amount: float | None, tokens: float) -> float | None:
    """None where it is not known, or there is no token to bear it."""
    return amount / tokens if amount is not None and tokens else None


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
