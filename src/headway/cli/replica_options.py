"""Options of `headway simulate` for the chips of a replica: how they share it, and where its feed-forward is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from headway.cli.plan_options import CHIPS, cut_from, option, with_a_cut

if TYPE_CHECKING:
    from headway.arithmetic.parallelism import Parallelism
    from headway.catalog import Catalog
    from headway.simulator.simulation import Setup
    from headway.simulator.split_time import FeedForwardSide

REPLICA = ("tensor", "pipeline", "expert", "data", "context_parallel", "ffn_system", "ffn_chips")
"""Names of all of them."""


def replica_options(command: Callable[..., None]) -> Callable[..., None]:
    command = option("--ffn-chips", type=CHIPS, help="Chips of it.  [default: all of its scale-up domain]")(command)
    other = "Feed-forward on chips of this system, attention and cache on --system."
    return with_a_cut(option("--ffn-system", metavar="SYSTEM", help=other)(command))


def cut_of(options: Mapping[str, Any]) -> Parallelism:
    return cut_from(*(options[name] for name in REPLICA[:5]))


def feed_forward_of(options: Mapping[str, Any], catalog: Catalog) -> FeedForwardSide | None:
    """Raises UsageError for chips of no system, CatalogError."""
    from headway.simulator.split_time import FeedForwardSide

    name, chips = options["ffn_system"], options["ffn_chips"]
    if name is None:
        if chips is not None:
            raise click.UsageError("--ffn-chips needs --ffn-system")
        return None
    system = catalog.system(name)
    return FeedForwardSide(system, chips or system.scaleup_chips)


def chips_text(setup: Setup) -> str:
    """Those of one replica, in words."""
    mine, other = f"{setup.cut.chips} {setup.system.chip.name}", setup.feed_forward
    return mine if other is None else f"{mine} + {other.chips} {other.system.chip.name}"
