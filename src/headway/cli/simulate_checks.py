"""Options of `headway simulate` that contradict each other, or that the mode asked for does not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from headway.cli.preconditions import ReadIf, refuse_unread, spelt
from headway.cli.replica_options import REPLICA
from headway.cli.tier_options import KEPT

_REPLAY = frozenset(("replay", "as_json", "trace_out", "trace_limit"))
_WHAT_IF = frozenset(("replay", "as_json", "changes"))
_PRICED = frozenset(("system", *REPLICA, "overlays"))
"""Read for joules and dollars of what was logged, once --system says on what."""
_TIMED = frozenset(("model", "weights", "experts", "kv", "calibrated", "host_gap"))
"""Read for the step times of another system."""
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


def check_replay(given: Iterable[str], changes: Mapping[str, str] | None) -> None:
    """Raises UsageError for an option on the command line that a replay, or a fork with `changes`, does not read."""
    given = frozenset(given)
    read = _REPLAY if changes is None else _WHAT_IF
    if changes is not None and "system" in changes:
        read |= _PRICED | _TIMED
    elif changes is not None and "system" in given:
        read |= _PRICED
    unread = given - read
    if not unread:
        return
    listed = spelt(sorted(unread))
    raise click.UsageError(f"choose one: --replay LOG, which has a workload and a machine of its own, or {listed}")
