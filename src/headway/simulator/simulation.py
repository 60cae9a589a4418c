"""One simulation, from names and numbers to a summary."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol

from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.formats import Precision
from headway.arithmetic.parallelism import Parallelism, kv_bytes_per_chip
from headway.catalog import CatalogError, Link
from headway.roofline import coefficients
from headway.roofline.split import FEED_FORWARD
from headway.scheduler.config import ConfigError, SchedulerConfig
from headway.simulator.faults import Fault, RandomFaults
from headway.simulator.fleet import Fleet, FleetConfig
from headway.simulator.handover import Parcel, Port
from headway.simulator.kv_memory import USABLE, cache_group_blocks, device_block_bytes
from headway.simulator.model_routes import ANY
from headway.simulator.pool_times import PoolTimes
from headway.simulator.pool_use import PoolUse
from headway.simulator.pools import Pool, Role
from headway.simulator.price import Price, added
from headway.simulator.queue_limits import QueueLimits
from headway.simulator.record import Record
from headway.simulator.regions import Regions
from headway.simulator.results import Results, Slo, Summary
from headway.simulator.split_time import FeedForwardSide, SplitTime
from headway.simulator.staged_time import step_timer
from headway.simulator.tier_memory import TierMemory, kv_block_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headway.arithmetic.matrices import Part
    from headway.arithmetic.shape import ModelShape
    from headway.catalog import Figure, System
    from headway.scheduler.config import CacheGroup
    from headway.simulator.executor import Timer
    from headway.simulator.observer import Observer
    from headway.workload.call import Workload

Batching = Literal["continuous", "static"]
Reservation = Literal["demand", "worst_case"]
HOST_GAP_S = 0.0002
"""Between the steps of the floor, which has no host of its own: what a lean engine's loop takes."""
CONTEXT_OF_STATES = 1 << 20
"""The longest sequence of a model that keeps states alone, where its file does not say."""
UNLIMITED = 1 << 62
"""Of a scheduler's queue: who is refused is seen to before that (QueueLimits)."""
LOAD_TIMEOUT_NS = 30_000_000_000
"""Who has waited so long for KV from a tier computes it instead."""


class Sink(Protocol):
    """Is given each call's record as it ends."""

    def add(self, record: Record) -> None: ...


