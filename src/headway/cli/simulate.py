"""`headway simulate`: the scheduler that serves, on a virtual clock, on hardware that nobody here owns."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headway.cli.one_line import INTERRUPTED, in_options
from headway.cli.out_files import OutFile
from headway.cli.plan_options import CATALOG, JSON, check_experts
from headway.cli.preconditions import given_options
from headway.cli.quantities import Number, Policy, Seconds
from headway.cli.replica_options import cut_of, feed_forward_of, replica_options
from headway.cli.simulate_chart import drawing
from headway.cli.simulate_checks import FIELDS, MAX_BLOCKS, check_blocks, check_options, check_replay
from headway.cli.simulate_faults import fault_options, faults_of, random_faults_of
from headway.cli.simulate_machine import config_of, described_models
from headway.cli.simulate_pools import described_fleet, handover_of, pool_options, with_machines
from headway.cli.simulate_regions import region_options, regions_of
from headway.cli.simulate_what_if import fork, replay_options
from headway.cli.sweep_options import TABLE_ENDINGS, check_sweep, sweep_options
from headway.cli.tier_options import tier_memories, tier_options
from headway.cli.trace_options import trace_options, tracing
from headway.cli.workload_options import WorkloadChoice, workload_options

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from headway.catalog import Catalog
    from headway.simulator.results import Slo
    from headway.simulator.simulation import Setup, Sink
    from headway.simulator.work_receipts import WorkReceipts
    from headway.workload.call import Workload

COUNT = click.IntRange(1, 1_000_000_000)
RATE = Number(1e-6, 1e9)


@click.command()
@workload_options
@click.option("--rate", type=RATE, help="Open loop: sessions a second.  [default: 1, of agents 0.01, or a trace's own]")
@click.option("--concurrency", type=click.IntRange(1, 1_000_000), help="Closed loop: so many sessions at a time.")
@click.option("--speed", type=RATE, default=1.0, show_default=True, help="Arrivals, so many times as fast.")
@click.option("--model", default="llama-3.1-8b", show_default=True, help="A model of the catalog, or a config.json.")
@click.option("--system", default="hgx-h100", show_default=True, help="By name, or a file of headway calibrate.")
@click.option("--replicas", type=click.IntRange(1, 4096), default=1, show_default=True)
@click.option("--router", default="round-robin", show_default=True, help="round-robin, least-work, session, prefix.")
@replica_options
@click.option("--weights", help="Number format of the weights.  [default: as the model's file says, else bf16]")
@click.option("--experts", help="Number format of the routed experts.  [default: as --weights]")
@click.option("--kv", help="Number format of the cache.  [default: as the model's file says, else bf16]")
@click.option("--calibrated", metavar="ENGINE", help="Step times as fitted to this engine.  [default: the floor]")
@click.option(
    "--host-gap", type=Seconds(least_s=0, most_s=10), help="Between two steps, as 1ms.  [default: 0.2ms on the floor]"
)
@click.option("--block-size", type=COUNT, default=16, show_default=True, help="Tokens of a KV block.")
@click.option(
    "--num-blocks",
    type=click.IntRange(1, MAX_BLOCKS),
    help="KV blocks of a replica.  [default: what the chips have room for]",
)
@click.option("--max-running", type=click.IntRange(1, 65_536), default=256, show_default=True, help="Requests a step.")
@click.option("--chunk", type=click.IntRange(1, 1 << 20), default=8192, show_default=True, help="Tokens in one step.")
@click.option(
    "--max-queued-requests",
    type=click.IntRange(0, 1_000_000_000),
    help="That wait at a replica; beyond it, refused.  [default: any number]",
)
@click.option("--max-queued-tokens", type=COUNT, help="Of their prompts, the same.  [default: any number]")
@click.option("--context", type=COUNT, help="Most tokens of a sequence.  [default: the model's]")
@click.option("--max-output", type=COUNT, help="Clients' limit of answer tokens.  [default: what the context leaves]")
@click.option("--prefix-cache/--no-prefix-cache", default=True, show_default=True)
@click.option("--batching", type=click.Choice(("continuous", "static")), default="continuous", show_default=True)
@click.option("--reservation", type=Policy(("demand", "worst-case")), default="demand", show_default=True)
@click.option("--slo-ttft", type=Seconds(), help="Goodput: most to the first token: 0.5, 0.5s or 500ms.")
@click.option("--slo-tpot", type=Seconds(), help="Goodput: most a token after it, as 50ms.")
@click.option("--slo-e2e", type=Seconds(), help="Goodput: most for a whole answer, as 30s.")
@click.option("--out", type=OutFile(*TABLE_ENDINGS), help="Per-request table, .parquet; of a sweep its rows, .jsonl.")
@tier_options
@region_options
@pool_options
@fault_options
@sweep_options
@trace_options
@replay_options
@CATALOG
@JSON
def simulate(**options: Any) -> None:
    """What a fleet would do with a workload: TTFT, TPOT, goodput, throughput, cost, energy.

    The scheduler is the one that serves. Only the steps' durations are computed, from the model, the system and, with
    --calibrated, a fit to measurements.
    """
    try:
        options["given"] = given_options()
        with refusals({} if options["replay"] else FIELDS):
            _run(options)
    except MemoryError:
        raise click.ClickException(
            "out of memory: a smaller --num-blocks, --max-running or --context needs less"
        ) from None


@contextmanager
def refusals(fields: Mapping[str, str]) -> Iterator[None]:
    """What cannot be simulated becomes a ClickException, in which `fields` of the configuration are options."""
    from headway.arithmetic.shape import ShapeError
    from headway.catalog import CatalogError
    from headway.scheduler.config import ConfigError
    from headway.scheduler.step_records import StepLogError
    from headway.simulator.sweep import SweepError
    from headway.workload.call import WorkloadError

    try:
        yield
    except ConfigError as error:
        raise click.ClickException(in_options(str(error), fields) if fields else str(error)) from None
    except (CatalogError, ShapeError, StepLogError, WorkloadError, SweepError) as error:
        raise click.ClickException(str(error)) from None


def _run(options: dict[str, Any]) -> None:
    if options["replay"] is not None:
        _replay(options)
        return
    if not options["sweep"]:
        check_options(options)
    check_sweep(options)
    if options["sweep"]:
        from headway.cli.simulate_sweep import simulate_grid

        simulate_grid(options)
    else:
        _simulate(options)


def _replay(options: dict[str, Any]) -> None:
    from headway.cli.simulate_text import show_replay
    from headway.simulator.changes import parse_changes
    from headway.simulator.replay import replay
    from headway.workload.call import WorkloadError

    check_options(options)
    check_sweep(options)
    try:
        changes = {} if options["changes"] is None else parse_changes(options["changes"])
    except WorkloadError as error:
        raise click.UsageError(str(error)) from None
    check_replay(options["given"], changes)
    if changes or "system" in options["given"]:
        fork(options, changes)
        return
    with tracing(options) as observer:
        replayed = replay(options["replay"], observer)
    show_replay(replayed, options["as_json"])


def _simulate(options: dict[str, Any]) -> None:
    from headway.cli.simulate_text import progress, show_summary
    from headway.simulator.observer import together
    from headway.simulator.simulation import simulate as run
    from headway.simulator.work_receipts import work_receipts

    options, setup = fleet_of(options)
    check_blocks(setup)
    receipts = None if options["out"] is None else work_receipts(setup)
    workload = workload_of(options, setup)
    about = described(options, setup, workload)
    if receipts is not None:
        about["energy_of_a_call"] = receipts.energy_rule
    with (
        _table(options, setup, receipts) as table,
        drawing(options, about, table) as sink,
        tracing(options) as observer,
        progress(workload.num_calls) as advance,
    ):
        summary = run(setup, workload, slo_of(options), sink, advance, together(observer, receipts))
    show_summary(about, summary, options["as_json"])
    if summary.interrupted:
        sys.exit(INTERRUPTED)


def fleet_of(options: dict[str, Any]) -> tuple[dict[str, Any], Setup]:
    """The options, with a machine file's where there is one. Raises UsageError for options that contradict."""
    check_options(options)
    options = with_machines(options)
    return options, setup_of(options)


