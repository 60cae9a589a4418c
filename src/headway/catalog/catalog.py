"""The catalog: the facts in this package, overlaid with those in a user's own directories."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from headway.catalog import calibration as calibration_table
from headway.catalog import chip as chips_table
from headway.catalog import energy as energy_table
from headway.catalog import system as systems_table
from headway.catalog import tier as tiers_table
from headway.catalog.chip import Chip, chip
from headway.catalog.figure import CatalogError, Figure
from headway.catalog.machine import is_machine_file, machine_fit, machine_system, read_machine
from headway.catalog.price import Price, read_prices
from headway.catalog.published import Published, read_published
from headway.catalog.system import System, folded, in_number, misnamed, system
from headway.catalog.table import Item, Schema, read_bounded, read_items
from headway.catalog.tier import Tier, tier

MAX_CONFIG_BYTES = 4_000_000
WEIGHT_FILES = (".gguf", ".safetensors", ".bin", ".pt", ".pth")
TABLES = ("chips.csv", "systems.csv", "prices.csv", "models.csv", "energy.csv", "calibration.csv", "tiers.csv")
Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Catalog:
    """Everything by name. The finders forgive case, blanks and underscores, and say what is near when nothing fits."""

    chips: Mapping[str, Chip]
    systems: Mapping[str, System]
    prices: Mapping[str, Price]
    published: Mapping[str, Published]
    energy: Mapping[str, Figure]
    calibrations: Mapping[str, Mapping[str, Figure]]
    tiers: Mapping[str, Tier]
    configs: Mapping[str, Traversable]

    def chip(self, name: str) -> Chip:
        return _find(self.chips, name, "chip")

    def system(self, name: str) -> System:
        """One of the catalog, or that of a machine file on disk."""
        if is_machine_file(name):
            return machine_system(name, read_machine(Path(name)))
        if said := misnamed(name, self.systems):
            raise CatalogError(said)
        if folded(name) in map(folded, self.chips) and folded(name) not in map(folded, self.systems):
            raise CatalogError(
                f"{name!r} is a chip that no system has: give it one in a systems.csv of your own (chip, scaleup_chips)"
            )
        return _find(self.systems, name, "system")

    def chips_in_number(self, text: str) -> tuple[str, int] | None:
        """`h100x8`: the name of a system and the number of its chips; None: it is no such thing."""
        return in_number(text, self.systems)

    def calibration(self, chip: str, engine: str) -> Mapping[str, Figure]:
        """A machine file's chip has its own, whatever the engine."""
        if is_machine_file(chip):
            return machine_fit(read_machine(Path(chip)))
        return _find(self.calibrations, f"{chip}/{engine}", "calibration")

    def price(self, name: str) -> Price:
        return _find(self.prices, name, "priced model")

    def config(self, name: str) -> dict[str, Any]:
        """Of a model in the catalog, or of a `config.json` (or a directory that holds one) on disk."""
        if (file := _on_disk(name)) is not None:
            if file.suffix in WEIGHT_FILES:
                raise CatalogError(
                    f"{file}: is of weights; give a config.json, a directory that holds one, or a model of the catalog"
                )
            return read_config(file)
        if _is_path(name) and folded(name) not in map(folded, self.configs):
            raise CatalogError(
                f"{name}: there is no {'config.json in it' if os.path.isdir(_path(name)) else 'such file'}"
            )
        return read_config(_find(self.configs, name, "model"))

    def published_of(self, name: str) -> Published | None:
        """None: nothing is, or `config` is of a file on disk."""
        if _on_disk(name) is not None:
            return None
        return next((each for known, each in self.published.items() if folded(known) == folded(name)), None)


def _on_disk(name: str) -> Path | None:
    """The `config.json` that a path names."""
    path = _path(name)
    file = path / "config.json" if os.path.isdir(path) else path
    return file if os.path.isfile(file) else None


def _path(name: str) -> Path:
    """`os.path` takes what cannot be a path, or nobody's home, for something that is not there."""
    return Path(os.path.expanduser(name))


def _is_path(name: str) -> bool:
    """And no model's name on a hub, which has a slash too."""
    path = _path(name)
    return os.path.isdir(path) or path.is_absolute() or path.suffix == ".json" or name.startswith(".")