@dataclass(frozen=True, slots=True)
class Setup:
    """Hardware and policy. `calibration`: figures of the catalog, or None for the floor."""

    model: ModelShape
    system: System
    precision: Precision = field(default_factory=Precision)
    cut: Parallelism = field(default_factory=Parallelism)
    feed_forward: FeedForwardSide | None = None
    """Where it is on other chips than attention, which then is all that `system` and `cut` are of."""
    calibration: Mapping[str, Figure] | None = None
    host_gap_s: float | None = None
    """None: what the calibration says, or HOST_GAP_S."""
    energy: Mapping[str, Figure] = field(default_factory=dict)
    """The catalog's joules of a byte and a FLOP, by level: by what a call's joules are told. Empty: by time."""
    num_replicas: int = 1
    router: str = "round-robin"
    block_size: int = 16
    num_blocks: int | None = None
    """Of the growing cache group; None: what the chips have room for."""
    usable_memory: float = USABLE
    max_running: int = 256
    max_step_tokens: int = 8192
    max_context: int | None = None
    max_queued_requests: int | None = None
    """That wait at a replica; the next one is refused. None, as below: any number."""
    max_queued_tokens: int | None = None
    """Of prompts."""
    max_output_tokens: int | None = None
    prefix_caching: bool = True
    tiers: tuple[TierMemory, ...] = ()
    """Memories below a replica that keep its KV, nearest first."""
    kv_ttl_s: float | None = None
    """For how long KV that nobody uses stays on the device; None: until there is no room."""
    batching: Batching = "continuous"
    reservation: Reservation = "demand"
    jumps: bool = True
    role: Role = "mixed"
    """Of a pool. Those that prefill or decode only hand over what one chip's link carries, or `handover`."""
    handover: Link | None = None
    """None: the system's link beyond one scale-up domain."""
    round_trip_s: float = 0.0
    """Between clients and the fleet, where no regions are said."""
    region: str = ""
    """Of a pool."""
    serves: str = ANY
    """A pattern of the models, as the trace names them, that are asked of these replicas."""
    regions: Regions | None = None
    faults: tuple[Fault, ...] = ()
    random_faults: RandomFaults | None = None
    pools: tuple[Setup, ...] = ()
    """Where replicas are unlike: the hardware and policy of each pool. `router`, `block_size`, `max_output_tokens`,
    `jumps`, `round_trip_s`, `regions` and faults are then the fleet's, from here. Empty: all replicas are as said here.
    """

    @property
    def all_pools(self) -> tuple[Setup, ...]:
        return self.pools or (self,)

    def scheduler_config(self) -> SchedulerConfig:
        """Raises ShapeError if there is no room for the model, ConfigError for numbers that contradict each other."""
        groups = self._groups()
        ranks = self.cut.data
        growing = [group.num_blocks // ranks * self.block_size for group in groups if group.kind == "full"]
        if self.max_context is not None and self.max_context > min(growing, default=self.max_context):
            most = f"the {min(growing):,} tokens that a sequence has KV blocks for"
            raise ConfigError(f"max_context must be at most {most}, not {self.max_context:,}")
        context = self.max_context or self.model.max_context or min(growing, default=CONTEXT_OF_STATES)
        return SchedulerConfig(
            groups=groups,
            block_size=self.block_size,
            max_running=self.max_running,
            max_step_tokens=self.max_step_tokens,
            max_context=min([context, *growing]),
            max_queued_requests=UNLIMITED,
            max_queued_tokens=UNLIMITED,
            prefix_caching=self.prefix_caching or self.role == "decode",
            tiers=tuple(tier.tier(self.kv_block_bytes) for tier in self.tiers),
            kv_ttl_ns=None if self.kv_ttl_s is None else round(self.kv_ttl_s * 1e9),
            transfer_timeout_ns=LOAD_TIMEOUT_NS,
            token_ids=False,
            late_blocks=self.jumps,
            batching=self.batching,
            reservation=self.reservation,
        )

    def _groups(self) -> tuple[CacheGroup, ...]:
        elsewhere: tuple[Part, ...] = ()
        if self.feed_forward is not None:
            self.feed_forward.check_fits(self.model, self.precision, self.usable_memory)
            elsewhere = FEED_FORWARD
        chip, size, rows, chunk = self.system.chip, self.block_size, self.max_running, self.max_step_tokens
        usable, asked = self.usable_memory, self.num_blocks
        return cache_group_blocks(
            self.model, chip, self.precision, self.cut, size, rows, chunk, usable, asked, elsewhere
        )

    def step_time(self) -> Timer:
        """Raises CatalogError where the chip or its links publish too little, ConfigError for a gap that is no time."""
        known = None if self.calibration is None else coefficients(self.calibration)
        gap_s = self.host_gap_s
        if gap_s is None:
            gap_s = HOST_GAP_S if known is None else 0.0
        if not 0 <= gap_s < math.inf:
            raise ConfigError(f"host_gap_s must be a time, not {gap_s}")
        model, p, most = self.model, self.precision, self.max_step_tokens
        if self.feed_forward is None:
            return step_timer(model, p, self.cut, self.system, most, known, gap_s)
        if known is not None:
            raise ConfigError("no fit is of a replica on two systems: with --ffn-system steps are at their floor")
        return SplitTime(model, p, self.cut, self.system, self.feed_forward, most, gap_s)

    @property
    def kv_block_bytes(self) -> float:
        return kv_block_bytes(self.model, self.precision, self.block_size)

    @property
    def replica_price(self) -> Price:
        mine, other = _price(self.system, self.cut.chips), self.feed_forward
        return mine if other is None else mine.plus(_price(other.system, other.chips))

    @property
    def tier_usd_per_hour(self) -> float | None:
        """Of all tiers of a replica."""
        return added(tier.usd_per_hour for tier in self.tiers)

    @property
    def chips(self) -> int:
        """Of a replica."""
        return self.cut.chips + (self.feed_forward.chips if self.feed_forward else 0)

    @property
    def fleet_context(self) -> int:
        """A fleet has one context, that of the pool with the shortest."""
        return min(pool.scheduler_config().max_context for pool in self.all_pools)

    def pool(self, context: int) -> Pool:
        """Of this hardware and policy; `context` is the fleet's."""
        scheduler = replace(self.scheduler_config(), max_context=context)
        timer, port = self.step_time(), self.port()
        size, role, region = self.kv_block_bytes, self.role, self.region
        queue = QueueLimits(self.max_queued_requests, self.max_queued_tokens)
        own = device_block_bytes(self.model, self.precision, self.block_size)
        pool = Pool(self.num_replicas, scheduler, timer, self.tiers, size, role, region, self.serves, port, queue, own)
        if not self.tiers:
            return pool
        token_ns = round(1e9 / pool.tokens_per_s())
        return replace(pool, scheduler=replace(scheduler, prompt_token_ns=token_ns))

    def port(self) -> Port | None:
        """Chips that hold the same KV heads send them twice: what arrives is less than what goes through."""
        if self.role == "mixed":
            return None
        link = self.handover or self.system.scaleout
        if link is None:
            raise CatalogError(f"no link from {self.system.name} to other machines is published: --handover-bandwidth")
        model, tokens = self.model, self.block_size * 256
        fullest_chip_bytes = kv_bytes_per_chip(model, tokens, 1, self.precision, self.cut)
        shards = kv_bytes(model, tokens, self.precision) / fullest_chip_bytes
        return Port(link.bytes_per_s * shards, link.latency_s or 0.0)

    def parcel(self) -> Parcel | None:
        """Raises ConfigError for pools whose KV is not alike."""
        splits = [pool for pool in self.all_pools if pool.role != "mixed"]
        if not splits:
            return None
        formats = sorted({pool.precision.kv.name for pool in splits})
        if len(formats) > 1:
            raise ConfigError(f"KV is handed over as it is: pools cannot keep it as {' and '.join(formats)}")
        model, precision = splits[0].model, splits[0].precision
        if any(pool.model != model for pool in splits):
            raise ConfigError("KV is handed over as it is: pools with a role must have one model")
        return Parcel(lru_cache(maxsize=4096)(lambda tokens: kv_bytes(model, tokens, precision)), len(model.layers))

    def fleet_config(self) -> FleetConfig:
        """Raises what `scheduler_config` and `step_time` raise, WorkloadError for pools that do not go together."""
        context = self.fleet_context
        pools = tuple(p.pool(context) for p in self.all_pools)
        limit, parcel = self.max_output_tokens, self.parcel()
        way_s, regions, faults = self.round_trip_s, self.regions, self.faults
        return FleetConfig(pools, self.router, limit, self.jumps, parcel, way_s, regions, faults, self.random_faults)


def _price(system: System, chips: int) -> Price:
    chip = system.chip
    return Price(chip.tdp_w, chip.rent_usd_per_hour or chip.tco_usd_per_hour).times(chips)


def simulate(
    setup: Setup,
    workload: Workload,
    slo: Slo | None = None,
    sink: Sink | None = None,
    on_progress: Callable[[int], None] | None = None,
    observer: Observer | None = None,
) -> Summary:
    """Runs the workload to its end; on KeyboardInterrupt the summary is of what had ended by then.

    `on_progress` gets the number of calls recorded so far. Raises WorkloadError, ShapeError, ConfigError, CatalogError.
    """
    results = Results(slo or Slo())

    def on_record(record: Record) -> None:
        results.add(record)
        times.add(record)
        if sink is not None:
            sink.add(record)
        if observer is not None:
            observer.recorded(record)
        if on_progress is not None:
            on_progress(results.num_records)

    fleet = Fleet(setup.fleet_config(), on_record, observer)
    times = PoolTimes([backend.load.pool for backend in fleet.backends])
    interrupted = False
    try:
        fleet.run(workload)
    except KeyboardInterrupt:
        interrupted = True
    uses, kv = _uses(setup, fleet, times), fleet.kv_uses(results.duration_s)
    return results.summary(uses, interrupted, kv, fleet.num_failures)


def _uses(setup: Setup, fleet: Fleet, times: PoolTimes) -> list[PoolUse]:
    uses = []
    for number, pool in enumerate(setup.all_pools):
        backends = fleet.of_pool(number)
        executors = [backend.replica.executor for backend in backends]
        inboxes = [backend.inbox for backend in backends if backend.inbox is not None]
        received, failed = sum(i.received_bytes for i in inboxes), sum(i.num_failed for i in inboxes)
        price = pool.replica_price
        parts = {"": pool.system.name, " in ": pool.region, " for ": pool.serves}
        name = "".join(word + value for word, value in parts.items() if value)
        tiers, waits = pool.tier_usd_per_hour, times.of(number)
        uses.append(PoolUse(name, pool.chips, price, executors, pool.role, received, failed, tiers, *waits))
    return uses
