"""Questions about steps: decoding, its limits, memory, speculation, pools of chips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from headway.cli.plan_deployment import MFU, SHARE, a_request, by_floors, charted, draw, on_a_system, taken, workload
from headway.cli.plan_options import (
    BATCH,
    CHIPS,
    SLO,
    SYSTEM,
    TOKENS,
    Whole,
    about_a_model,
    check_beside,
    one_line,
    option,
)
from headway.cli.plan_show import show
from headway.cli.preconditions import Beside, given_options
from headway.cli.quantities import Number

_BATCHES = [1, 2, 4, 8, 16, 32, 64, 128, 256]


@click.command("decode")
@on_a_system
@option(
    "--batch",
    "batches",
    type=BATCH,
    multiple=True,
    default=_BATCHES,
    help="Sequences in a step: one number or several.",
)
@option(
    "--context",
    "contexts",
    type=TOKENS,
    multiple=True,
    default=[8192],
    help="Tokens of each sequence: one number or several.",
)
@option("--shared", type=Whole(min=0), default=0, help="Tokens at the start that all sequences have in common.")
def decode_question(
    batches: tuple[int, ...], contexts: tuple[int, ...], shared: int, as_json: bool, **asked: Any
) -> None:
    """Decode time, tokens/s a user and a chip, over batch and context."""
    from headway.planner.decoding import decode_report

    with one_line():
        _, where = taken(asked)
        report = decode_report(where, batches, contexts, shared)
    show(report, as_json)


@click.command("limits")
@on_a_system
@option("--batch", type=BATCH, default=32, help="Sequences, for the turning points along the context.")
@option("--context", type=TOKENS, default=8192, help="Tokens, for the turning point along the batch.")
def limits_question(batch: int, context: int, as_json: bool, **asked: Any) -> None:
    """Where weights stop mattering, the latency floor, where KV overtakes weights and memory overtakes compute."""
    from headway.planner.limits import limits_report

    with one_line():
        _, where = taken(asked)
        report = limits_report(where, batch, context)
    show(report, as_json)


@click.command("memory")
@by_floors
@option("--batch", type=BATCH, default=32, help="Sequences.")
@option("--context", type=TOKENS, default=8192, help="Tokens of each sequence.")
@option("--beside", cls=Beside, other="chart", multiple=True, metavar="SYSTEM", help="Further systems in the chart.")
@charted
def memory_question(
    batch: int,
    context: int,
    beside: tuple[str, ...],
    chart: Path | None,
    title: str | None,
    as_json: bool,
    **asked: Any,
) -> None:
    """What fills each chip's memory, and how many sequences fit."""
    from dataclasses import replace

    from headway.planner import charts
    from headway.planner.memory import memory_report

    check_beside(beside, asked["system"])
    with one_line():
        catalog, where = taken(asked)
        report = memory_report(where, context, batch)
        others = [memory_report(replace(where, system=catalog.system(name)), context, batch) for name in beside]
    draw(lambda: charts.memory_chart([report, *others], title), chart)
    show(report, as_json)


@click.command("energy")
@by_floors
@option("--batch", type=BATCH, default=32, help="Sequences in a decode step.")
@option("--context", type=TOKENS, default=8192, help="Tokens of each, and of the prompt.")
def energy_question(batch: int, context: int, as_json: bool, **asked: Any) -> None:
    """Joules of a decode step and a prompt: by power, and by what is read and multiplied."""
    from headway.planner.energy import energy_report

    with one_line():
        catalog, where = taken(asked)
        where.check_fits(context, batch)
        report = energy_report(where, catalog.energy, batch, context)
    show(report, as_json)


