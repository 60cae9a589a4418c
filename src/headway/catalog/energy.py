"""Energy of moving a byte and of a multiply-add, by level. Published estimates for some silicon, not for every chip."""

from __future__ import annotations

from collections.abc import Mapping

from headway.catalog import units
from headway.catalog.figure import Figure
from headway.catalog.table import Item, Schema, figures

SCHEMA: Schema = {"read_j_per_byte": units.JOULES_PER_BYTE, "multiply_j_per_flop": units.JOULES_PER_FLOP}


def energies(items: Mapping[str, Item]) -> dict[str, Figure]:
    """By level, such as `hbm2`: joules a byte read, or joules a FLOP."""
    return {name: figure for name, item in items.items() for figure in figures(item).values()}
