"""Reports of `headway plan` as text or JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from typing import Any

import click

from headway.arithmetic.parallelism import Parallelism
from headway.cli.plan_notes import noted, with_notes
from headway.cli.si import si, size
from headway.planner.best import BestReport
from headway.planner.kv import KvReport
from headway.planner.model import ModelReport
from headway.planner.pareto import ParetoReport
from headway.planner.request import RequestCost, RequestReceipt
from headway.planner.step import RooflineReport, StepReport
from headway.planner.sweep import Configuration


def show_names(names: dict[str, list[str]], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(names))
        return
    for kind, known in names.items():
        click.echo(f"{kind}: {', '.join(known)}")


def show_model(report: ModelReport, as_json: bool) -> None:
    if as_json:
        _json(report)
        return
    p = report.params
    _lines(
        f"{report.model} ({report.family})"
        + (f", up to {report.max_context_tokens:,} tokens" if report.max_context_tokens else ""),
        ("layers", "; ".join(f"{n} x {kind}" for kind, n in report.layers.items())),
        ("parameters", si(report.total_params, "") + _gap(report.total_gap)),
        ("active", si(report.active_params, "") + _gap(report.active_gap)),
        *(
            (name.replace("_", " "), f"{si(n, '')} ({n / p.total:.1%})")
            for name, n in asdict(p).items()
            if n and name != "active_experts"
        ),
        (f"weights in {report.weight_format}", size(report.weight_bytes)),
        (f"KV in {report.kv_format}, a token", size(report.kv_bytes_per_token)),
        ("and, a sequence", size(report.kv_bytes_constant) if report.kv_bytes_constant else "nothing"),
        ("source", report.source or "the file given"),
    )
    _assume(report.assumptions, formulas=report.formulas)


def show_kv(report: KvReport, as_json: bool) -> None:
    if as_json:
        _json(report)
        return
    equal, mixed = report.context_where_kv_equals_weights_tokens, len(report.by_layer) > 1
    _lines(
        f"{report.model}, {report.batch} x {report.context_tokens:,} tokens, KV in {report.kv_format}",
        ("a token", size(report.kv_bytes_per_token)),
        ("a sequence, constant", size(report.kv_bytes_constant) if report.kv_bytes_constant else "nothing"),
        ("a context", size(report.kv_bytes_per_context)),
        *(((f"  {x.layers} x {x.kind}", f"{size(x.kv_bytes)} each") for x in report.by_layer) if mixed else ()),
        ("the batch", size(report.kv_bytes)),
        (f"weights in {report.weight_format}", size(report.weight_bytes)),
        ("KV equals weights at", f"{equal:,} tokens" if equal else "no length"),
        (f"{report.chip} for KV alone", f"{report.chips_for_kv:.2f}, so {report.whole_chips_for_kv}"),
        ("for KV and weights", f"{report.chips_for_kv_and_weights:.2f}, so {report.whole_chips_for_kv_and_weights}"),
    )
    _assume(report.assumptions, formulas=report.formulas)


def show_roofline(report: RooflineReport, engine: str, as_json: bool) -> None:
    if as_json:
        _json(report)
        return
    memory = report.memory
    _lines(
        f"{report.model} on {report.chips} x {report.chip} ({report.system}), weights {report.weight_format}, "
        f"KV {report.kv_format}",
        ("ridge", f"{report.ridge_flops_per_byte:.4g} FLOP/B"),
        ("weights a chip", size(memory.weights_bytes)),
        ("KV a chip", size(memory.kv_bytes)),
        (
            "fits",
            f"{'yes' if report.fits else 'NO'}: {size(memory.usable_bytes)} usable, for at most {memory.max_batch:,} "
            f"sequences of {report.context_tokens:,} tokens",
        ),
    )
    _step(
        f"decode: {report.batch} sequence{'' if report.batch == 1 else 's'} of {report.context_tokens:,} tokens",
        report.decode,
        _unfitted(engine, report.chip),
    )
    _lines("", ("a user", f"{report.interactivity_tokens_per_s:.4g} tokens/s"))
    _step(f"prefill: {report.context_tokens:,} tokens", report.prefill, _unfitted(engine, report.chip))
    click.echo(f"\nbounds of the decode step, by the {'fit' if report.decode.calibrated else 'floor'}")
    for b in report.bounds:
        share = "unknown" if b.share is None else f"{b.share:.1%}"
        click.echo(f"  {b.bound.replace('_', ' '):24} {share:>8} {b.says}{', and holds' if b.holds else ''}")
    _assume(report.assumptions, report.uncertain, report.formulas)


def show_receipt(report: RequestReceipt, engine: str, as_json: bool) -> None:
    if as_json:
        _json(report)
        return
    click.echo(
        f"{report.model} on {report.chips} x {report.chip} ({report.system}): {report.prompt_tokens:,} tokens in "
        f"({report.cached_tokens:,} cached), {report.output_tokens:,} out, batch {report.batch}"
    )
    _request_cost("floor", report.floor, report.overhead)
    if report.calibrated is None:
        click.echo(f"a real engine: {_unfitted(engine, report.chip)}")
    else:
        _request_cost(f"a real engine ({report.median_error:.0%} median error)", report.calibrated, report.overhead)
    _assume(report.assumptions, report.uncertain, report.formulas)


def _request_cost(title: str, cost: RequestCost, overhead: float) -> None:
    def known(value: float | None, unit: str) -> str:
        return "unknown" if value is None else si(value, unit)

    _lines(
        title,
        ("prompt", f"{si(cost.prefill_s, 's')}, {known(cost.prefill_j, 'J')}"),
        ("decode", f"{si(cost.decode_s, 's')}, {known(cost.decode_j, 'J')} of its own"),
        ("a token", f"{si(cost.tpot_s, 's')}, {known(cost.j_per_output_token, 'J')} with the prompt's share"),
        (
            "energy",
            f"{known(cost.chip_wh, 'Wh')} in the chips, {known(cost.wall_wh, 'Wh')} at the wall (x {overhead:g})",
        ),
        ("rent", "unknown" if cost.usd is None else f"{cost.usd:.3g} USD"),
        ("electricity", "unknown" if cost.electricity_usd is None else f"{cost.electricity_usd:.3g} USD"),
    )


def show_pareto(report: ParetoReport, as_json: bool) -> None:
    if as_json:
        _json(report)
        return
    _configurations(report, report.frontier)
    if report.slo_tokens_per_s is not None:
        click.echo(f"best at {report.slo_tokens_per_s:.4g} tokens/s a user")
        click.echo(_configuration(report.best_at_slo) if report.best_at_slo else "  none reaches it")
    _left_out(report)
    _assume(report.assumptions, report.uncertain, report.formulas)


def show_best(report: BestReport, as_json: bool) -> None:
    if as_json:
        _json(report)
        return
    _configurations(report, report.best)
    click.echo(report.why)
    _left_out(report)
    _assume(report.assumptions, report.uncertain, report.formulas)


def _left_out(report: ParetoReport | BestReport) -> None:
    if report.left_out:
        click.echo("left out:")
    for each in report.left_out:
        click.echo(f"  {each}")


def _configurations(report: ParetoReport | BestReport, found: tuple[Configuration, ...]) -> None:
    asked = f"{report.context_tokens:,} tokens, decode only"
    if report.prompt_tokens is not None:
        cached = f" ({report.cached_tokens:,} cached)" if report.cached_tokens else ""
        asked = f"{report.prompt_tokens:,} tokens in{cached}, {report.output_tokens:,} out"
    click.echo(f"{report.model}, {asked}: {report.considered:,} configurations considered")
    click.echo(f"times are {'those of fitted engines' if report.cost_model == 'calibrated' else 'floors'}")
    if not found:
        click.echo("  none")
        return
    click.echo(
        f"  {'tokens/s a user':>15} {'tokens/s a chip':>15} {'TTFT':>9} {'USD/Mtok':>8} {'batch':>5} "
        f"{'bound':16}  configuration"
    )
    for c in found:
        click.echo(_configuration(c))


def _configuration(c: Configuration) -> str:
    cost = "unknown" if c.usd_per_mtok is None else f"{c.usd_per_mtok:.3g}"
    first = "-" if c.ttft_s is None else si(c.ttft_s, "s")
    return (
        f"  {c.interactivity_tokens_per_s:15.4g} {c.throughput_tokens_per_s_per_chip:15.4g} {first:>9} {cost:>8} "
        f"{c.batch:5} {c.bound.replace('_', ' '):16}  {_unit(c)}"
    )


def _unit(c: Configuration) -> str:
    """Chips by their own name: a system's name may mean all of its chips."""
    on = f"{c.chips} x {c.chip} ({c.system}), {c.weight_format}"
    if c.prefill_parallelism is None:
        return f"{on}: {_cut(c.parallelism)}{', prompts mixed in' if c.kind == 'mixed' else ''}"
    return (
        f"{on}: {c.prefill_replicas} for prompts ({_cut(c.prefill_parallelism)}), "
        f"{c.replicas} decoding ({_cut(c.parallelism)})"
    )


