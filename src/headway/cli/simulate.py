"""`headway simulate`: the scheduler that serves, on a virtual clock, on hardware that nobody here owns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.quantities import Seconds

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from headway.simulator.results import Slo
    from headway.simulator.simulation import Setup, Sink
    from headway.workload.call import Workload

COUNT = click.IntRange(1, 1_000_000_000)
RATE = click.FloatRange(0, 1e9, min_open=True)
KINDS = ("synthetic", "coding_agent", "tracelab")


@click.command()
@click.option("--trace", type=click.Path(path_type=Path), help="Azure, Mooncake, TraceLab, agent sessions, a step log.")
@click.option("--workload", "kind", type=click.Choice(KINDS), help="Generated, in place of a trace.")
@click.option("--model", default="llama-3.1-8b", show_default=True, help="A model of the catalog, or a config.json.")
@click.option("--system", default="hgx-h100", show_default=True, help="Chips and links, by name.")
@click.option("--replicas", type=click.IntRange(1, 4096), default=1, show_default=True)
@click.option("--router", default="round-robin", show_default=True, help="round-robin, least-work, session, prefix.")
@click.option("--tensor", type=click.IntRange(1, 4096), default=1, show_default=True, help="Chips a replica.")
@click.option("--expert", type=click.IntRange(1, 4096), default=1, show_default=True, help="Chips for whole experts.")
@click.option("--weights", default="bf16", show_default=True, help="Number format of the weights.")
@click.option("--experts", help="That of the routed experts.  [default: as --weights]")
@click.option("--kv", default="bf16", show_default=True, help="Number format of the cache.")
@click.option("--calibrated", metavar="ENGINE", help="Step times as fitted to this engine.  [default: the floor]")
@click.option("--host-gap", type=click.FloatRange(0, 10), help="Seconds between steps.  [default: 0.0002 on the floor]")
@click.option("--requests", type=COUNT, help="At most so many calls.  [default: all of a trace, or 1000]")
@click.option("--speed", type=RATE, default=1.0, show_default=True, help="Arrivals come so many times as fast.")
@click.option("--rate", type=RATE, default=1.0, show_default=True, help="Generated sessions a second.")
@click.option("--arrivals", type=click.Choice(("poisson", "gamma", "constant")), default="poisson", show_default=True)
@click.option("--cv", type=RATE, default=1.0, show_default=True, help="Burstiness of gamma arrivals.")
@click.option("--concurrency", type=COUNT, help="Closed loop: so many sessions at a time, in place of a rate.")
@click.option("--jitter", type=click.FloatRange(0, 1e6), default=0.1, show_default=True, help="Closed loop: pause, s.")
@click.option("--input", "input_tokens", default="1024", show_default=True, help="512, 100-900, or median~deviation.")
@click.option("--output", "output_tokens", default="128", show_default=True, help="The same for the answers.")
@click.option("--prefixes", type=COUNT, default=1, show_default=True, help="Shared prefixes to choose from.")
@click.option("--prefix-tokens", type=click.IntRange(0, 10**8), default=0, show_default=True, help="Length of each.")
@click.option("--seed", type=click.IntRange(0, 2**63), default=0, show_default=True)
@click.option("--block-size", type=COUNT, default=16, show_default=True, help="Tokens of a KV block.")
@click.option("--num-blocks", type=COUNT, help="KV blocks of a replica.  [default: what the chips have room for]")
@click.option("--max-running", type=click.IntRange(1, 65_536), default=256, show_default=True, help="Rows of a step.")
@click.option("--chunk", type=click.IntRange(1, 1 << 20), default=8192, show_default=True, help="Tokens of a step.")
@click.option("--max-context", type=COUNT, help="Tokens of a sequence.  [default: the model's]")
@click.option("--max-output", type=COUNT, help="Clients' limit of an answer.  [default: what the context leaves]")
@click.option("--prefix-cache/--no-prefix-cache", default=True, show_default=True)
@click.option("--batching", type=click.Choice(("continuous", "static")), default="continuous", show_default=True)
@click.option("--reservation", type=click.Choice(("demand", "worst_case")), default="demand", show_default=True)
@click.option("--slo-ttft", type=Seconds(), help="Goodput: most seconds to the first token.")
@click.option("--slo-tpot", type=Seconds(), help="Goodput: most seconds a token after it.")
@click.option("--slo-e2e", type=Seconds(), help="Goodput: most seconds in all.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Per-request table, a Parquet file.")
@click.option("--replay", type=click.Path(path_type=Path), help="Check that a step log gives the same plans again.")
@click.option("--catalog", "overlays", multiple=True, type=click.Path(path_type=Path), help="Directory of own facts.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object; SI units, named in the keys.")
def simulate(**options: Any) -> None:
    """What a fleet would do with a workload: TTFT, TPOT, goodput, throughput, cost, energy.

    The scheduler is the one that serves. Only the steps' durations are computed, from the model, the system and, with
    --calibrated, a fit to measurements.
    """
    from headway.arithmetic.shape import ShapeError
    from headway.catalog import CatalogError
    from headway.scheduler.config import ConfigError
    from headway.scheduler.step_log import StepLogError
    from headway.workload.call import WorkloadError

    try:
        if options["replay"] is not None:
            _replay(options)
        else:
            _simulate(options)
    except (CatalogError, ConfigError, ShapeError, StepLogError, WorkloadError) as error:
        raise click.ClickException(str(error)) from None


def _replay(options: dict[str, Any]) -> None:
    from headway.cli.simulate_text import show_replay
    from headway.simulator.replay import replay

    show_replay(replay(options["replay"]), options["as_json"])


def _simulate(options: dict[str, Any]) -> None:
    from contextlib import nullcontext

    from headway.cli.simulate_text import progress, show_summary
    from headway.simulator.simulation import simulate as run

    setup = _setup(options)
    workload = _workload(options, setup)
    table: AbstractContextManager[Sink | None]
    if options["out"] is None:
        table = nullcontext(None)
    else:
        from headway.simulator.table import RecordTable

        table = RecordTable(options["out"], setup.price, setup.cut.chips)
    with table as sink, progress(workload.num_calls) as advance:
        summary = run(setup, workload, _slo(options), sink, advance)
    described = {
        "workload": workload.name,
        "model": options["model"],
        "system": setup.system.name,
        "chip": setup.system.chip.name,
        "chips": setup.cut.chips * setup.num_replicas,
        "replicas": setup.num_replicas,
        "router": setup.router,
        "cost_model": f"calibrated to {options['calibrated']}" if options["calibrated"] else "floor",
        "seed": options["seed"],
    }
    show_summary(described, summary, options["as_json"])


def _setup(options: dict[str, Any]) -> Setup:
    from headway.arithmetic.formats import precision
    from headway.arithmetic.hf_config import shape_from_config
    from headway.arithmetic.parallelism import Parallelism
    from headway.catalog import load_catalog
    from headway.simulator.simulation import Setup

    catalog = load_catalog(options["overlays"])
    system, engine = catalog.system(options["system"]), options["calibrated"]
    return Setup(
        model=shape_from_config(catalog.config(options["model"])),
        system=system,
        precision=precision(options["weights"], options["kv"], options["experts"]),
        cut=Parallelism(tensor=options["tensor"], expert=options["expert"]),
        calibration=catalog.calibration(system.chip.name, engine) if engine else None,
        host_gap_s=options["host_gap"],
        num_replicas=options["replicas"],
        router=options["router"],
        block_size=options["block_size"],
        num_blocks=options["num_blocks"],
        max_running=options["max_running"],
        max_step_tokens=options["chunk"],
        max_context=options["max_context"],
        max_output_tokens=options["max_output"],
        prefix_caching=options["prefix_cache"],
        batching=options["batching"],
        reservation=options["reservation"],
    )


def _workload(options: dict[str, Any], setup: Setup) -> Workload:
    from headway.workload.call import faster
    from headway.workload.trace import open_trace

    if (options["trace"] is None) == (options["kind"] is None):
        raise click.UsageError("give either --trace FILE or --workload KIND (or --replay LOG)")
    if options["trace"] is None:
        workload = _generated(options, setup)
    else:
        workload = open_trace(options["trace"], options["seed"], options["rate"])
        if options["requests"] is not None:
            workload = workload.head(options["requests"])
    return workload if options["speed"] == 1.0 else faster(workload, options["speed"])


def _generated(options: dict[str, Any], setup: Setup) -> Workload:
    """Agents compact before the context of the model is full, as their makers set them up."""
    from headway.workload.agentic import Agentic
    from headway.workload.lengths import parse_lengths
    from headway.workload.synthetic import Synthetic

    requests, seed = options["requests"] or 1000, options["seed"]
    if options["kind"] != "synthetic":
        agents = Agentic(
            options["kind"],
            num_sessions=requests,
            rate_per_s=options["rate"],
            arrivals=options["arrivals"],
            concurrency=options["concurrency"],
            max_context=setup.scheduler_config().max_context,
        )
        return agents.workload(seed).head(requests)
    return Synthetic(
        num_requests=requests,
        input_tokens=parse_lengths(options["input_tokens"]),
        output_tokens=parse_lengths(options["output_tokens"]),
        rate_per_s=options["rate"],
        arrivals=options["arrivals"],
        cv=options["cv"],
        concurrency=options["concurrency"],
        jitter_s=options["jitter"],
        prefixes=options["prefixes"],
        prefix_tokens=options["prefix_tokens"],
    ).workload(seed)


def _slo(options: dict[str, Any]) -> Slo:
    from headway.simulator.results import Slo

    return Slo(options["slo_ttft"], options["slo_tpot"], options["slo_e2e"])
