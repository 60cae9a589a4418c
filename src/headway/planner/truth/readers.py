"""The two kinds of data files that a fit reads: a table of points with their sources, and ML.ENERGY's runs."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.catalog import Catalog
from headway.planner.truth.aliases import engine_name, model_name, system_name, weights_name
from headway.planner.truth.layout import layouts, parted, replicas
from headway.planner.truth.measurement import MAX_ROWS, DataError, Layout, Measurement, Metric

MAX_BYTES = 200_000_000
POINTS: tuple[str, ...] = (
    "source",
    "hardware",
    "n_gpu",
    "engine",
    "model",
    "precision",
    "tp",
    "ep",
    "pp",
    "isl",
    "osl",
)
POINTS += ("concurrency_or_batch", "metric", "value", "unit", "url_or_path")
RUNS = ("model", "task", "gpu", "tp", "ep", "dp", "weights", "avg_batch", "avg_out_len", "median_itl_ms")
PROMPT_TOKENS = {"lm-arena-chat": 250, "gpqa": 350}
"""Assumed: the runs' files state output lengths only."""
_METRICS: dict[str, tuple[Metric, bool]] = {
    "tpot": ("tpot", False),
    "ttft": ("ttft", False),
    "median_tpot": ("tpot", False),
    "median_ttft": ("ttft", False),
    "token_time": ("tpot", True),
    "prompt_time": ("ttft", True),
}
"""Which metric, and whether it is that of one batch alone."""
_SECONDS = {"s": 1.0, "ms": 1e-3}


@dataclass(frozen=True, slots=True)
class DataFile:
    name: str
    sha256: str
    rows: int
    """Of any metric."""
    asked: int
    """TPOT or TTFT, of machines that run as sold."""
    answered: int
    """Of those, rows whose machine, model and lengths are known well enough to be priced."""
    measurements: tuple[Measurement, ...]
    """Each configuration and value once."""


def read_data(path: Path, catalog: Catalog) -> DataFile:
    """Raises DataError, naming the file and the row."""
    content = _content(path)
    try:
        reader = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        header = reader.fieldnames or []
        columns = POINTS if "metric" in header else RUNS
        missing = [name for name in columns if name not in header]
        if missing:
            raise DataError(f"{path}, line 1: column {missing[0]} is missing; needed: {','.join(columns)}")
        rows = asked = answered = 0
        found: dict[tuple[object, ...], Measurement] = {}
        for row in reader:
            rows += 1
            where = f"{path.name}, line {reader.line_num}"
            if rows > MAX_ROWS:
                raise DataError(f"{where}: more than {MAX_ROWS} rows")
            if None in row or None in row.values():
                raise DataError(f"{where}: {len(header)} cells are needed")
            is_asked, made = _point(row, where, catalog) if columns is POINTS else _run(row, where, catalog)
            asked += is_asked
            if made is not None:
                answered += 1
                found[run_of(made)] = max(found.get(run_of(made), made), made, key=_described)
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not readable as UTF-8 CSV: {error}") from None
    return DataFile(path.name, hashlib.sha256(content).hexdigest(), rows, asked, answered, tuple(found.values()))


def read_all(paths: Sequence[Path], catalog: Catalog) -> tuple[DataFile, ...]:
    return tuple(read_data(path, catalog) for path in paths)


def _content(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, EOFError) as error:
        raise DataError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_BYTES:
        raise DataError(f"{path}: larger than {MAX_BYTES} bytes")
    return content


def _point(row: dict[str, str], where: str, catalog: Catalog) -> tuple[bool, Measurement | None]:
    """(whether it is a metric that the model answers, the measurement if its names and lengths are known)."""
    if row["metric"] not in _METRICS:
        return False, None
    metric, alone = _METRICS[row["metric"]]
    if row["unit"] not in _SECONDS:
        raise DataError(f"{where}: unit {row['unit']!r} of {row['metric']} must be one of {', '.join(_SECONDS)}")
    value_s = _positive(row["value"], "value", where) * _SECONDS[row["unit"]]
    if row["hardware"].endswith("pcap"):
        return False, None  # Power capped on purpose: another machine than the datasheet's.
    system, model = system_name(row["hardware"], catalog), model_name(row["model"], catalog)
    cut = layouts(row["tp"], row["ep"], row["pp"], row["n_gpu"])
    if cut is not None and row["tp"].isdigit() and row["source"].startswith("InferenceX"):
        cut = parted(cut[0])
    lengths = [row[name] for name in ("isl", "osl", "concurrency_or_batch")]
    if system is None or model is None or cut is None or not all(text.isdigit() for text in lengths):
        return True, None
    weights = weights_name(row["precision"], row["model"])
    if weights is None:
        return True, None
    prompt, output, concurrency = (_whole(text, where) for text in lengths)
    release = row["engine"]
    apart = "disagg" in release or cut[0] != cut[1]
    prompt_replicas, decode_replicas = (replicas(row["n_gpu"], *cut) if apart else None) or (None, None)
    return True, Measurement(
        row["source"],
        system[0],
        engine_name(release),
        release,
        model,
        weights,
        *cut,
        apart,
        prompt,
        output,
        concurrency,
        metric,
        value_s,
        where,
        prompt_replicas,
        decode_replicas,
        stated=system[1],
        batch=alone,
    )


def _run(row: dict[str, str], where: str, catalog: Catalog) -> tuple[bool, Measurement | None]:
    system, model = system_name(row["gpu"], catalog), model_name(row["model"], catalog)
    weights = weights_name(row["weights"], row["model"])
    value_s = _positive(row["median_itl_ms"], "median_itl_ms", where) / 1000
    batch = max(1, round(_positive(row["avg_batch"], "avg_batch", where)))
    output = max(1, round(_positive(row["avg_out_len"], "avg_out_len", where)))
    cuts = [_whole(row[name], where) for name in ("tp", "ep", "dp")]
    if system is None or model is None or weights is None or row["task"] not in PROMPT_TOKENS:
        return True, None
    tensor, expert, data = cuts
    one = Layout(max(tensor, expert), expert, data)
    return True, Measurement(
        "ML.ENERGY",
        system[0],
        "vllm",
        "vllm 0.11.1",
        model,
        weights,
        one,
        one,
        False,
        PROMPT_TOKENS[row["task"]],
        output,
        batch,
        "tpot",
        value_s,
        where,
        median_gap=True,
    )


def run_of(m: Measurement) -> tuple[object, ...]:
    """The same of two measurements of one run: sources repeat one another's, rounded to hundredths of a millisecond,
    and name the release more or less exactly.
    """
    configuration = (m.system, m.engine, m.model, m.weights, m.prompt_tokens, m.output_tokens)
    alone = (m.prefill, m.decode, round(m.value_s, 7)) if m.batch or m.median_gap else ()
    return (*configuration, *alone, m.concurrency, m.metric, round(m.value_s, 5))


def _described(m: Measurement) -> tuple[bool, bool, bool]:
    """How much is said of the same run: the one with more is kept, and of equals the first."""
    return m.decode_replicas is not None, m.decode.expert > 1, m.source.startswith("InferenceX")


def _positive(text: str, column: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise DataError(f"{where}: {column} {text!r} must be a number above 0")
    return value


def _whole(text: str, where: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 100_000_000:
        raise DataError(f"{where}: {text!r} must be a whole number above 0")
    return int(text)
