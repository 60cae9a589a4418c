"""What `headway simulate` prints: a progress bar on a terminal, a summary as text or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

import click

from headway.simulator.replay import Replayed
from headway.simulator.results import Quantiles, Summary
from headway.simulator.what_if import WhatIf

EVERY = 64
"""Calls between two looks at the progress bar."""
MOST_SHOWN = 5


@contextmanager
def progress(total: int | None) -> Iterator[Callable[[int], None] | None]:
    """On a terminal a bar on stderr, fed with the number of calls done; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)

        def advance(done: int) -> None:
            if done % EVERY == 0:
                bar.update(task, completed=done)

        yield advance


def show_summary(described: dict[str, Any], summary: Summary, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(described | asdict(summary), allow_nan=False))
        return
    s, d = summary, described
    cached = f"{s.hit_rate:.1%} of {s.input_tokens:,} prompt tokens from the cache"
    refused = "".join(f", {n:,} refused ({reason.replace('_', ' ')})" for reason, n in s.refused.items())
    click.echo(f"{d['workload']}: {d['model']} on {d['replicas']} x {d['chips'] // d['replicas']} {d['chip']}")
    if s.interrupted:
        click.echo("  INTERRUPTED: this is what had ended by then")
    _line("calls", f"{s.finished:,} finished, {s.cut_at_limit:,} cut at the token limit{refused}")
    _line("duration", f"{s.duration_s:,.1f} s, {s.steps:,} steps, busy {s.busy_share:.1%} of the time")
    _line("tokens", f"{s.output_tokens:,} out; {cached}; {s.preemptions:,} preemptions")
    click.echo(f"  {'':14} {'mean':>10} {'p50':>10} {'p90':>10} {'p99':>10} {'max':>10}")
    for name, measured in (("queue", s.queue_s), ("TTFT", s.ttft_s), ("TPOT", s.tpot_s), ("ITL", s.itl_s)):
        _quantiles(name, measured)
    _quantiles("end to end", s.e2e_s)
    _line("throughput", f"{s.requests_per_s:.4g} requests/s, {s.output_tokens_per_s:.5g} tokens/s")
    _line("a chip", f"{s.output_tokens_per_s_per_chip:.4g} tokens/s")
    if s.interactivity_tokens_per_s is not None:
        _line("a user", f"{s.interactivity_tokens_per_s:.4g} tokens/s")
    _line("goodput", f"{s.goodput_share:.1%} of calls, {s.goodput_requests_per_s:.4g} requests/s")
    _line("bound", ", ".join(f"{k.replace('_', ' ')} {v:.1%}" for k, v in s.bound_share.items() if v))
    _line("energy", _known(s.energy_j, "J", s.energy_j_per_output_token, "J a token", "no power published"))
    _line("cost", _known(s.cost_usd, "USD", s.usd_per_mtok_output, "USD a million tokens", "no price published"))
    click.echo(
        f"  steps: {d['cost_model']}; energy: chips at their power limit while busy; cost: all chips, all the time"
    )


def show_replay(replayed: Replayed, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(replayed)))
        return
    click.echo(f"{replayed.steps:,} steps and {replayed.requests:,} requests replayed: every decision is the same")


def show_what_if(found: WhatIf, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(found), allow_nan=False))
        return
    changes = ", ".join(f"{name}={value}" for name, value in found.changes.items())
    click.echo(f"{found.requests:,} requests, {found.steps:,} steps; with {changes}")
    click.echo(f"  {'mean':14} {'logged':>10} {'simulated':>10} {'changed':>10} {'difference':>10}")
    for name, get in (("TTFT", "ttft_s"), ("TPOT", "tpot_s"), ("end to end", "e2e_s")):
        means = [getattr(run, get).mean for run in (found.logged, found.simulated, found.changed)]
        _compared(name, means, _seconds)
    for name, unit, field in (("energy", "J", "energy_j"), ("cost", "USD", "cost_usd")):
        totals = [getattr(run, field) for run in (found.logged, found.simulated, found.changed)]
        if totals[2] is not None:
            _compared(f"{name}, total", totals, partial(_amount, unit=unit))
    worst = sorted(found.differences, key=lambda d: -abs(d.e2e_s))[:MOST_SHOWN]
    click.echo("  most changed, end to end: " + ", ".join(f"{d.id} {_seconds(d.e2e_s)}" for d in worst))
    click.echo(f"  step times are fitted to the log and off by {found.fit_median_error:.1%} (median);")
    click.echo("  logged against simulated tells how far the rest can be believed")


def _line(name: str, text: str) -> None:
    click.echo(f"  {name:14} {text}")


def _compared(name: str, values: list[float | None], shown: Callable[[float], str]) -> None:
    """Logged, simulated, changed, and the difference of the last two."""
    _, before, after = values
    difference = None if before is None or after is None else after - before
    click.echo(f"  {name:14} " + " ".join(f"{'-' if x is None else shown(x):>10}" for x in (*values, difference)))


def _amount(value: float, unit: str) -> str:
    return f"{value:.3g} {unit}"


def _quantiles(name: str, q: Quantiles) -> None:
    cells = (q.mean, q.p50, q.p90, q.p99, q.max)
    click.echo(f"  {name:14} " + " ".join(f"{'-' if cell is None else _seconds(cell):>10}" for cell in cells))


def _seconds(value: float) -> str:
    return f"{value:.4g} s" if abs(value) >= 1 else f"{value * 1e3:.4g} ms"


def _known(total: float | None, unit: str, each: float | None, each_unit: str, unknown: str) -> str:
    return f"unknown: {unknown}" if total is None or each is None else f"{total:.4g} {unit}, {each:.4g} {each_unit}"
