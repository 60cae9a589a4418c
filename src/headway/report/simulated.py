"""Results of `headway simulate` as cases: its JSON summary, a sweep's JSON lines, or its Parquet table of requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headway.bench.quantiles import Floats, distribution
from headway.bench.results import MAX_JSON_BYTES, ResultError
from headway.bench.run import KIND
from headway.bench.slo import limits_said
from headway.report.agreement import of_simulation
from headway.report.cases import LEVEL_NAMES, Case, Figure

_SPREADS = ("ttft_s", "tpot_s", "itl_s", "e2e_s", "interactivity_tokens_per_s")
_RATES = {
    "requests_per_s": "requests_per_s",
    "output_tokens_per_s": "output_tokens_per_s",
    "goodput_requests_per_s": "goodput_requests_per_s",
    "goodput_tokens_per_s": "goodput_tokens_per_s",
    "goodput_share": "slo_share",
    "hit_rate": "cached_share",
}
_DESCRIBED = (
    "label",
    "workload",
    "seed",
    "concurrency",
    "rate_per_s",
    "speed",
    "model",
    "system",
    "chip",
    "chips",
    "replicas",
    "router",
    "cost_model",
)
_GROUPS = ("workload_options", "slo")
_COUNTS = ("finished", "cut_at_limit")
_COLUMNS = ("ttft_s", "tpot_s", "e2e_s")


def read_simulated(path: Path, table: Path | None = None) -> list[Case]:
    """One case a summary; `table`: the requests of the only one. Raises ResultError."""
    if path.suffix == ".parquet":
        return [_from_table(path)]
    data = _decoded(path)
    if isinstance(data, dict) and data.get("kind") == KIND:
        raise ResultError(f"{path}: a result of headway bench: name the directory that it lies in")
    found = _summaries(data)
    if not found:
        raise ResultError(f"{path}: no summary of a simulation in it (one with ttft_s and tpot_s)")
    cases = [_from_summary(path, summary, around) for summary, around in found]
    if table is None:
        return cases
    if len(cases) > 1:
        raise ResultError(f"{table}: there are {len(cases)} summaries in {path.name}, and one table of requests")
    return [replace(cases[0], samples=_from_table(table).samples)]


def _decoded(path: Path) -> Any:
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise ResultError(f"{path}: larger than {MAX_JSON_BYTES} bytes")
        text = path.read_bytes()
        return msgspec.json.Decoder().decode_lines(text) if path.suffix == ".jsonl" else msgspec.json.decode(text)
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ResultError(f"{path}: not JSON: {error}") from None


def _summaries(data: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(summary, what stands around it): at the top, below any key, or in lists of these."""
    if isinstance(data, list):
        return [found for item in data for found in _summaries(item)]
    if not isinstance(data, dict):
        return []
    around = {name: data[name] for name in _DESCRIBED if isinstance(data.get(name), str | int | float)}
    around |= {name: data[name] for name in _GROUPS if isinstance(data.get(name), dict)}
    if isinstance(data.get("ttft_s"), dict) and isinstance(data.get("tpot_s"), dict):
        return [(data, around)]
    found = [pair for value in data.values() for pair in _summaries(value)]
    return [(summary, around | outer) for summary, outer in found]


def _from_summary(path: Path, summary: dict[str, Any], around: dict[str, Any]) -> Case:
    spreads: dict[str, dict[str, Figure]] = {}
    for key in _SPREADS:
        value = summary.get(key)
        if isinstance(value, dict):
            spreads[key] = {name: Figure(float(x)) for name, x in value.items() if _is_number(x)}
        elif _is_number(value):
            spreads[key] = {"p50": Figure(float(value))}
    refused = summary.get("refused")
    outcomes = {name: n for name in _COUNTS if isinstance(n := summary.get(name), int)}
    outcomes |= {name: n for name, n in refused.items() if isinstance(n, int)} if isinstance(refused, dict) else {}
    options, slo = (around.pop(name, None) for name in _GROUPS)
    return Case(
        label=_label(around) or path.stem,
        load=_load(around),
        kind="simulated",
        spreads={key: spread for key, spread in spreads.items() if spread},
        rates=_rates(summary),
        outcomes=outcomes,
        warnings=("interrupted: what was done by then",) if summary.get("interrupted") is True else (),
        facts={"simulated": ", ".join(f"{name} {value}" for name, value in around.items()) or str(path)},
        requests=of_simulation(summary, around, options),
        slo=None if slo is None else limits_said(slo),
    )


def _rates(summary: dict[str, Any]) -> dict[str, float]:
    rates = {ours: float(summary[theirs]) for theirs, ours in _RATES.items() if _is_number(summary.get(theirs))}
    time_s, prompts, outputs = (summary.get(name) for name in ("duration_s", "input_tokens", "output_tokens"))
    if _is_number(time_s) and _is_number(prompts) and _is_number(outputs) and time_s > 0:
        rates["total_tokens_per_s"] = (prompts + outputs) / time_s
    return rates


def _from_table(path: Path) -> Case:
    try:
        table = pq.read_table(path, columns=["reason", *_COLUMNS, "arrival_s", "output_tokens"])
    except OSError as error:
        raise ResultError(f"{path}: {error.strerror or 'not Parquet'}") from None
    except (pa.ArrowException, ValueError) as error:
        raise ResultError(f"{path}: not a table of simulated requests: {str(error).splitlines()[0]}") from None
    reasons = np.asarray(table["reason"].to_pylist())
    good = np.isin(reasons, ("stop", "length"))
    columns = {name: table[name].to_numpy()[good] for name in (*_COLUMNS, "arrival_s", "output_tokens")}
    samples: dict[str, Floats] = {"ttft_s": columns["ttft_s"], "e2e_s": columns["e2e_s"]}
    samples["tpot_s"] = columns["tpot_s"][columns["output_tokens"] > 1]
    samples = {name: np.sort(values) for name, values in samples.items() if values.size}
    spreads: dict[str, dict[str, Figure]] = {}
    for name, values in samples.items():
        if (spread := distribution(values)) is not None:
            spreads[name] = {"mean": Figure(spread.mean), "max": Figure(spread.max)}
            spreads[name] |= {LEVEL_NAMES[q.level]: Figure(q.value) for q in spread.quantiles}
    rates: dict[str, float] = {}
    if good.any() and (time_s := _duration_s(columns)) > 0:
        rates["requests_per_s"] = float(good.sum()) / time_s
        rates["output_tokens_per_s"] = float(columns["output_tokens"].sum()) / time_s
    names, counts = np.unique(reasons, return_counts=True)
    outcomes = dict(zip(names.tolist(), counts.tolist(), strict=True))
    return Case(path.stem, "", "simulated", spreads, rates, samples, outcomes=outcomes, facts={"simulated": str(path)})


def _duration_s(columns: dict[str, Floats]) -> float:
    return float((columns["arrival_s"] + columns["e2e_s"]).max() - columns["arrival_s"].min())


def _label(around: dict[str, Any]) -> str:
    if around.get("label") or "chip" not in around:
        return str(around.get("label") or around.get("model") or "")
    return f"{around.get('model')} on {around.get('chips')} x {around['chip']}"


def _load(around: dict[str, Any]) -> str:
    if _is_number(around.get("concurrency")):
        return f"concurrency {around['concurrency']}"
    rate = around.get("rate_per_s")
    return f"{rate:g}/s" if _is_number(rate) else ""


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
