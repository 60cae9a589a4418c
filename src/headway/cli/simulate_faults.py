"""Failures on the command line: `--fault replica=1,at=60,for=30`, `--fault link=handover,at=60`, `--mtbf 3600`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from headway.cli.quantities import Seconds
from headway.cli.simulate_pools import parse_fields

if TYPE_CHECKING:
    from headway.simulator.faults import Fault, RandomFaults

MOST_FAULTS = 10_000
FIELDS = ("replica", "link", "at", "for")


def fault_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option(
                "--fault",
                "faults",
                multiple=True,
                metavar="FIELD=VALUE,…",
                help="A failure: replica=1,at=60,for=30 (seconds; without for: for good), or link=handover,at=60,for=5 "
                "of all links, with replica=N of one; repeat.",
            ),
            click.option("--mtbf", type=Seconds(), help="Random failures: mean seconds of a replica between two."),
            click.option("--mttr", type=Seconds(), help="And mean seconds until it is there again.  [default: 60]"),
        )
    ):
        command = option(command)
    return command


def faults_of(options: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Raises UsageError, WorkloadError."""
    if len(options["faults"]) > MOST_FAULTS:
        raise click.UsageError(f"--fault: at most {MOST_FAULTS:,}, not {len(options['faults']):,}")
    return tuple(_fault(text) for text in options["faults"])


def random_faults_of(options: Mapping[str, Any]) -> RandomFaults | None:
    """Raises UsageError, WorkloadError."""
    from headway.simulator.faults import RandomFaults

    if options["mtbf"] is None:
        if options["mttr"] is not None:
            raise click.UsageError("--mttr needs --mtbf")
        return None
    return RandomFaults(options["mtbf"], options["mttr"] or 60.0, options["seed"])


def _fault(text: str) -> Fault:
    from headway.simulator.faults import Fault

    fields = parse_fields(text, "--fault", FIELDS)
    if "at" not in fields or not fields.keys() & {"replica", "link"}:
        raise click.UsageError(f"--fault {text!r}: it needs at=SECONDS, and replica=N or link=handover")
    if fields.get("link", "handover") != "handover":
        raise click.UsageError(f"--fault {text!r}: link must be handover, not {fields['link']!r}")
    numbers = {name: _number(text, name, fields[name]) for name in ("replica", "at", "for") if name in fields}
    replica = numbers.get("replica")
    return Fault(
        "handover" if "link" in fields else "replica",
        numbers["at"],
        numbers.get("for"),
        None if replica is None else int(replica),
    )


def _number(text: str, name: str, value: str) -> float:
    try:
        return int(value) if name == "replica" else float(value)
    except ValueError:
        raise click.UsageError(f"--fault {text!r}: {name} must be a number, not {value!r}") from None
