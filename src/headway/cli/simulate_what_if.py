"""`headway simulate --replay LOG` with something changed: `--with chunk=512,system=h100x8`, `--system machine.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.quantities import NamedPath
from headway.cli.replica_options import REPLICA
from headway.cli.simulate_machine import cost_model, fit_error, with_machine
from headway.cli.simulate_pools import described_fleet

if TYPE_CHECKING:
    from headway.scheduler.config import SchedulerConfig
    from headway.simulator.executor import Timer
    from headway.simulator.simulation import Setup
    from headway.simulator.what_if import Machines

CUT = REPLICA[:5]
Options = dict[str, Any]


def replay_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option(
                "--replay",
                type=NamedPath(path_type=Path),
                help="Check that a step log gives the same plans again; with --system, how far its step times are off.",
            ),
            click.option(
                "--with",
                "changes",
                multiple=True,
                callback=lambda _context, _param, texts: ",".join(texts) if texts else None,
                metavar="NAME=VALUE,…",
                help="Fork the log: prefix_cache=off, system=h100x8 …",
            ),
        )
    ):
        command = option(command)
    return command


def fork(options: Options, changes: Mapping[str, str]) -> None:
    """Prints and writes what the logged run would have been. `changes` of nothing: with the step times of --system.
    Raises UsageError, CatalogError, ShapeError, ConfigError, StepLogError, WorkloadError.
    """
    from headway.cli.simulate import setup_of
    from headway.cli.what_if_text import show_what_if
    from headway.simulator.changes import FLEET, HARDWARE
    from headway.simulator.what_if import Machines, what_if
    from headway.simulator.what_if_table import WhatIfTable

    logged = with_machine(options) if "system" in options["given"] else None
    was_on = Machines() if logged is None else Machines(price=setup_of(logged).replica_price)
    if changes and changes.keys().isdisjoint(HARDWARE):
        fleet = _converted({name: value for name, value in changes.items() if name in FLEET})
        other = replace(was_on, num_replicas=fleet.get("replicas", 1), router=fleet.get("router", was_on.router))
    else:
        other = _machines(_with_changes(options, logged, changes), checks_room=bool(changes))
        if changes and logged is not None and "system" not in changes:
            was_on = _machines(logged)
    found = what_if(options["replay"], changes, other, was_on)
    if options["out"] is not None:
        with WhatIfTable(options["out"]) as table:
            table.put(found)
    show_what_if(found, options["as_json"])


def _with_changes(options: Options, logged: Options | None, changes: Mapping[str, str]) -> Options:
    """Options of the changed fleet. The model stays the one that was logged, where a machine file says which."""
    from headway.simulator.changes import FLEET, HARDWARE

    options = dict(options)
    if logged is not None and "machine" in logged and "model" not in options["given"]:
        options |= {"model": logged["model"], "config": logged["config"], "given": options["given"] | {"model"}}
    if "system" not in changes and logged is None:
        first = next(f"{name}={value}" for name, value in changes.items() if name in HARDWARE)
        raise click.UsageError(
            f"--with {first}: needs a cost model: system=NAME beside it, or --system of what was logged"
        )
    own = {name: value for name, value in changes.items() if name in (*HARDWARE, *FLEET)}
    counted = _counted(options, own)
    values = counted | _converted({name: value for name, value in own.items() if name not in counted})
    return with_machine(options | values | {"given": options["given"] | values.keys()})


def _counted(options: Options, own: Mapping[str, str]) -> Options:
    """Of `system=h100x8`: the system, and a cut over so many chips, by tensor where nothing else is said."""
    from headway.cli.simulate import catalog_of

    found = catalog_of(options["overlays"]).chips_in_number(own.get("system", ""))
    if found is None:
        return {}
    system, chips = found
    cut = dict.fromkeys(CUT, 1) | _converted({name: value for name, value in own.items() if name in CUT})
    others = cut["pipeline"] * cut["data"] * cut["context_parallel"]
    if "tensor" not in own and chips % others == 0:
        cut["tensor"] = max(1, chips // others)
    if cut["tensor"] * others != chips:
        said = " x ".join(f"{name}={cut[name]}" for name in CUT if name in own and name != "expert") or "one chip"
        raise click.UsageError(f"--with system={own['system']}: {chips:,} chips are not what {said} makes")
    return {"system": system, **cut}


def _converted(texts: Mapping[str, str]) -> Options:
    """As the options of these names would take them. Raises UsageError."""
    context = click.get_current_context()
    params = {param.name: param for param in context.command.params}
    values: Options = {}
    for name, text in texts.items():
        param = params[name]
        try:
            values[name] = param.type.convert(text, param, context)
        except click.BadParameter as error:
            if isinstance(param.type, click.IntRange):
                allowed = f"a whole number from {param.type.min} to {param.type.max:,}"
                raise click.UsageError(f"--with {name} must be {allowed}, not {text!r}") from None
            raise click.UsageError(f"--with {name}={text}: {error.message}") from None
    return values


def _machines(options: Options, checks_room: bool = False) -> Machines:
    from headway.cli.simulate import setup_of
    from headway.simulator.what_if import Machines

    setup = setup_of(options)
    model = f"{options['model']} (weights {setup.precision.named}, cache {setup.precision.kv.name})"
    steps = "; ".join((cost_model(options, setup), *fit_error(options, setup)))
    return Machines(
        step_time=lambda config: _step_time(options, config, checks_room),
        price=setup.replica_price,
        num_replicas=setup.num_replicas,
        router=setup.router,
        title=f"{model} on {described_fleet(setup)['fleet']}; steps: {steps}",
    )


def _step_time(options: Options, config: SchedulerConfig, checks_room: bool) -> Timer:
    """The log's limits hold, unless they were changed. Raises ShapeError where the chips have no room for them."""
    from headway.cli.simulate import setup_of

    limits = {"chunk": config.max_step_tokens, "max_running": config.max_running, "block_size": config.block_size}
    setup = setup_of(options | limits)
    if checks_room and "machine" not in options:
        _check_room(setup, config, options["model"])
    return setup.step_time()


def _check_room(setup: Setup, config: SchedulerConfig, model: str) -> None:
    from headway.arithmetic.shape import ShapeError
    from headway.cli.replica_options import chips_text

    room, asked = (
        min((group.num_blocks for group in each.groups if group.kind == "full"), default=0)
        for each in (setup.scheduler_config(), config)
    )
    if asked > room > 0:
        raise ShapeError(
            f"{asked:,} KV blocks of {config.block_size} tokens, as logged, are more than the {room:,} that "
            f"{chips_text(setup)} have room for beside {model}: --with blocks={room}"
        )