def _cut(p: Parallelism) -> str:
    """Only what is cut."""
    return ", ".join(f"{name} {count}" for name, count in asdict(p).items() if count > 1) or "one chip"


def _step(title: str, step: StepReport, unfitted: str) -> None:
    energy = "unknown: no power published" if step.energy_at_tdp_j is None else si(step.energy_at_tdp_j, "J")
    _lines(
        f"\n{title}",
        ("floor", f"{si(step.step_s, 's')}, bound by {step.bound.replace('_', ' ')}"),
        ("a real engine", _calibrated(step) or unfitted),
        ("compute", f"{si(step.compute_s, 's')} ({step.arithmetic_utilisation:.1%} busy)"),
        ("memory", f"{si(step.memory_s, 's')} ({step.bandwidth_utilisation:.1%} busy)"),
        ("network", si(step.network_s, "s") if step.network_s else "none"),
        ("a chip", f"{step.tokens_per_s_per_chip:.4g} tokens/s"),
        ("energy at full power", energy),
    )
    click.echo(f"  {'operation':34} {'FLOP':>12} {'bytes':>12} {'FLOP/B':>9} {'time':>12}  bound")
    for op in step.ops:
        name = f"{op.layers} x {op.name}" + (f" ({op.kind})" if op.kind else "")
        numbers = f"{si(op.flops, ''):>12} {si(op.moved_bytes, 'B'):>12} {op.intensity_flops_per_byte:9.4g}"
        click.echo(f"  {name:34.34} {numbers} {si(op.floor_s, 's'):>12}  {op.bound.replace('_', ' ')}")


