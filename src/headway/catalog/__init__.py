"""Facts with their sources: chips, systems, models, prices."""

from headway.catalog.catalog import Catalog, load_catalog, read_config
from headway.catalog.chip import Chip
from headway.catalog.figure import CatalogError, Figure
from headway.catalog.price import Price
from headway.catalog.published import Published
from headway.catalog.system import Link, System
from headway.catalog.tier import Tier

__all__ = [
    "Catalog",
    "CatalogError",
    "Chip",
    "Figure",
    "Link",
    "Price",
    "Published",
    "System",
    "Tier",
    "load_catalog",
    "read_config",
]
