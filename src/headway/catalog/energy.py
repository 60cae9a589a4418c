"""Energy of moving a byte and of a multiply-add, by level. Published estimates for some silicon, not for every chip."""

from __future__ import annotations

from collections.abc import Mapping

from headway.catalog import units
from headway.catalog.figure import CatalogError, Figure
from headway.catalog.table import Item, Schema, figures

SCHEMA: Schema = {"read_j_per_byte": units.JOULES_PER_BYTE, "multiply_j_per_flop": units.JOULES_PER_FLOP}


def energies(items: Mapping[str, Item]) -> dict[str, Figure]:
    """By level, such as `hbm2`: joules a byte read, or joules a FLOP. Raises CatalogError for one that has both."""
    for name, item in items.items():
        if len(item) > 1:
            raise CatalogError(f"energy.csv, {name}: one of {', '.join(item)} is needed, not both")
    return {name: figure for name, item in items.items() for figure in figures(item).values()}
