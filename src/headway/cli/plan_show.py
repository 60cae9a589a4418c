"""Any report as JSON, or as text: its keys say the units, so one way of showing serves every question."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import click

from headway.cli.plan_notes import noted
from headway.cli.si import si, size

_UNITS = (
    ("bytes_per_s", "B/s"),
    ("flops_per_byte", "FLOP/B"),
    ("flops_per_s", "FLOP/s"),
    ("flops", "FLOP"),
    ("chip_s_per_request", "s"),
    ("chip_s", "s"),
    ("_wh", "Wh"),
    ("_w", "W"),
    ("_j", "J"),
    ("_params", ""),
    ("_params_low", ""),
    ("_params_high", ""),
)
_LAST = ("formulas", "assumptions", "uncertain")
_TITLES = {"formulas": "by", "assumptions": "assuming", "uncertain": "uncertain"}
_WIDTH = 42


def show(report: Any, as_json: bool) -> None:
    """NaN and infinity would be no JSON."""
    if not is_dataclass(report) or isinstance(report, type):
        raise TypeError("a report is a dataclass")
    report = noted(report)
    if as_json:
        click.echo(json.dumps(asdict(report), allow_nan=False))
        return
    for line in lines(report):
        click.echo(line)


def lines(report: Any) -> Iterator[str]:
    """Single values first, then tables, then what it rests on."""
    values = {f.name: getattr(report, f.name) for f in fields(report) if f.name not in _LAST}
    tables = {name: value for name, value in values.items() if _is_table(value)}
    yield from _pairs({name: value for name, value in values.items() if name not in tables})
    for name, rows in tables.items():
        yield f"\n{_words(name)}"
        yield from _table(rows)
    for name in _LAST:
        if said := getattr(report, name, ()):
            yield f"\n{_TITLES[name]}"
            yield from (f"  - {line}" for line in said)


def quantity(name: str, value: Any) -> str:
    """A value under a key that says its unit."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value.replace("_", " ") if name == "bound" else value
    if "bytes_per_s" not in name and ("bytes" in name or name.endswith("_bytes")):
        return size(value)
    for ending, unit in _UNITS:
        if name.endswith(ending):
            return si(value, unit).strip()
    if name.endswith("_s") and not name.endswith("per_s"):
        return si(value, "s") if value else "0 s"
    unit = " USD" if name.startswith("usd") or "_usd" in name else ""
    if isinstance(value, int):
        return f"{value:,}{unit}"
    # Four digits would be followed by an exponent.
    return si(value, unit.strip()).strip() if abs(value) >= 9999.5 else f"{value:.4g}{unit}"


def _pairs(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        if is_dataclass(value) and not isinstance(value, type):
            yield f"  {prefix}{_words(name)}"
            yield from _pairs({f.name: getattr(value, f.name) for f in fields(value)}, prefix + "  ")
        elif isinstance(value, Mapping):
            yield f"  {prefix}{_words(name)}"
            for key, item in value.items():
                yield f"  {prefix}  {_words(key):{_WIDTH - 2}} {quantity(name, item)}"
        else:
            yield f"  {prefix}{_words(name):{_WIDTH - len(prefix)}} {quantity(name, value)}"


def _table(rows: Sequence[Any]) -> Iterator[str]:
    if not rows:
        yield "  none"
        return
    names = [f.name for f in fields(rows[0]) if not isinstance(getattr(rows[0], f.name), tuple)]
    cells = [[quantity(name, getattr(row, name)) for name in names] for row in rows]
    heads = [_words(name) for name in names]
    widths = [max(len(head), *(len(line[i]) for line in cells)) for i, head in enumerate(heads)]
    for line in [heads, *cells]:
        yield "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()


def _is_table(value: Any) -> bool:
    return isinstance(value, tuple) and all(is_dataclass(row) for row in value)


def _words(name: str) -> str:
    """Without the unit, which stands beside the value; of chips it is part of the name."""
    name = re.sub(r"chip_s(?=_|$)", "chip-seconds", name)
    for ending in () if name.endswith("per_s") else ("_bytes", "_flops", "_j", "_wh", "_w", "_s"):
        if name.endswith(ending):
            name = name.removesuffix(ending)
    return name.replace("_", " ")
