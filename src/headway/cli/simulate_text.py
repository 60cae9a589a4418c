"""What `headway simulate` prints: a progress bar on a terminal, a summary as text or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import click

from headway.cli.si import plain, seconds, si
from headway.simulator.kv_use import KVUse
from headway.simulator.pool_use import PoolSummary
from headway.simulator.replay import Replayed
from headway.simulator.results import Quantiles, Summary

EVERY = 64
"""Calls between two looks at the progress bar."""
LIMITS = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "end to end"}
BUSY_SHARE = 0.1
"""Below this a line says how long the replicas stood idle."""
MEANINGS = {
    "TTFT": "from a call's arrival to its first token; TPOT: a token after it, the mean of an answer",
    "ITL": "each gap between two tokens of an answer",
    "a user": "tokens/s of the median answer, 1 / TPOT",
    "bound": "what steps' time went to: reading memory, computing, links between chips, or the host",
}


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
        click.echo(json.dumps(as_result(described, summary), allow_nan=False))
        return
    s, d = summary, described
    cached = f"{s.hit_rate:.1%} of {s.input_tokens:,} prompt tokens from the cache"
    refused = "".join(f", {n:,} refused ({reason.replace('_', ' ')})" for reason, n in s.refused.items())
    click.echo(f"{d['workload']}: {d['model']} on {d['fleet']}")
    if s.interrupted:
        click.echo("  INTERRUPTED: this is what had ended by then")
    _line("calls", f"{s.finished:,} finished, {s.cut_at_limit:,} cut at the token limit{refused}")
    for reason, text in s.first_refusals.items():
        _line("", f"{reason.replace('_', ' ')}, the first: {text}")
    _line("duration", f"{plain(s.duration_s, 's')}, {s.steps:,} steps, busy {s.busy_share:.1%} of the time")
    if s.steps and s.busy_share < BUSY_SHARE:
        _line("idle", f"{_idle(s)} of the time: throughput, goodput and cost are of the whole duration")
    _line("tokens", f"{s.output_tokens:,} out; {cached}; {s.preemptions:,} preemptions")
    if s.empty_answers:
        _line("", f"{counted(s.empty_answers, 'answer')} of no token in the trace, taken as one token")
    if s.failures:
        _line("failures", f"{s.failures:,}; {counted(s.resent, 'time')} a call lost its replica and was sent again")
    click.echo(f"  {'':14} {'mean':>10} {'p50':>10} {'p90':>10} {'p99':>10} {'max':>10}")
    for name, measured in (("queue", s.queue_s), ("TTFT", s.ttft_s), ("TPOT", s.tpot_s), ("ITL", s.itl_s)):
        _quantiles(name, measured)
    _quantiles("end to end", s.e2e_s)
    _line("throughput", f"{plain(s.requests_per_s)} requests/s, {plain(s.output_tokens_per_s)} tokens/s")
    _line("a chip", f"{plain(s.output_tokens_per_s_per_chip)} tokens/s")
    if s.interactivity_tokens_per_s is not None:
        _line("a user", f"{plain(s.interactivity_tokens_per_s)} tokens/s")
    _line("goodput", _goodput(s, d["slo"]))
    _line("bound", ", ".join(f"{k.replace('_', ' ')} {v:.1%}" for k, v in s.bound_share.items() if v))
    for use in s.kv if len(s.kv) > 1 else ():
        _line(f"KV in {use.memory}", _kept(use, s.input_tokens))
    _line("energy", _energy(s.energy_j, s.energy_j_per_output_token))
    _line("cost", _cost(s))
    if len(s.pools) > 1:
        for pool in s.pools:
            _line("pool", _pool(pool))
    paid = "all chips and tiers" if len(s.kv) > 1 else "all chips"
    click.echo(f"  steps: {d['cost_model']}; energy: chips at their power limit while busy; cost: {paid}, all the time")
    for text in d["assumptions"]:
        click.echo(f"  assuming: {text}")
    if "energy_of_a_call" in d:
        click.echo(f"  energy of a call in --out: {d['energy_of_a_call']}")
    for word, meaning in MEANINGS.items():
        click.echo(f"  {word}: {meaning}")


def _idle(summary: Summary) -> str:
    """Not rounded to all of the time."""
    share = f"{1 - summary.busy_share:.2%}"
    return "more than 99.99%" if share == "100.00%" else share


def as_result(described: dict[str, Any], summary: Summary) -> dict[str, Any]:
    return described | {k: v for k, v in asdict(summary).items() if v is not None or not k.startswith("goodput_")}


def show_replay(replayed: Replayed, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(replayed)))
        return
    counts = f"{counted(replayed.steps, 'step')} and {counted(replayed.requests, 'request')}"
    click.echo(f"{counts} replayed: every decision is the same")
    if replayed.cut_line is not None:
        click.echo(f"  line {replayed.cut_line}, the log's last, breaks off: this is what is before it")


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _line(name: str, text: str) -> None:
    click.echo(f"  {name:14} {text}")


def amount(value: float, unit: str) -> str:
    return plain(value, unit) if unit == "USD" else si(value, unit, 3)


def _quantiles(name: str, q: Quantiles) -> None:
    cells = (q.mean, q.p50, q.p90, q.p99, q.max)
    click.echo(f"  {name:14} " + " ".join(f"{'-' if cell is None else seconds(cell):>10}" for cell in cells))


def _kept(use: KVUse, input_tokens: int) -> str:
    """What a memory held, and what came back from it."""
    held = f"{si(use.mean_used_bytes, 'B', 3)} in use and {si(use.mean_idle_bytes, 'B', 3)} idle of "
    held += f"{si(use.capacity_bytes, 'B', 3)}"
    if use.memory == "device":
        return held
    share = use.loaded_tokens / input_tokens if input_tokens else 0.0
    moved = f"read {si(use.read_bytes, 'B', 3)}, written {si(use.written_bytes, 'B', 3)}"
    if use.failed_transfers:
        moved += f", {counted(use.failed_transfers, 'transfer')} failed"
    cost = "" if use.cost_usd is None else f", {plain(use.cost_usd, 'USD')}"
    return f"{held}; {share:.1%} of prompt tokens came back; {moved}{cost}"


def _goodput(s: Summary, slo: dict[str, float]) -> str:
    if s.goodput_share is None or s.goodput_requests_per_s is None:
        return "no SLO given (--slo-ttft, --slo-tpot, --slo-e2e)"
    within = ", ".join(f"{LIMITS[name]} <= {seconds(limit)}" for name, limit in slo.items())
    return f"{s.goodput_share:.1%} of calls, {plain(s.goodput_requests_per_s)} requests/s within {within}"


def _pool(pool: PoolSummary) -> str:
    title = pool.name if pool.role == "mixed" else f"{pool.name} ({pool.role})"
    size = f"{counted(pool.replicas, 'replica')}, {counted(pool.chips, 'chip')}, busy {pool.busy_share:.1%}"
    amounts = [(pool.energy_j, "J"), (pool.cost_usd, "USD")]
    known = [amount(value, unit) for value, unit in amounts if value is not None]
    for name, times in (("TTFT", pool.ttft_s), ("TPOT", pool.tpot_s)):
        if times is not None and times.p50 is not None and times.p99 is not None:
            known.append(f"{name} p50 {seconds(times.p50)} p99 {seconds(times.p99)}")
    if pool.role == "decode":
        known.append(f"{si(pool.received_bytes, 'B', 3)} of KV received")
    if pool.failed_handovers:
        known.append(f"{counted(pool.failed_handovers, 'hand-over')} failed")
    return ", ".join([title, size, *known])


def _energy(total_j: float | None, each_j: float | None) -> str:
    if total_j is None:
        return "unknown: no power published"
    each = "" if each_j is None else f", {si(each_j, 'J', 3)} a token"
    return f"{si(total_j, 'J', 3)}{each}"


def _cost(s: Summary) -> str:
    """Of chips and memory: what is not known of one of the two is not left out."""
    if s.chip_usd is None:
        return "unknown: no price published"
    chips = f"chips {plain(s.chip_usd, 'USD')}"
    if s.cost_usd is None or s.tier_usd is None:
        return f"unknown: {chips}, no price published of a tier"
    parts = f" ({chips}, memory {plain(s.tier_usd, 'USD')})" if s.tier_usd else ""
    each = "" if s.usd_per_mtok_output is None else f", {plain(s.usd_per_mtok_output, 'USD')} a million tokens"
    return f"{plain(s.cost_usd, 'USD')}{parts}{each}"
