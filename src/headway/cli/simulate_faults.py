"""Failures on the command line: `--fault replica=1,at=60,for=30`, `--fault link=dram,at=60`, `--mtbf 3600`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from headway.cli.quantities import Seconds
from headway.cli.simulate_pools import parse_fields
from headway.cli.tier_options import tier_name

if TYPE_CHECKING:
    from headway.simulator.faults import Fault, RandomFaults

MOST_FAULTS = 10_000
FIELDS = ("replica", "link", "at", "for")
_KINDS: dict[str, Any] = {"replica": click.IntRange(0), "at": Seconds(least_s=0), "for": Seconds()}


def fault_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option(
                "--fault",
                "faults",
                multiple=True,
                metavar="FIELD=VALUE,…",
                help="A failure: replica=1,at=60,for=30s (without for: for good), or of a link, link=handover or that "
                "to a --kv-tier: link=dram,at=1min,for=5s at all replicas, with replica=N at one; repeat.",
            ),
            click.option("--mtbf", type=Seconds(), help="Random failures: mean time of a replica between two, as 1h."),
            click.option("--mttr", type=Seconds(), help="And mean time until it is there again.  [default: 60s]"),
        )
    ):
        command = option(command)
    return command


def faults_of(options: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Raises UsageError, WorkloadError."""
    if len(options["faults"]) > MOST_FAULTS:
        raise click.UsageError(f"--fault: at most {MOST_FAULTS:,}, not {len(options['faults']):,}")
    links = ["handover", *(tier_name(text) for text in options["kv_tiers"])]
    return tuple(_fault(text, links) for text in options["faults"])


def random_faults_of(options: Mapping[str, Any]) -> RandomFaults | None:
    """Raises WorkloadError."""
    from headway.simulator.faults import RandomFaults

    if options["mtbf"] is None:
        return None
    return RandomFaults(options["mtbf"], options["mttr"] or 60.0, options["seed"])


def _fault(text: str, links: Sequence[str]) -> Fault:
    from headway.simulator.faults import REPLICA, Fault

    fields = parse_fields(text, "--fault", FIELDS)
    if "at" not in fields or not fields.keys() & {"replica", "link"}:
        raise click.UsageError(f"--fault {text!r}: it needs at=TIME, and replica=N or link={'|'.join(links)}")
    if "link" in fields and fields["link"] not in links:
        raise click.UsageError(f"--fault {text!r}: link must be {' or '.join(links)}, not {fields['link']!r}")
    values = {name: _value(text, name, fields[name]) for name in _KINDS if name in fields}
    return Fault(fields.get("link", REPLICA), values["at"], values.get("for"), values.get("replica"))


def _value(text: str, name: str, value: str) -> Any:
    try:
        return _KINDS[name].convert(value, None, None)
    except click.BadParameter as error:
        raise click.UsageError(f"--fault {text!r}: {name}: {error.message}") from None
