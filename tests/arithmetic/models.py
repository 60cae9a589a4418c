"""The models of the catalog, by name, for tests."""

from __future__ import annotations

from functools import cache

from headway.arithmetic.hf_config import shape_from_config
from headway.arithmetic.shape import ModelShape
from headway.catalog import Catalog, load_catalog


@cache
def catalog() -> Catalog:
    return load_catalog()


@cache
def model(name: str) -> ModelShape:
    return shape_from_config(catalog().config(name))


def all_names() -> list[str]:
    return list(catalog().configs)
