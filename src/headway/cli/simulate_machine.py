"""A machine file in place of a system: what it was measured with is the default of everything that is not asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.catalog.machine import MachineFile
    from headway.simulator.simulation import Setup


def with_machine(options: dict[str, Any]) -> dict[str, Any]:
    """Options, with the defaults of the machine file if `--system` names one. Raises CatalogError."""
    from headway.catalog import CatalogError
    from headway.catalog.machine import is_machine_file, read_machine

    if not is_machine_file(options["system"]):
        return options
    if options["calibrated"]:
        raise CatalogError(f"--calibrated does not go with {options['system']}, which has a fit of its own")
    machine = read_machine(Path(options["system"]))
    given: frozenset[str] = options["given"]
    number_format = machine.number_format
    own = {"weights": number_format, "kv": number_format} | _served(machine, given, options["num_blocks"])
    if "model" not in given:
        own |= {"model": machine.model, "config": machine.config}
    return options | {"machine": machine} | {name: value for name, value in own.items() if name not in given}


def described_models(options: Mapping[str, Any], setup: Setup) -> Mapping[str, Any]:
    """The models of a result, where its step times come from and what is assumed of models, of all pools."""
    pools = list(zip(options["pools"] or (options,), setup.all_pools, strict=True))
    return {
        "model": ", ".join(dict.fromkeys(pool["model"] for pool, _ in pools)),
        "cost_model": " and ".join(dict.fromkeys(cost_model(*pool) for pool in pools)),
        "assumptions": list(dict.fromkeys(text for pool in pools for text in _assumed(*pool))),
    }


def _assumed(options: Mapping[str, Any], setup: Setup) -> Iterator[str]:
    """As `headway plan` says it."""
    from headway.planner.notes import cache_as_stored, in_formats, shipped, too_long

    name = options["model"]
    yield from too_long(name, setup.model, setup.max_context or 0)
    yield from in_formats(setup.model, [setup.precision])
    if "machine" not in options and "weights" not in options["given"]:
        yield from (f"{name}: {text}" for text in shipped(config_of(options), setup.model, setup.precision))
    if "machine" not in options and "kv" not in options["given"]:
        yield from cache_as_stored(config_of(options))
    yield from fit_error(options, setup)


def config_of(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The model's. Raises CatalogError."""
    from headway.cli.simulate import catalog_of

    return options.get("config") or catalog_of(options["overlays"]).config(options["model"])


def _served(machine: MachineFile, given: frozenset[str], num_blocks: int | None) -> dict[str, Any]:
    """A step's limits hold for any model there; the number of blocks and the context for this one as stored. The
    context is one that `num_blocks` have room for, where they were asked for.
    """
    served = machine.served
    own = {"block_size": served.block_size, "max_running": served.max_running, "chunk": served.max_step_tokens}
    if given.isdisjoint(("model", "weights", "kv", "block_size")):
        blocks = num_blocks or served.num_blocks
        context = min(served.max_context, blocks * served.block_size)
        own |= {"num_blocks": served.num_blocks, "context": context}
    return own


def cost_model(options: Mapping[str, Any], setup: Setup) -> str:
    """Where step times come from, in words."""
    machine: MachineFile | None = options.get("machine")
    if machine is None:
        return f"calibrated to {options['calibrated']}" if options["calibrated"] else "floor"
    error = f"off by {machine.held_out_median_error:.0%} (median) where held out"
    measured = f"measured on {machine.date} with {machine.model} in {machine.dtype}, {error}"
    return measured if _measured_so(machine, setup) else f"{measured}; EXTRAPOLATED to another model or number format"


def fit_error(options: Mapping[str, Any], setup: Setup) -> tuple[str, ...]:
    """How far off the fit of an engine is, as `headway plan` says it; nothing of floors and machine files, of which
    `cost_model` says it.
    """
    from headway.planner.basis import error_of
    from headway.roofline import calibration

    if "machine" in options or setup.calibration is None:
        return ()
    return (error_of(setup.system.chip.name, calibration(setup.calibration)),)


def _measured_so(machine: MachineFile, setup: Setup) -> bool:
    from headway.arithmetic.formats import precision
    from headway.arithmetic.hf_config import shape_from_config

    same = precision(machine.number_format, machine.number_format)
    return shape_from_config(machine.config) == setup.model and setup.precision == same
