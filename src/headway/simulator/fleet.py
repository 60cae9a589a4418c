"""Clients, a gateway and pools of replicas in one world: sessions come in, calls go out, records come back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headway.simulator.clients import Client, Clients
from headway.simulator.gateway import Gateway, Limits
from headway.simulator.observer import Observer
from headway.simulator.pools import Pool
from headway.simulator.record import Record
from headway.simulator.replica import Replica
from headway.simulator.router import Load, make_router
from headway.simulator.world import World
from headway.workload.call import Workload, WorkloadError


@dataclass(frozen=True, slots=True)
class FleetConfig:
    pools: tuple[Pool, ...]
    """Whose blocks have one size."""
    router: str = "round-robin"
    max_output_tokens: int | None = None
    """The limit of calls that have none of their own; None: what the context allows. True lengths are never told."""
    jumps: bool = True
    """Off: every step is planned. The results are the same, later."""

    def __post_init__(self) -> None:
        if not self.pools:
            raise WorkloadError("a fleet needs a pool")
        sizes = {pool.scheduler.block_size for pool in self.pools}
        if len(sizes) > 1:
            raise WorkloadError(f"pools must have one block_size, not {', '.join(map(str, sorted(sizes)))}")

    @property
    def block_size(self) -> int:
        return self.pools[0].scheduler.block_size

    def limits(self) -> Limits:
        """A fleet has one context: that of the pool with the shortest."""
        schedulers = [pool.scheduler for pool in self.pools]
        return Limits(
            min(scheduler.max_context for scheduler in schedulers),
            self.max_output_tokens,
            any(scheduler.prefix_caching for scheduler in schedulers),
        )


class Fleet:
    """Law: every call of the workload is recorded exactly once, unless the run is interrupted."""

    def __init__(
        self, config: FleetConfig, on_record: Callable[[Record], None], observer: Observer | None = None
    ) -> None:
        self.config = config
        self.world = World()
        self._on_record = on_record
        loads = _loads(config)
        self.replicas = [self._replica(load, observer) for load in loads]
        router = make_router(config.router, config.block_size)
        self._gateway = Gateway(self.world, self.replicas, loads, router, config.limits(), self._answered)
        self._clients: Clients
        """Once it runs."""

    def _replica(self, load: Load, observer: Observer | None) -> Replica:
        pool = self.config.pools[load.pool]
        return Replica(
            load.replica,
            self.world,
            pool.scheduler,
            pool.timer,
            lambda finished: self._gateway.ended(finished),
            self.config.jumps,
            observer,
        )

    def of_pool(self, pool: int) -> list[Replica]:
        first = sum(p.num_replicas for p in self.config.pools[:pool])
        return self.replicas[first : first + self.config.pools[pool].num_replicas]

    def run(self, workload: Workload) -> None:
        """To the end of the workload. Raises WorkloadError for a bad one; then, and on KeyboardInterrupt, what was
        recorded so far stays good.
        """
        self._clients = Clients(self.world, workload, self.config.block_size, self._gateway.ask)
        self._clients.begin()
        self.world.run()

    def _answered(self, client: Client, record: Record) -> None:
        self._on_record(record)
        self._clients.answered(client, record.call)


def _loads(config: FleetConfig) -> list[Load]:
    """Replicas are numbered through, pool by pool."""
    speeds = [pool.tokens_per_s() for pool in config.pools]
    loads: list[Load] = []
    for number, pool in enumerate(config.pools):
        blocks, speed = pool.scheduler.groups[0].num_blocks, speeds[number] / max(speeds)
        for _ in range(pool.num_replicas):
            loads.append(Load(blocks=blocks, speed=speed, replica=len(loads), pool=number))
    return loads
