"""Options of `headway simulate` for where KV stays and for how long: `--tier dram,ttl=10min --tier ssd,size=4TB`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from headway.cli.quantities import ByteSize, Seconds

if TYPE_CHECKING:
    from headway.catalog import Catalog, System
    from headway.simulator.tier_memory import TierMemory

LIFE_YEARS = 4.0
"""Over which what is bought is paid off."""
FIELDS = ("size", "bandwidth", "latency", "ttl")


def tier_options(command: Callable[..., None]) -> Callable[..., None]:
    tier = click.option(
        "--tier",
        "tiers",
        multiple=True,
        metavar="NAME[,FIELD=VALUE…]",
        help="KV below a replica, nearest first: dram, ssd, remote, hbf, sram, as the catalog has them for each chip, "
        "or dram,size=512GB,bandwidth=50GB,latency=10us,ttl=10min of a whole replica.",
    )
    ttl = click.option("--kv-ttl", type=Seconds(), help="Idle KV stays so long on the device: 5min.")
    return tier(ttl(command))


def tier_memories(options: Mapping[str, Any], catalog: Catalog, system: System, chips: int) -> tuple[TierMemory, ...]:
    """Raises UsageError for a tier that the catalog does not know, or a field that is none."""
    from headway.catalog.reach import reaches
    from headway.simulator.tier_memory import TierMemory

    known = {reach.name: reach for reach in reaches(system, catalog.tiers, None, LIFE_YEARS) if not reach.own}
    memories = []
    for text in options["tiers"]:
        name, _, rest = text.partition(",")
        if name not in known:
            raise click.UsageError(f"--tier {text!r}: {name!r} is none of {', '.join(known)}")
        reach, own = known[name], _fields(text, rest)
        size_bytes = own.get("size", reach.bytes * chips)
        hourly = reach.usd_per_byte_hour
        memories.append(
            TierMemory(
                name,
                size_bytes,
                own.get("bandwidth", reach.read_bytes_per_s * chips),
                own.get("latency", reach.latency_s),
                own.get("ttl"),
                None if hourly is None else hourly * size_bytes,
            )
        )
    return tuple(memories)


def _fields(text: str, rest: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for part in rest.split(",") if rest else ():
        name, equals, value = part.partition("=")
        if not equals or name not in FIELDS or name in values:
            raise click.UsageError(f"--tier {text!r}: {part!r} is not one of {', '.join(FIELDS)} with a value, once")
        kind = ByteSize() if name in ("size", "bandwidth") else Seconds()
        try:
            values[name] = float(kind.convert(value.removesuffix("/s"), None, None))
        except click.BadParameter as error:
            raise click.UsageError(f"--tier {text!r}: {name}: {error.message}") from None
    return values
