"""The format of the Azure LLM inference traces: CSV of TIMESTAMP, ContextTokens, GeneratedTokens."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from headway.workload.call import Call, Session, Workload, WorkloadError, in_order
from headway.workload.lines import read_lines, where

HEADER = b"TIMESTAMP,ContextTokens,GeneratedTokens"
MAX_TOKENS = 1 << 31


def read_azure(path: Path) -> Workload:
    """Times count from the first row. Rows that generated 0 tokens are taken as 1. Raises WorkloadError when a bad row
    is reached.
    """
    rows: list[int] = [0]
    return Workload("azure", in_order(_sessions(path, rows), lambda _: where(path, rows[0])))


def _sessions(path: Path, current: list[int]) -> Iterator[Session]:
    lines = read_lines(path)
    number, header = next(lines, (1, b""))
    if header.strip().removeprefix(b"\xef\xbb\xbf") != HEADER:
        raise WorkloadError(f"{where(path, number)}: the first line must be {HEADER.decode()}")
    first: float | None = None
    for number, line in lines:
        current[0] = number
        cells = line.decode("utf-8", "replace").strip().split(",")
        if len(cells) != 3:
            raise WorkloadError(f"{where(path, number)}: {len(cells)} fields where there should be 3")
        seconds = _seconds(cells[0], where(path, number))
        first = seconds if first is None else first
        if seconds < first:
            raise WorkloadError(f"{where(path, number)}: TIMESTAMP is before that of the first row")
        context = _tokens(cells[1], 1, f"{where(path, number)}: ContextTokens")
        generated = _tokens(cells[2], 0, f"{where(path, number)}: GeneratedTokens")
        arrival_s = round(seconds - first, 7)
        yield (Call(str(number), context, max(1, generated), arrival_s=arrival_s, was_empty=not generated),)
    if first is None:
        raise WorkloadError(f"{where(path, number + 1)}: the trace is empty")


def _seconds(text: str, place: str) -> float:
    """The file has seven decimals, of which `fromisoformat` would drop the last."""
    whole, _, fraction = text.partition(".")
    try:
        moment = datetime.fromisoformat(whole)
        part = float(f"0.{fraction}") if fraction.isascii() and fraction.isdecimal() else None if fraction else 0.0
    except ValueError:
        part = None
    if part is None:
        raise WorkloadError(f"{place}: TIMESTAMP {text[:40]!r} is no date and time")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() + part


def _tokens(text: str, least: int, place: str) -> int:
    if not (text.isascii() and text.isdecimal() and least <= int(text[:12]) <= MAX_TOKENS):
        raise WorkloadError(f"{place} must be a whole number from {least} to {MAX_TOKENS:,}, not {text[:40]!r}")
    return int(text)