def described(options: dict[str, Any], setup: Setup, workload: Workload) -> dict[str, Any]:
    """What a result is a result of."""
    choice = choice_of(options, setup)
    is_closed = options["concurrency"] is not None
    return {
        "workload": workload.name,
        **described_models(options, setup),
        **described_fleet(setup),
        "router": setup.router,
        "seed": options["seed"],
        "concurrency": options["concurrency"],
        "rate_per_s": None if is_closed else options["rate"] or choice.default_rate_per_s,
        "speed": options["speed"],
        "workload_options": choice.described(),
        "slo": {name: limit for name, limit in asdict(slo_of(options)).items() if limit is not None},
    }


def _table(
    options: Mapping[str, Any], setup: Setup, receipts: WorkReceipts | None
) -> AbstractContextManager[Sink | None]:
    if receipts is None:
        return nullcontext(None)
    from headway.simulator.table import RecordTable

    return RecordTable(options["out"], [pool.replica_price for pool in setup.all_pools], receipts)


def setup_of(options: dict[str, Any]) -> Setup:
    from headway.arithmetic.hf_config import shape_from_config
    from headway.arithmetic.hf_quantization import chosen_precision
    from headway.simulator.simulation import Setup

    catalog = catalog_of(options["overlays"])
    system, engine = catalog.system(options["system"]), options["calibrated"]
    fitted = engine or options.get("machine") is not None
    config = config_of(options)
    shape = shape_from_config(config)
    check_experts(options["experts"], shape, options["model"])
    return Setup(
        model=shape,
        system=system,
        precision=chosen_precision(config, shape, options["weights"], options["kv"], options["experts"]),
        cut=cut_of(options),
        feed_forward=feed_forward_of(options, catalog),
        calibration=catalog.calibration(system.chip.name, engine or "") if fitted else None,
        energy=catalog.energy,
        host_gap_s=options["host_gap"],
        num_replicas=options["replicas"],
        router=options["router"],
        block_size=options["block_size"],
        num_blocks=options["num_blocks"],
        max_running=options["max_running"],
        max_step_tokens=options["chunk"],
        max_queued_requests=options["max_queued_requests"],
        max_queued_tokens=options["max_queued_tokens"],
        max_context=options["context"],
        max_output_tokens=options["max_output"],
        prefix_caching=options["prefix_cache"],
        batching=options["batching"],
        reservation=options["reservation"].replace("-", "_"),
        tiers=tier_memories(options, catalog, system, cut_of(options).chips),
        kv_ttl_s=options["kv_ttl"],
        role=options.get("role", "mixed"),
        handover=handover_of(options, system),
        region=options.get("region", ""),
        serves=options.get("serves", ""),
        round_trip_s=options["round_trip"] or 0.0,
        regions=regions_of(options),
        faults=faults_of(options),
        random_faults=random_faults_of(options),
        pools=tuple(setup_of(pool) for pool in options["pools"]),
    )


@lru_cache(maxsize=4)
def catalog_of(overlays: tuple[Path, ...]) -> Catalog:
    """Read once for all pools, and for all points of a sweep."""
    from headway.catalog import load_catalog

    return load_catalog(overlays)


def workload_of(options: dict[str, Any], setup: Setup) -> Workload:
    """Raises WorkloadError."""
    return choice_of(options, setup).make(options["concurrency"], options["rate"], options["speed"])


def choice_of(options: Mapping[str, Any], setup: Setup) -> WorkloadChoice:
    """Agents compact before the context of the replica is full, as their makers set them up."""
    choice = WorkloadChoice.taken(dict(options), options["given"])
    if choice.options["agents"] is not None and choice.options["max_context"] is None:
        choice.options["max_context"] = setup.fleet_context
    return choice


def slo_of(options: dict[str, Any]) -> Slo:
    from headway.simulator.results import Slo

    return Slo(options["slo_ttft"], options["slo_tpot"], options["slo_e2e"])
