"""Options of `headway simulate` that contradict each other, or that the mode asked for does not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from headway.cli.preconditions import ReadIf, refuse_unread, spelt
from headway.cli.replica_options import REPLICA
from headway.cli.tier_options import KEPT

if TYPE_CHECKING:
    from headway.simulator.simulation import Setup

_REPLAY = frozenset(("replay", "as_json", "trace_out", "trace_limit"))
_WHAT_IF = frozenset(("replay", "as_json", "changes", "out"))
_PRICED = frozenset(("system", *REPLICA, "overlays"))
"""Read for joules and dollars, once it is said on what system."""
_TIMED = frozenset(("model", "weights", "experts", "kv", "calibrated", "host_gap"))
"""Read for the step times of a system."""
MAX_BLOCKS = 1 << 24
"""Of a replica: what the scheduler's own lists of them may cost, some 50 bytes each."""
MAX_FLEET_BLOCKS = 1 << 27
FIELDS = {
    "block_size": "--block-size",
    "max_running": "--max-running",
    "max_step_tokens": "--chunk",
    "max_context": "--context",
    "host_gap_s": "--host-gap",
    "kv_tier": "--kv-tier",
}
"""Of the configuration, as the options here are called."""


_READ_IF = (
    ReadIf(("kv_tiers", "kv_ttl"), lambda o: o["prefix_cache"], KEPT),
    ReadIf(("mttr",), lambda o: o["mtbf"] is not None, "only with --mtbf"),
    ReadIf(("ways", "spill"), lambda o: o["clients"] is not None, "only with --clients REGION=SHARE,…"),
    ReadIf(("round_trip",), lambda o: o["clients"] is None, "not with --clients, whose ways --way says"),
    ReadIf(("trace_limit",), lambda o: o["trace_out"] is not None, "only with --trace-out FILE"),
    ReadIf(("jobs", "ray", "x", "y", "by"), lambda o: o["sweep"], "only with --sweep NAME=V1,V2"),
    ReadIf(("x", "y", "by"), lambda o: o["chart"] is not None, "only with --chart FILE"),
    ReadIf(("trace_out",), lambda o: not o["sweep"], "of one run: not with --sweep"),
    ReadIf(("changes",), lambda o: o["replay"] is not None, "only with --replay LOG"),
)
"""Beside those of the workload."""


def check_options(options: Mapping[str, Any]) -> None:
    """Raises UsageError for one that would be ignored."""
    refuse_unread(options, options["given"], _READ_IF)


def check_blocks(setup: Setup) -> None:
    """Raises ConfigError for more KV blocks than lists of them have room for, ShapeError for no room for one."""
    from headway.scheduler.config import ConfigError

    total = 0
    for pool in setup.all_pools:
        blocks = sum(group.num_blocks for group in pool.scheduler_config().groups)
        total += pool.num_replicas * blocks
        if blocks > MAX_BLOCKS or total > MAX_FLEET_BLOCKS:
            raise ConfigError(
                f"{blocks:,} KV blocks in each of {pool.num_replicas:,} replicas: at most {MAX_BLOCKS:,} in one and "
                f"{MAX_FLEET_BLOCKS:,} in all; choose fewer --replicas or --num-blocks, or a larger --block-size"
            )


def check_replay(given: Iterable[str], changes: Mapping[str, str]) -> None:
    """Raises UsageError for an option on the command line that a replay, or a fork with `changes`, does not read."""
    from headway.simulator.changes import HARDWARE

    given, modelled = frozenset(given), not changes.keys().isdisjoint(HARDWARE)
    if "system" in given:
        read = _WHAT_IF | _PRICED | (_TIMED if modelled or not changes else frozenset())
    elif changes:
        read = _WHAT_IF | (_PRICED | _TIMED if modelled else frozenset())
    else:
        read = _REPLAY
    unread = given - read
    if not unread:
        return
    listed = spelt(sorted(unread))
    raise click.UsageError(f"choose one: --replay LOG, which has a workload and a machine of its own, or {listed}")
