"""Tables as data: a terminal and a page show the same cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headway.bench.metrics import DISTRIBUTIONS, METRICS, RATES, Metric
from headway.bench.outcome import MEANING
from headway.bench.slo import percent
from headway.report.agreement import LOAD, said, word
from headway.report.cases import Case, Figure

Tone = Literal["", "good", "bad", "dim"]
SHOWN = ("mean", "p50", "p90", "p99")
ERROR_LEVELS = ("mean", "p50", "p99")
COMPARED = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
GOODPUT = METRICS["goodput_requests_per_s"]
COMPARED_RATES = (
    "requests_per_s",
    "output_tokens_per_s",
    "total_tokens_per_s",
    "goodput_requests_per_s",
    "cached_share",
)


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    tone: Tone = ""
    small: str = ""
    """An interval or a remark."""


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """One unit for all figures of a row or table."""

    factor: float
    unit: str

    def shown(self, value: float) -> str:
        return number(value * self.factor)


def scale_of(metric: Metric, values: Sequence[float]) -> Scale:
    """Seconds become milliseconds where most of them are below one."""
    if metric.unit == "s" and values and sorted(values)[len(values) // 2] < 1:
        return Scale(1000.0, "ms")
    return Scale(1.0, metric.unit)


def number(value: float) -> str:
    """Three significant digits, without an exponent for common sizes."""
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e7:
        digits = max(0, 2 - _magnitude(value))
        return f"{value:,.{digits}f}"
    return f"{value:.2e}"


def _magnitude(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])


def latency_tables(cases: Sequence[Case]) -> list[Table]:
    """One table for each distribution: a row a case."""
    tables: list[Table] = []
    for metric in DISTRIBUTIONS:
        rows = [(case, case.spreads[metric.key]) for case in cases if metric.key in case.spreads]
        if rows:
            scale = scale_of(metric, [figure.value for _, spread in rows for figure in spread.values()])
            results = [spread for case, spread in rows if case.is_result]
            best = {level: _best(metric, [spread.get(level) for spread in results]) for level in SHOWN}
            cells = tuple(
                (
                    Cell(case.short(cases)),
                    *(_figure(spread.get(level), scale, best[level] if case.is_result else None) for level in SHOWN),
                )
                for case, spread in rows
            )
            title = f"{metric.label}, {scale.unit} ({metric.better} is better)"
            tables.append(Table(title, ("run", *SHOWN), cells, metric.definition))
    return tables


def rate_table(cases: Sequence[Case]) -> Table:
    """A row a metric, a column a case."""
    rows: list[tuple[Cell, ...]] = []
    for metric in RATES:
        if metric is GOODPUT and any(case.slo for case in cases):
            rows.append((Cell("SLO"), *map(_slo, cases)))
        figures = [Figure(case.rates[metric.key]) if metric.key in case.rates else None for case in cases]
        if any(figures):
            scale = scale_of(metric, [])
            results = [figure for case, figure in zip(cases, figures, strict=True) if case.is_result]
            best = _best(metric, results) if metric.better == "higher" else None
            name = metric.label + (
                f", {metric.unit}" if metric.unit not in ("", "1/s") and "/s" not in metric.label else ""
            )
            rows.append(
                (
                    Cell(name),
                    *(
                        _figure(figure, scale, best if case.is_result else None)
                        for case, figure in zip(cases, figures, strict=True)
                    ),
                )
            )
    return Table("Rates", ("", *(case.short(cases) for case in cases)), tuple(rows))


def _slo(case: Case) -> Cell:
    needed = "" if case.slo_share is None else f"by {percent(case.slo_share)} of the requests"
    return Cell(case.slo, small=needed) if case.slo else Cell("-", "dim")


def outcome_table(cases: Sequence[Case]) -> Table:
    """Only outcomes that occurred; those that are the server's failures stand out."""
    found: list[str] = [name for name in MEANING if any(name in case.outcomes for case in cases)]
    found += sorted({name for case in cases for name in case.outcomes} - set(MEANING))
    rows = tuple(
        (Cell(case.short(cases)), *(_count(case.outcomes.get(name, 0), name) for name in found)) for case in cases
    )
    note = "; ".join(f"{name}: {MEANING[name]}" for name in MEANING if name in found)
    return Table("Answers", ("run", *found), rows, note)


def error_tables(cases: Sequence[Case]) -> list[Table]:
    """Measured beside simulated. The error is (simulated - measured) / measured."""
    return [_error_table(measured, simulated) for measured, simulated in pairs(cases)]