@click.command("speculation")
@on_a_system
@option("--batch", "batches", type=BATCH, multiple=True, default=[1, 8, 32, 128], help="Loads: one or several.")
@option("--context", type=TOKENS, default=8192, help="Tokens of each sequence.")
@option("--acceptance", type=SHARE, default=0.7, help="Chance that a drafted token is accepted.")
@option("--draft-share", type=Number(0, 10), default=0.05, help="Share of a plain step that one draft takes.")
@option("--deepest", type=Whole(1, 16), default=8, help="Most drafts tried.")
def speculation_question(
    batches: tuple[int, ...],
    context: int,
    acceptance: float,
    draft_share: float,
    deepest: int,
    as_json: bool,
    **asked: Any,
) -> None:
    """Speculative decoding: the best number of drafts at each load."""
    from headway.planner.speculation import speculation_report

    with one_line():
        _, where = taken(asked)
        report = speculation_report(where, batches, context, acceptance, draft_share, deepest)
    show(report, as_json)


@click.command("disaggregate")
@by_floors
@a_request(prompt=8192, output=512)
@MFU
@option(
    "--prefill-system",
    metavar="SYSTEM",
    help="Chips and links of the prefill pool.  [default: --system]",
    show_default=False,
)
@option("--prefill-tensor", type=CHIPS, help="Tensor parallelism there.  [default: --tensor]", show_default=False)
@option("--slo", "slos", type=SLO, multiple=True, help="Tokens/s a user.  [default: around --batch's speed]")
def disaggregate_question(
    prefill_system: str | None,
    prefill_tensor: int | None,
    slos: tuple[float, ...],
    as_json: bool,
    **asked: Any,
) -> None:
    """Prefill and decode on pools of their own: KV to move, ratio of the pools, when it pays.

    All by floors; `plan best` has fits.
    """
    from dataclasses import replace

    from headway.planner.disaggregation import disaggregation_report

    with one_line():
        work = workload(asked)
        catalog, decodes = taken(asked)
        system = catalog.system(prefill_system) if prefill_system else decodes.system
        cut = replace(decodes.cut, tensor=prefill_tensor) if prefill_tensor else decodes.cut
        cut.check(decodes.model)
        prefills = replace(decodes, system=system, cut=cut)
        own = 1 / float(decodes.floor(decodes.decode_shape(work.batch, work.prompt)).step_s)
        speeds = slos or tuple(own * times for times in (0.5, 0.75, 1.0, 1.25, 1.5))
        report = disaggregation_report(prefills, decodes, work, speeds)
    show(report, as_json)


@click.command("afd")
@about_a_model
@SYSTEM
@option("--attention-chips", type=CHIPS, default=8, help="Chips of --system, which keep the cache.")
@option(
    "--feed-forward-system", metavar="SYSTEM", default="lpx-256", help="Chips and links that multiply the feed-forward."
)
@option("--feed-forward-chips", type=CHIPS, default=256, help="Chips of that system.")
@option("--batch", type=BATCH, default=64, help="Sequences.")
@option("--context", type=TOKENS, default=8192, help="Tokens of each sequence.")
def afd_question(
    attention_chips: int,
    feed_forward_system: str,
    feed_forward_chips: int,
    batch: int,
    context: int,
    as_json: bool,
    **asked: Any,
) -> None:
    """Attention and feed-forward on different chips: hops, micro-batches, pipelining."""
    from dataclasses import replace

    from headway.catalog import load_catalog
    from headway.planner.afd import afd_report, common_format

    with one_line():
        catalog = load_catalog(asked["overlays"])
        other = catalog.system(feed_forward_system)
        chosen: tuple[str, ...] = ()
        if "weights" not in given_options():
            common = asked["weights"] = common_format(catalog.system(asked["system"]).chip, other.chip)
            chosen = (
                f"weights in {common}, the widest format that both chips have a rate for: --weights says another",
            )
        _, where = taken(asked)
        report = afd_report(where, other, attention_chips, feed_forward_chips, batch, context)
        report = replace(report, assumptions=(*report.assumptions, *chosen))
    show(report, as_json)


COMMANDS = (
    decode_question,
    limits_question,
    memory_question,
    energy_question,
    speculation_question,
    disaggregate_question,
    afd_question,
)