def read_config(file: Traversable) -> dict[str, Any]:
    """Raises CatalogError unless it is a JSON object of reasonable size."""
    try:
        config = json.loads(read_bounded(file, MAX_CONFIG_BYTES))
    except (ValueError, RecursionError) as error:
        raise CatalogError(f"{file}: not JSON: {error}") from None
    if not isinstance(config, dict):
        raise CatalogError(f"{file}: must be a JSON object")
    return config


def load_catalog(overlays: Iterable[Path] = ()) -> Catalog:
    """Later directories win, figure by figure, fits as a whole; names are told apart as the finders do. Each holds some
    of TABLES and models/*.json. Raises CatalogError, with file and line, for anything wrong in them.
    """
    places: list[Traversable] = [files("headway.catalog") / "data"]
    for overlay in overlays:
        if not os.path.isdir(overlay):
            raise CatalogError(f"--catalog {overlay}: there is no such directory")
        places.append(overlay)
    try:
        for place in places[1:]:
            _check_names(place)
        return _loaded(places)
    except OSError as error:
        raise CatalogError(f"{error.filename}: {error.strerror}") from None


def _check_names(place: Traversable) -> None:
    """A table by nearly its name would not be read. Raises CatalogError."""
    names = {file.name for file in place.iterdir()}
    for name in sorted(names - set(TABLES)):
        if near := get_close_matches(name.lower(), TABLES, n=1, cutoff=0.85):
            raise CatalogError(f"--catalog {place}: {name} is not read; call it {near[0]}, or by a name less like it")
    if not names & {*TABLES, "models"}:
        raise CatalogError(
            f"--catalog {place}: there is nothing in it to read; it may hold {', '.join(TABLES)} and models/*.json"
        )


def _loaded(places: list[Traversable]) -> Catalog:
    chips = {name: chip(name, item) for name, item in _items(places, "chips.csv", chips_table.SCHEMA).items()}
    systems = _items(places, "systems.csv", systems_table.SCHEMA)
    prices: dict[str, Price] = {}
    published: dict[str, Published] = {}
    configs: dict[str, Traversable] = {}
    for place in places:
        if (file := place / "prices.csv").is_file():
            _overlay(prices, read_prices(file))
        if (file := place / "models.csv").is_file():
            _overlay(published, read_published(file))
        if (folder := place / "models").is_dir():
            _overlay(configs, {f.name.removesuffix(".json"): f for f in folder.iterdir() if f.name.endswith(".json")})
    return Catalog(
        chips=chips,
        systems={name: system(name, item, chips) for name, item in systems.items()},
        prices=prices,
        published=published,
        energy=energy_table.energies(_items(places, "energy.csv", energy_table.SCHEMA)),
        calibrations=calibration_table.calibrations(
            _items(places, "calibration.csv", calibration_table.SCHEMA, calibration_table.ERROR)
        ),
        tiers={name: tier(name, item) for name, item in _items(places, "tiers.csv", tiers_table.SCHEMA).items()},
        configs=dict(sorted(configs.items())),
    )


def _items(places: list[Traversable], name: str, schema: Schema, whole: Collection[str] = ()) -> dict[str, Item]:
    """Figure by figure; one that has all those of `whole` takes the place of the item that it is called like."""
    merged: dict[str, Item] = {}
    for place in places:
        if (file := place / name).is_file():
            own = {folded(known): known for known in merged}
            for item, values in read_items(file, schema).items():
                known = own.get(folded(item), item)
                kept = {} if whole and values.keys() >= set(whole) else merged.get(known, {})
                merged[known] = {**kept, **values}
    return merged


def _overlay(things: dict[str, Thing], own: Mapping[str, Thing]) -> None:
    """Under the name that is there already, however it is written now."""
    names = {folded(known): known for known in things}
    things.update({names.get(folded(name), name): thing for name, thing in own.items()})


def _find(things: Mapping[str, Thing], name: str, what: str) -> Thing:
    by_name = {folded(known): known for known in things}
    if folded(name) in by_name:
        return things[by_name[folded(name)]]
    near = get_close_matches(folded(name), by_name, n=5, cutoff=0.4)
    if not near and what == "model":
        raise CatalogError(f"{what} {name!r} is not known: `headway plan list` shows what is")
    near = near or list(by_name)[:8]
    raise CatalogError(f"{what} {name!r} is not known; near: {', '.join(by_name[n] for n in near)}")
