"""Options of `headway simulate` that contradict each other, or that the mode asked for does not read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from headway.cli.replica_options import REPLICA

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
    "kv_tier": "--tier",
}
"""Of the configuration, as the options here are called."""


def check_load(options: Mapping[str, Any]) -> None:
    """Raises UsageError where two loads are asked for, or KV is kept for nobody."""
    if options["rate"] is not None and options["concurrency"] is not None:
        raise click.UsageError("choose one: --rate (open loop) or --concurrency (closed loop)")
    if not options["prefix_cache"] and (options["tiers"] or options["kv_ttl"] is not None):
        raise click.UsageError("--tier and --kv-ttl keep KV for the prefix cache: not with --no-prefix-cache")
    if options["rate"] is not None and options["trace"] is not None:
        raise click.UsageError("choose one: --rate, or --trace with times of its own (--speed makes them shorter)")


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
    names = {param.name: param.opts[0] for param in click.get_current_context().command.params}
    listed = ", ".join(sorted(names.get(name) or name for name in unread))
    raise click.UsageError(f"choose one: --replay LOG, which has a workload and a machine of its own, or {listed}")
