"""Where KV stays below the device and for how long: `--kv-tier dram=512GB,ttl=10min --kv-tier ssd`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from headway.cli.quantities import ByteSize, Seconds

if TYPE_CHECKING:
    from headway.catalog import Catalog, System
    from headway.simulator.tier_memory import TierMemory

LIFE_YEARS = 4.0
"""Over which what is bought is paid off."""
KEPT = "keeps KV for the prefix cache: not with --no-prefix-cache"
SERVED = ("dram", "ssd")
_FIELDS: dict[str, Any] = {
    "size": ByteSize(),
    "bandwidth": ByteSize(),
    "latency": Seconds(least_s=0),
    "ttl": Seconds(),
}


class _TierOption(click.Option):
    """Understands its former name, which help does not show."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown, self.opts = self.opts, [*self.opts, "--tier"]
        super().add_to_parser(parser, ctx)
        self.opts = shown


def tier_options(command: Callable[..., None]) -> Callable[..., None]:
    """Those of `headway simulate`."""
    tier = click.option(
        "--kv-tier",
        "kv_tiers",
        cls=_TierOption,
        multiple=True,
        metavar="NAME[=SIZE][,FIELD=VALUE…]",
        help="KV below a replica, nearest first: dram, ssd, remote, hbf, sram, as the catalog has them for each chip, "
        "or dram=512GB,bandwidth=50GB,latency=10us,ttl=10min of a whole replica.",
    )
    ttl = click.option("--kv-ttl", type=Seconds(), help="Idle KV stays so long on the device: 5min.")
    return tier(ttl(command))


class KVTierSize(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    """`dram=2GiB`: (name, bytes) of a tier of a real server."""

    name = "tier"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        name, fields = _tier(str(value), ("size",), param, ctx)
        if name not in SERVED or not fields:
            self.fail(f"{value!r} is not a tier: {' or '.join(SERVED)} and its size, as dram=2GiB", param, ctx)
        return name, int(fields["size"])


def tier_memories(options: Mapping[str, Any], catalog: Catalog, system: System, chips: int) -> tuple[TierMemory, ...]:
    """Raises BadParameter for a tier that the catalog does not know, or a field that is none."""
    from headway.catalog.reach import reaches
    from headway.simulator.tier_memory import TierMemory

    context = click.get_current_context()
    option = next(param for param in context.command.params if param.name == "kv_tiers")
    known = {reach.name: reach for reach in reaches(system, catalog.tiers, None, LIFE_YEARS) if not reach.own}
    memories = []
    for text in options["kv_tiers"]:
        name, own = _tier(text, _FIELDS, option, context)
        if name not in known:
            raise click.BadParameter(f"{text!r}: {name!r} is none of {', '.join(known)}", context, option)
        reach = known[name]
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
                is_exact="size" in own,
            )
        )
    return tuple(memories)


def tier_name(text: str) -> str:
    """Of what --kv-tier says."""
    return text.split(",")[0].partition("=")[0]


def _tier(
    text: str, known: Sequence[str] | Mapping[str, Any], param: click.Parameter | None, ctx: click.Context | None
) -> tuple[str, dict[str, float]]:
    """Its name and what is said of it. Raises BadParameter."""
    head, *parts = text.split(",")
    name, equals, size = head.partition("=")
    values: dict[str, float] = {}
    for part in [f"size={size}", *parts] if equals else parts:
        field, equals, value = part.partition("=")
        if not equals or field not in known or field in values:
            allowed = ", ".join(known)
            raise click.BadParameter(f"{text!r}: {part!r} is not one of {allowed} with a value, once", ctx, param)
        try:
            values[field] = float(_FIELDS[field].convert(value.removesuffix("/s"), None, None))
        except click.BadParameter as error:
            raise click.BadParameter(f"{text!r}: {field}: {error.message}", ctx, param) from None
    return name, values
