"""`headway calibrate`: the machine at hand, measured, as a file that simulate and plan take for a system."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.one_line import INTERRUPTED
from headway.cli.out_files import OutFile
from headway.cli.quantities import Number, Seconds
from headway.cli.serve import DTYPE_HELP

if TYPE_CHECKING:
    from headway.catalog.machine import MachineFile
    from headway.engine.measured_machine import MeasuredMachine

KNOWN = Number(0, 1e9, min_open=True)
NUMBER_FORMATS = {"float32": "fp32", "bfloat16": "bf16"}


@click.command(context_settings={"show_default": True})
@click.argument("model", required=False)
@click.option(
    "--out",
    type=OutFile(".json"),
    default=Path("machine.json"),
    help="The machine file to write; its name ends in .json.",
)
@click.option("--dtype", type=click.Choice(["auto", *NUMBER_FORMATS]), default="auto", help=DTYPE_HELP)
@click.option("--device", default="auto", help="auto, cpu, cuda or cuda:N.")
@click.option("--budget", "budget_s", type=Seconds(), default=60.0, help="About how many seconds to measure for.")
@click.option("--power-w", type=KNOWN, help="Watts under load, if known: not measured, for joules.")
@click.option("--usd-per-hour", type=KNOWN, help="Rent of the machine, if known: not measured, for dollars.")
@click.option("--json", "as_json", is_flag=True, help="Print the file too.")
def calibrate(
    model: str | None,
    out: Path,
    dtype: str,
    device: str,
    budget_s: float,
    power_w: float | None,
    usd_per_hour: float | None,
    as_json: bool,
) -> None:
    """Measure how long steps of MODEL take on this machine, and write that down as a machine file.

    `headway simulate --system FILE` and `headway plan … --system FILE` take it in place of a system's name. MODEL is
    what `headway serve` takes. Nothing else should be running meanwhile; Ctrl-C leaves nothing behind.
    """
    import msgspec

    from headway.catalog import CatalogError
    from headway.catalog.machine import write_machine
    from headway.engine.errors import ModelError

    try:
        machine = _measured(model, dtype, device, budget_s)
        peaks = msgspec.structs.replace(machine.peaks, power_w=power_w, usd_per_hour=usd_per_hour)
        machine = msgspec.structs.replace(machine, peaks=peaks)
        write_machine(machine, out)
    except (CatalogError, ModelError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    _show(machine, out, as_json)


def _measured(name: str | None, dtype: str, device: str, budget_s: float) -> MachineFile:
    # torch is imported only here.
    from headway.engine.measured_machine import measure_machine
    from headway.engine.model_store import display_name, resolve_model
    from headway.engine.progress import terminal_progress

    with terminal_progress() as report:
        directory = resolve_model(name, report)
        measured = measure_machine(directory, dtype=dtype, device=device, budget_s=budget_s, report=report)
    return machine_file(display_name(name), directory, measured)


def machine_file(name: str, directory: Path, measured: MeasuredMachine) -> MachineFile:
    """Raises ValueError if too little was measured."""
    from datetime import UTC, datetime
    from importlib.metadata import version

    import numpy as np

    from headway.arithmetic.attends import spans
    from headway.arithmetic.formats import precision
    from headway.arithmetic.step_shape import rows
    from headway.catalog import read_config
    from headway.catalog.machine import VERSION, MachineFile, Peaks, Served
    from headway.roofline.step_fit import Points, Probed, fit_steps, stacked

    number_format = NUMBER_FORMATS[measured.dtype]
    shapes = []
    for step in measured.steps:
        row = np.zeros(len(step.counts), np.int64)
        row[: step.sampled] = 1
        shapes.append(rows(spans(measured.shape), step.starts, step.counts, row).total())
    seconds = np.array([(step.device_ns / 1e9, step.gap_ns / 1e9) for step in measured.steps])
    fit = fit_steps(
        Points(stacked(shapes), seconds[:, 0], seconds[:, 1], np.array(measured.group)),
        measured.shape,
        precision(number_format, number_format),
        Probed(measured.flops_per_s, measured.bytes_per_s),
        measured.disturbance,
    )
    config = measured.config
    return MachineFile(
        version=VERSION,
        date=datetime.now(UTC).strftime("%Y-%m-%d"),
        machine=measured.machine,
        versions={name: version(name) for name in ("headway", "torch")},
        model=name,
        config=read_config(directory / "config.json"),
        dtype=measured.dtype,
        number_format=number_format,
        device=measured.device,
        peaks=Peaks(
            memory_bytes=measured.memory_bytes,
            memory_bytes_per_s=fit.bytes_per_s,
            flops_per_s=fit.flops_per_s,
        ),
        served=Served(
            block_size=config.block_size,
            num_blocks=config.groups[0].num_blocks,
            max_running=config.max_running,
            max_step_tokens=config.max_step_tokens,
            max_context=config.max_context,
        ),
        fit=fit.coefficients,
        points=len(measured.steps),
        steps=measured.num_measured,
        median_error=fit.median_error,
        held_out_median_error=fit.held_out_median_error,
        held_out_mean_error=fit.held_out_mean_error,
        disturbance=measured.disturbance,
    )


def _show(machine: MachineFile, out: Path, as_json: bool) -> None:
    if as_json:
        import msgspec

        click.echo(msgspec.json.encode(machine).decode())
        return
    m: Any = machine
    click.echo(f"{m.machine}: {m.model} in {m.dtype}, {m.steps:,} steps of {m.points} shapes")
    click.echo(f"  error on shapes held out: median {m.held_out_median_error:.1%}, mean {m.held_out_mean_error:.1%}")
    click.echo(f"  in sample: median {m.median_error:.1%}")
    if m.disturbance > 1.05:
        click.echo(f"  steps took {m.disturbance - 1:.0%} longer than their medians: was the machine doing other work?")
    click.echo(f"written to {out}; use it as --system {out}")
