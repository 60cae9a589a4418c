"""Clients, a gateway and pools of replicas in one world: sessions come in, calls go out, records come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headway.simulator.clients import Client, Clients
from headway.simulator.faults import HANDOVER, REPLICA, Fault, Faults, RandomFaults
from headway.simulator.gateway import Gateway, Limits
from headway.simulator.group import Backend, Group, Site
from headway.simulator.handover import Inbox, Parcel, PortEnd
from headway.simulator.kv_use import KVUse, kv_uses
from headway.simulator.links import End, TierLinks
from headway.simulator.model_routes import ModelRoutes
from headway.simulator.observer import Observer
from headway.simulator.pools import Pool, check_roles
from headway.simulator.record import Record
from headway.simulator.regions import Nearest, Regions
from headway.simulator.replica import ARRIVAL, Replica
from headway.simulator.router import Load, make_router
from headway.simulator.world import World
from headway.workload.call import Call, Workload, WorkloadError


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """Raises WorkloadError for pools, regions and hand-overs that do not go together."""

    pools: tuple[Pool, ...]
    """Whose blocks have one size."""
    router: str = "round-robin"
    max_output_tokens: int | None = None
    """The limit of calls that have none of their own; None: what the context allows. True lengths are never told."""
    jumps: bool = True
    """Off: every step is planned. The results are the same, later."""
    parcel: Parcel | None = None
    """What is handed over, where pools prefill or decode only."""
    round_trip_s: float = 0.0
    """Between clients and the fleet, where no regions are said."""
    regions: Regions | None = None
    faults: tuple[Fault, ...] = ()
    random_faults: RandomFaults | None = None

    def __post_init__(self) -> None:
        if not self.pools:
            raise WorkloadError("a fleet needs a pool")
        check_roles(self.pools)
        if self.regions is None and len(self.places) > 1:
            places = ", ".join(filter(None, self.places))
            raise WorkloadError(f"pools are in {places}, and it is not said where clients are (--clients)")
        if self.regions is not None and "" in self.places:
            raise WorkloadError("clients are in regions: each pool needs a region too")
        if self.parcel is not None and any(pool.serves for pool in self.pools):
            raise WorkloadError("pools with a role hand over KV of one model: none of them takes serves=")
        sizes = {pool.scheduler.block_size for pool in self.pools}
        if len(sizes) > 1:
            raise WorkloadError(f"pools must have one block_size, not {', '.join(map(str, sorted(sizes)))}")

    @property
    def block_size(self) -> int:
        return self.pools[0].scheduler.block_size

    @property
    def places(self) -> list[str]:
        """Regions of replicas."""
        return list(dict.fromkeys(pool.region for pool in self.pools))

    def limits(self) -> Limits:
        """A fleet has one context: that of the pool with the shortest."""
        return Limits(
            min(pool.scheduler.max_context for pool in self.pools),
            self.max_output_tokens,
            any(pool.scheduler.prefix_caching for pool in self.pools if pool.role != "decode"),
            self.block_size,
        )


class Fleet:
    """Law: every call of the workload is recorded exactly once, unless the run is interrupted."""

    def __init__(
        self, config: FleetConfig, on_record: Callable[[Record], None], observer: Observer | None = None
    ) -> None:
        self.config = config
        self.world = World()
        self._on_record = on_record
        self._way_ns = round(config.round_trip_s / 2 * 1e9)
        loads = _loads(config)
        self._tier_links = [self._links(config.pools[load.pool]) for load in loads]
        self.backends = [self._backend(load, observer) for load in loads]
        self.replicas = [backend.replica for backend in self.backends]
        self._ends = [_ends(*each) for each in zip(self.backends, self._tier_links, strict=True)]
        """By link, of each replica."""
        self._models = ModelRoutes([pool.serves for pool in config.pools])
        self._sites = {
            serves: [self._site(place, serves) for place in config.places] for serves in self._models.patterns
        }
        self._gateway = Gateway(
            self.world,
            self.backends,
            [site for sites in self._sites.values() for site in sites],
            config.limits(),
            self._answered,
        )
        self._nearest = None if config.regions is None else Nearest(config.regions, config.places)
        self.num_failures = 0
        """Of replicas and links, so far."""
        self._clients: Clients
        """Once it runs, as the next."""
        self._faults: Faults

    def _site(self, place: str, serves: str) -> Site:
        pools = self.config.pools
        there = [b for b in self.backends if (pools[b.load.pool].region, pools[b.load.pool].serves) == (place, serves)]
        return Site(
            self._group([backend for backend in there if backend.role != "decode"]),
            self._group([backend for backend in there if backend.role == "decode"]),
        )

    def _group(self, backends: list[Backend]) -> Group:
        return Group(make_router(self.config.router, self.config.block_size), backends)

    def _backend(self, load: Load, observer: Observer | None) -> Backend:
        config = self.config
        pool, carrier = config.pools[load.pool], self._tier_links[load.replica]
        end = None if pool.port is None or pool.role == "mixed" else PortEnd(self.world, pool.port)
        inbox = None
        if pool.role == "decode" and end is not None and config.parcel is not None:
            inbox = Inbox(self.world, end, config.parcel, config.block_size, carrier, lambda fact: replica.tell(fact))
        replica = Replica(
            load.replica,
            self.world,
            pool.scheduler,
            pool.timer,
            lambda finished: self._gateway.ended(finished),
            config.jumps,
            observer,
            inbox or carrier,
        )
        return Backend(replica, load, pool.role, end, inbox, pool.queue)

    def _links(self, pool: Pool) -> TierLinks:
        return TierLinks(self.world, pool.tiers, pool.kv_block_bytes)

    def kv_uses(self, paid_s: float | None = None) -> tuple[KVUse, ...]:
        """Of the run so far, as is what is paid for unless `paid_s` says otherwise."""
        now_ns = self.world.now_ns
        pools = (pool for pool in self.config.pools for _ in range(pool.num_replicas))
        memories = (replica.memory_use() for replica in self.replicas)
        return kv_uses(zip(pools, self._tier_links, memories, strict=True), now_ns / 1e9, paid_s)

    def of_pool(self, pool: int) -> list[Backend]:
        return [backend for backend in self.backends if backend.load.pool == pool]

    def run(self, workload: Workload) -> None:
        """To the end of the workload. Raises WorkloadError for a bad one; then, and on KeyboardInterrupt, what was
        recorded so far stays good.
        """
        regions = self.config.regions
        region = (lambda: "") if regions is None else regions.draws()
        self._clients = Clients(self.world, workload, self.config.block_size, self._send, region)
        self._clients.begin()
        self._faults = faults = self._plan_faults()
        self.world.run()
        while self._gateway.has_waiting:
            self._gateway.give_up(faults.is_for_good)
            if self._gateway.has_waiting and not self.world.run_aside():
                self._gateway.give_up(lambda _: True)
            self.world.run()

    def _plan_faults(self) -> Faults:
        config = self.config
        if any(fault.what == HANDOVER for fault in config.faults) and config.parcel is None:
            raise WorkloadError("fault of link=handover: no pool hands anything over")
        faults = Faults(self.world, len(self.backends), self._fail, self._recover)
        faults.plan(config.faults, self._ends)
        if config.random_faults is not None:
            faults.draw(config.random_faults)
        return faults

    def _fail(self, what: str, replica: int) -> None:
        self.num_failures += 1
        if what == REPLICA:
            self._gateway.fail(self.backends[replica])
            self._tier_links[replica].break_off()
        else:
            self._ends[replica][what].fail()

    def _recover(self, what: str, replica: int) -> None:
        if what == REPLICA:
            self._gateway.recover(self.backends[replica])
        else:
            self._ends[replica][what].recover()

    def _answered(self, client: Client, record: Record) -> None:
        self._on_record(record)
        self._travel(record.way_ns, self._clients.answered, client, record.call)

    def _send(self, client: Client, call: Call) -> None:
        sites = self._sites[self._models.of(call)]
        number, way_ns = self._route(client, sites)
        self._travel(way_ns, self._gateway.ask, client, call, sites[number], way_ns)

    def _route(self, client: Client, sites: list[Site]) -> tuple[int, int]:
        """Site and way, as a client's name server knows them when it sends: with room, or else up, or else not lost for
        good, as a place is that has no replica for the call's model.
        """
        if self._nearest is None or self.config.regions is None:
            return 0, self._way_ns
        spill, is_lost = self.config.regions.spill, self._faults.is_for_good
        has_room = [site.has_room(spill) for site in sites]
        is_up = [site.is_up for site in sites]
        return self._nearest.choose(client.region, has_room, is_up, [site.will_be_up(is_lost) for site in sites])

    def _travel(self, way_ns: int, action: Callable[..., None], *arguments: Any) -> None:
        if way_ns:
            self.world.at(self.world.now_ns + way_ns, ARRIVAL, action, *arguments)
        else:
            action(*arguments)


def _ends(backend: Backend, tiers: TierLinks) -> dict[str, End]:
    return tiers.ends if backend.end is None else {**tiers.ends, HANDOVER: backend.end}


def _loads(config: FleetConfig) -> list[Load]:
    """Replicas are numbered through, pool by pool."""
    speeds = [pool.tokens_per_s() for pool in config.pools]
    loads: list[Load] = []
    for number, pool in enumerate(config.pools):
        blocks, speed = pool.scheduler.groups[0].num_blocks, speeds[number] / max(speeds)
        for _ in range(pool.num_replicas):
            loads.append(Load(blocks=blocks, speed=speed, replica=len(loads), pool=number))
    return loads
