"""Effects that every textbook of LLM serving tells, as simulations: `python docs/effects.py [--check] [NAME…]`.

Each function in EFFECTS makes a page of docs/effects: points, a run for each, a chart. It takes the share of the page's
requests that are to be made: tests make fewer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

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


def main(arguments: list[str]) -> int:
    """1 if a page is stale under --check."""
    names = [name for name in arguments if name != "--check"]
    if unknown := [name for name in names if name not in EFFECTS]:
        print(f"no such effect: {', '.join(unknown)}; there are {', '.join(EFFECTS)}", file=sys.stderr)
        return 2
    return max([_page(name, "--check" in arguments) for name in names or EFFECTS])


def _page(name: str, check: bool) -> int:
    effect = EFFECTS[name](1.0)
    if not check:
        pages.write(name, effect)
    stale = check and not pages.is_fresh(name, effect)
    print(
        f"{name}: {'stale: run python docs/effects.py' if stale else 'fresh' if check else 'written'}", file=sys.stderr
    )
    return int(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
