"""What `headway simulate --replay LOG` prints of a run with something changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import click

from headway.cli.si import seconds
from headway.cli.simulate_text import amount, counted
from headway.simulator.model_error import Errors, ModelError
from headway.simulator.what_if import WhatIf

MOST_SHOWN = 5
MOST_OF_AN_ID = 16


def show_what_if(found: WhatIf, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(found), allow_nan=False))
        return
    changes = ", ".join(f"{name}={value}" for name, value in found.changes.items()) or "other step times"
    click.echo(f"{counted(found.requests, 'request')}, {counted(found.steps, 'step')}; with {changes}")
    if found.left_out:
        click.echo(f"  left out: {counted(found.left_out, 'request')} of the log, which would get no whole answer")
    for name, machines in (("simulated", found.simulated_on), ("changed", found.changed_on)):
        if machines:
            click.echo(f"  {name}: {machines}")
    runs = (found.logged, found.simulated, found.changed)
    before = 0 if found.differences_from == "logged" else 1
    click.echo(f"  {'mean':14} {'logged':>10} {'simulated':>10} {'changed':>10} {'difference':>10}")
    for name, get in (("TTFT", "ttft_s"), ("TPOT", "tpot_s"), ("end to end", "e2e_s")):
        _compared(name, [getattr(run, get).mean for run in runs], before, seconds)
    for name, unit, field in (("energy", "J", "energy_j"), ("cost", "USD", "cost_usd")):
        totals = [getattr(run, field) for run in runs]
        if any(total is not None for total in totals):
            _compared(f"{name}, total", totals, before, partial(amount, unit=unit))
    click.echo(f"  difference: changed less {found.differences_from}, here and of each request")
    worst = sorted(found.by_request, key=lambda each: -abs(each.difference.e2e_s))[:MOST_SHOWN]
    most = ", ".join(f"{_short(each.id)} {seconds(each.difference.e2e_s)}" for each in worst)
    click.echo(f"  most changed, end to end: {most}")
    if found.model_error is not None:
        _show_error(found.model_error)
    if not found.simulated_on:
        click.echo(f"  simulated: step times are fitted to the log and off by {found.fit_median_error:.1%} (median)")
    click.echo("  logged against simulated tells how far the rest can be believed")


def _show_error(error: ModelError) -> None:
    click.echo("  error of the steps' model, if the machine that was logged is the one it is of:")
    click.echo(f"  {'':14} {'number':>10} {'of mean':>10} {'median':>10} {'p90':>10}  median and p90 of |error|")
    for name, each in (
        ("prompt steps", error.prompt_steps),
        ("decode steps", error.decode_steps),
        ("TTFT", error.ttft),
        ("TPOT", error.tpot),
    ):
        click.echo(f"  {name:14} {each.number:>10,} " + " ".join(f"{cell:>10}" for cell in _percent(each)))


def _percent(errors: Errors) -> tuple[str, str, str]:
    bias, median, p90 = errors.of_mean, errors.median, errors.p90
    if bias is None or median is None or p90 is None:
        return "-", "-", "-"
    return f"{bias:+.1%}", f"{median:.1%}", f"{p90:.1%}"


def _compared(name: str, values: list[float | None], before: int, shown: Callable[[float], str]) -> None:
    """Logged, simulated, changed, and the last less the one that `before` says."""
    was, becomes = values[before], values[2]
    difference = None if was is None or becomes is None else becomes - was
    click.echo(f"  {name:14} " + " ".join(f"{'-' if x is None else shown(x):>10}" for x in (*values, difference)))


def _short(id: str) -> str:
    return id if len(id) <= MOST_OF_AN_ID else f"{id[: MOST_OF_AN_ID - 1]}…"
