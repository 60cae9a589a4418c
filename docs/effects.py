"""Effects that every textbook of LLM serving tells, as simulations: `python docs/effects.py --help`.

Each function in EFFECTS makes a page of docs/effects: points, a run for each, a chart. It takes the share of the page's
requests that are to be made: tests make fewer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import click
import effect_pages as pages
from effect_chips import frontier, split, sram
from effect_fleets import failure, pools, routing
from effect_kv import retention, tiers
from effect_pages import Effect
from effect_steps import batching, chunking, overload, preemption, reservation

EFFECTS: dict[str, Callable[[float], Effect]] = {
    effect.__name__: effect
    for effect in (
        batching,
        reservation,
        chunking,
        frontier,
        routing,
        pools,
        failure,
        sram,
        split,
        overload,
        preemption,
        tiers,
        retention,
    )
}


@click.command()
@click.argument("names", metavar="[NAME]…", nargs=-1, type=click.Choice([*EFFECTS]))
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if a page is stale.")
def main(names: tuple[str, ...], check: bool) -> None:
    """Simulate the effects again, and write their pages and charts in docs/effects. Without NAME all: some minutes."""
    chosen = tuple(dict.fromkeys(names)) or tuple(EFFECTS)
    stale = []
    for number, name in enumerate(chosen, 1):
        click.echo(f"{name} ({number} of {len(chosen)}) …", err=True)
        effect = EFFECTS[name](1.0)
        if not check:
            pages.write(name, effect)
        elif not pages.is_fresh(name, effect):
            stale.append(name)
    if stale:
        click.echo(f"stale: {', '.join(stale)}; run python docs/effects.py {' '.join(stale)}", err=True)
        sys.exit(1)
    click.echo("all fresh" if check else "written", err=True)


if __name__ == "__main__":
    main()
