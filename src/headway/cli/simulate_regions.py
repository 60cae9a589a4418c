"""Clients at a distance: `--clients seoul=0.7,oregon=0.3 --way seoul-oregon=137ms`, and region=seoul of a pool."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from headway.cli.quantities import Number, Seconds

if TYPE_CHECKING:
    from headway.simulator.regions import Regions

MOST = 64
"""Regions."""
_FORM = "it is not A-B=TIME of two regions"


def region_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option(
                "--round-trip", type=Seconds(), help="Clients at a distance: there and back; Seoul to Oregon: 137ms."
            ),
            click.option(
                "--clients", metavar="REGION=SHARE,…", help="Of sessions: seoul=0.7,oregon=0.3; with --pool region=…"
            ),
            click.option(
                "--way", "ways", multiple=True, metavar="A-B=TIME", help="There and back: seoul-oregon=137ms; repeat."
            ),
            click.option(
                "--spill",
                type=Number(0, 1e6, min_open=True),
                default=1.0,
                show_default=True,
                help="A region is full with so many requests for each of its replicas' --max-running.",
            ),
        )
    ):
        command = option(command)
    return command


def regions_of(options: Mapping[str, Any]) -> Regions | None:
    """Raises UsageError, WorkloadError."""
    from headway.simulator.regions import Regions

    if options["clients"] is None:
        return None
    shares = tuple(_share(part) for part in options["clients"].split(","))
    names = [name for name, _ in shares]
    if len(set(names)) < len(names) or len(names) > MOST:
        raise click.UsageError(f"--clients: each region once, and at most {MOST}")
    if not options["pools"]:
        # Of one pool by itself, which does not know where the others are: the fleet's ways are read once.
        return Regions(shares, {}, options["spill"], options["seed"])
    known = {*names, *(pool["region"] for pool in options["pools"])}
    ways = dict(_way(text, known) for text in options["ways"])
    if len(ways) < len(options["ways"]):
        raise click.UsageError("--way: each pair of regions once; it is there and back")
    return Regions(shares, ways, options["spill"], options["seed"])


def _share(part: str) -> tuple[str, float]:
    name, equals, share = part.partition("=")
    try:
        if not equals or not name.strip():
            raise ValueError
        return name.strip(), float(share)
    except ValueError:
        raise click.UsageError(f"--clients: {part!r} is not REGION=SHARE") from None


def _way(text: str, known: Collection[str]) -> tuple[frozenset[str], float]:
    pair, equals, time = text.partition("=")
    try:
        if not equals:
            raise click.BadParameter(_FORM)
        return _ends(pair, known), Seconds().convert(time, None, None)
    except click.BadParameter as error:
        raise click.UsageError(f"--way {text!r}: {error.message}") from None


def _ends(pair: str, known: Collection[str]) -> frozenset[str]:
    """Of `us-east-eu-west`: names may have dashes too. Raises BadParameter for what is not two of the `known`."""
    words = pair.split("-")
    pairs = {frozenset("-".join(part).strip() for part in (words[:i], words[i:])) for i in range(1, len(words))}
    pairs = {ends for ends in pairs if len(ends) == 2 and "" not in ends}
    named = [ends for ends in pairs if ends <= frozenset(known)]
    if len(named) == 1:
        return named[0]
    if len(pairs) == 1:
        unknown = pairs.pop() - frozenset(known)
        raise click.BadParameter(f"{min(unknown)!r} is no region of --clients or of a --pool")
    raise click.BadParameter(_FORM)