def _calibrated(step: StepReport) -> str | None:
    fitted = step.calibrated
    if fitted is None:
        return None
    between = (
        "" if fitted.low_s is None else f", nine in ten from {si(fitted.low_s, 's')} to {si(fitted.high_s or 0.0, 's')}"
    )
    unseen = "" if fitted.held_out_median_error is None else f", {fitted.held_out_median_error:.0%} held out"
    of_chip = "" if fitted.measured_chip else "; this chip was never measured: from its datasheet"
    return (
        f"{si(fitted.step_s, 's')}{between} (median error {fitted.median_error:.0%} in sample{unseen}, "
        f"{fitted.points} points{of_chip})"
    )


def _unfitted(engine: str, chip: str) -> str:
    if engine == "none":
        return "none was asked for (--engine none)"
    return f"no fit of {engine} on {chip}, nor of that engine on any GPU that would do for it"


def _lines(title: str, *pairs: tuple[str, str]) -> None:
    if title:
        click.echo(title)
    width = max(24, *(len(name) for name, _ in pairs))
    for name, value in pairs:
        click.echo(f"  {name:{width}} {value}")


def _assume(assumptions: tuple[str, ...], uncertain: tuple[str, ...] = (), formulas: tuple[str, ...] = ()) -> None:
    for title, lines in (("by", formulas), ("assuming", with_notes(assumptions)), ("uncertain", uncertain)):
        if lines:
            click.echo(f"\n{title}")
        for line in lines:
            click.echo(f"  - {line}")


def _gap(gap: float | None) -> str:
    return "" if gap is None else f" ({gap:+.1%} from what is published)"


def _json(report: Any) -> None:
    """NaN and infinity would be no JSON."""
    if not is_dataclass(report) or isinstance(report, type):
        raise TypeError("a report is a dataclass")
    click.echo(json.dumps(asdict(noted(report)), allow_nan=False))