def pairs(cases: Sequence[Case]) -> list[tuple[Case, Case]]:
    """Each measured case with the simulated one of the same load, or with the only one there is."""
    simulated = [case for case in cases if case.kind == "simulated"]
    measured = [case for case in cases if case.kind == "measured"]
    found: list[tuple[Case, Case]] = []
    for case in measured:
        load = case.requests.load()
        same = [other for other in simulated if load is not None and other.requests.load() == load]
        if not same and (len(measured) == 1 or (len(simulated) == 1 and simulated[0].requests.load() is None)):
            same = simulated
        found += [(case, other) for other in same]
    return found


def _error_table(measured: Case, simulated: Case) -> Table:
    """Where other requests were measured, or there is no result, a difference is no error."""
    differences = measured.requests.differ(simulated.requests)
    doubts = [] if measured.is_result else ["what was measured is no result"]
    doubts += [f"other requests: {said(differences, 'measured', 'simulated')}"] if differences else []
    rows = []
    for key in COMPARED:
        for level in ERROR_LEVELS:
            ours, theirs = measured.spreads.get(key, {}).get(level), simulated.spreads.get(key, {}).get(level)
            if ours is not None and theirs is not None:
                rows.append(_error_row(f"{METRICS[key].label} {level}", METRICS[key], ours, theirs.value, doubts))
    same_slo = measured.slo == simulated.slo or simulated.slo is None
    for key in COMPARED_RATES:
        if key in measured.rates and key in simulated.rates and (same_slo or not key.startswith("goodput")):
            ours = Figure(measured.rates[key])
            rows.append(_error_row(METRICS[key].label, METRICS[key], ours, simulated.rates[key], doubts))
    title = f"{measured.name} beside {simulated.name}"
    what = "difference" if doubts else "error"
    return Table(
        title, ("figure", "measured", "simulated", what), tuple(rows), *_remarks(measured, simulated, what, doubts)
    )


def _remarks(measured: Case, simulated: Case, what: str, doubts: Sequence[str]) -> tuple[str, str]:
    """A note and a warning."""
    note = [f"{what}: (simulated - measured) / measured"]
    why = "; ".join([*doubts, "so this is no error of the prediction"]) if doubts else ""
    if not doubts:
        note.append("within: the simulated figure lies in the measured one's 95% interval")
        if untold := simulated.requests.untold():
            note.append(
                f"whether the requests are the same is not known: the simulation does not tell {', '.join(untold)}"
            )
    if simulated.slo and measured.slo and simulated.slo != measured.slo:
        note.append(f"goodput is left out: within {measured.slo} measured, {simulated.slo} simulated")
    return "; ".join(note), why


def unlike(cases: Sequence[Case]) -> str:
    """What differs between the requests of measured runs, load and model aside; empty: nothing. In one line."""
    measured = [case for case in cases if case.kind == "measured"]
    apart = {name for a in measured for b in measured for name in a.requests.made_differ(b.requests)} - {*LOAD}
    parts = []
    for name in sorted(apart):
        labels: dict[str, list[str]] = {}
        for case in measured:
            labels.setdefault(word(case.requests.made_of.get(name)), []).append(case.label)
        values = "; ".join(f"{value}: {', '.join(dict.fromkeys(who))}" for value, who in labels.items())
        parts.append(f"{name.replace('_', ' ')} ({values})")
    return f"the runs are of different requests: {', '.join(parts)}" if parts else ""


def _error_row(
    name: str, metric: Metric, measured: Figure, simulated: float, doubts: Sequence[str]
) -> tuple[Cell, ...]:
    scale = scale_of(metric, [measured.value, simulated])
    error = (simulated - measured.value) / measured.value if measured.value else None
    inside = measured.holds(simulated) and not doubts
    return (
        Cell(f"{name}, {scale.unit}" if scale.unit in ("s", "ms") else name),
        _figure(measured, scale, None),
        Cell(scale.shown(simulated)),
        Cell("-" if error is None else f"{error:+.1%}", "good" if inside else "", "within" if inside else ""),
    )


def _figure(figure: Figure | None, scale: Scale, best: float | None) -> Cell:
    if figure is None:
        return Cell("-", "dim")
    low, high = (None if edge is None else scale.shown(edge) for edge in (figure.low, figure.high))
    small = f"{low or '…'} - {high or '…'}" if low or high else ""
    return Cell(scale.shown(figure.value), "good" if figure.value == best else "", small)


def _best(metric: Metric, figures: Sequence[Figure | None]) -> float | None:
    """Only among several."""
    values = [figure.value for figure in figures if figure is not None]
    if len(set(values)) < 2:
        return None
    return min(values) if metric.better == "lower" else max(values)


def _count(count: int, name: str) -> Cell:
    if not count:
        return Cell("0", "dim")
    return Cell(f"{count:,}", "" if name in ("ok", "finished", "stop") else "bad")
