"""Pools of unlike replicas on the command line: `--pool replicas=2,system=hgx-b200,tensor=8`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from headway.cli.quantities import ByteSize, Seconds
from headway.cli.replica_options import REPLICA, chips_text
from headway.cli.simulate_machine import with_machine

if TYPE_CHECKING:
    from headway.catalog import Link, System
    from headway.simulator.simulation import Setup

MOST_POOLS = 64
FIELDS = (
    "replicas",
    "model",
    "system",
    *(name.replace("_", "-") for name in REPLICA),
    "weights",
    "experts",
    "kv",
    "calibrated",
    "host-gap",
    "num-blocks",
    "max-running",
    "max-queued-requests",
    "max-queued-tokens",
    "chunk",
    "context",
    "batching",
    "reservation",
)
"""Of a pool: the options of the command, whose values hold where a pool has none of its own."""
OWN: dict[str, Any] = {
    "role": click.Choice(("mixed", "prefill", "decode")),
    "region": click.STRING,
    "serves": click.STRING,
}
"""Fields that are no options."""
Options = dict[str, Any]


def pool_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option(
                "--pool",
                "pools",
                multiple=True,
                metavar="FIELD=VALUE,…",
                help="Replicas unlike others: replicas=2,system=hgx-b200,role=prefill; repeat for each pool. Fields: "
                f"{', '.join((*OWN, *FIELDS))}.",
            ),
            click.option(
                "--handover-bandwidth",
                type=ByteSize(),
                help="KV from role=prefill to role=decode: of one chip, in a second, as 50GB.  [default: the system's]",
            ),
            click.option(
                "--handover-latency", type=Seconds(least_s=0, most_s=60), help="As 20us.  [default: the system's]"
            ),
        )
    ):
        command = option(command)
    return command


def handover_of(options: Mapping[str, Any], system: System) -> Link | None:
    """Raises UsageError for a latency without a link."""
    from headway.catalog import Link

    known, latency_s = system.scaleout, options["handover_latency"]
    if latency_s is None:
        latency_s = known.latency_s if known is not None else None
    if options["handover_bandwidth"] is not None:
        return Link(options["handover_bandwidth"], latency_s)
    if known is None and options["handover_latency"] is not None:
        raise click.UsageError(f"--handover-latency needs --handover-bandwidth: {system.name} publishes no link")
    return None if known is None else Link(known.bytes_per_s, latency_s)


def with_machines(options: Options) -> Options:
    """Options in which the defaults of machine files are filled in, for the fleet and for each pool. Raises
    UsageError for what is no pool, CatalogError.
    """
    if len(options["pools"]) > MOST_POOLS:
        raise click.UsageError(f"--pool: at most {MOST_POOLS} pools, not {len(options['pools'])}")
    pools = [with_machine(_merged(options, text)) for text in options["pools"]]
    if any(name.startswith("handover_") for name in options["given"]) and all(p["role"] == "mixed" for p in pools):
        raise click.UsageError(
            "--handover-bandwidth and --handover-latency are of pools with role=prefill and role=decode"
        )
    return with_machine(options) | {"pools": pools}


def _merged(options: Options, text: str) -> Options:
    own = parse_fields(text, "--pool", (*OWN, *FIELDS))
    values = {name.replace("-", "_"): _converted(name, value, text) for name, value in own.items()}
    given = options["given"] | values.keys()
    return options | {"role": "mixed", "region": "", "serves": ""} | values | {"given": given, "pools": ()}


def parse_fields(text: str, option: str, known: Sequence[str]) -> dict[str, str]:
    """FIELD=VALUE, separated by commas. Raises UsageError."""
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name = name.strip().replace("_", "-")
        if not equals or name not in known:
            raise click.UsageError(f"{option} {text!r}: {part!r} is not FIELD=VALUE with one of {', '.join(known)}")
        if name in fields:
            raise click.UsageError(f"{option} {text!r}: {name} is there twice")
        if not value.strip():
            raise click.UsageError(f"{option} {text!r}: {name} needs a value")
        fields[name] = value.strip()
    return fields


def _converted(name: str, value: str, text: str) -> Any:
    """As the option of that name would take it."""
    context = click.get_current_context()
    param = next((p for p in context.command.params if f"--{name}" in p.opts), None)
    kind = OWN[name] if param is None else param.type
    try:
        return kind.convert(value, param, context)
    except click.BadParameter as error:
        raise click.UsageError(f"--pool {text!r}: {name}: {error.message}") from None


def _place_text(pool: Setup) -> str:
    parts = {" to ": pool.role.removeprefix("mixed"), " in ": pool.region, " for ": pool.serves}
    return "".join(word + value for word, value in parts.items() if value)


def described_fleet(setup: Setup) -> Mapping[str, Any]:
    """Systems, chips and replicas of a result."""
    pools = setup.all_pools
    return {
        "system": ", ".join(dict.fromkeys(p.system.name for p in pools)),
        "chip": ", ".join(dict.fromkeys(p.system.chip.name for p in pools)),
        "chips": sum(p.chips * p.num_replicas for p in pools),
        "replicas": sum(p.num_replicas for p in pools),
        "fleet": " and ".join(f"{p.num_replicas} x {chips_text(p)}{_place_text(p)}" for p in pools),
    }
