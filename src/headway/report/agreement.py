"""Whether two cases are of the same requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from headway.bench.metrics import ended_early
from headway.bench.record import Record
from headway.bench.run import Run

Differences = dict[str, tuple[Any, Any]]
"""By name: here, there."""
FEW = 0.05
"""Share of answers that may end before the length that was asked for, and the requests are still the same."""
LOAD = ("concurrency", "rate_per_s", "speed")
AS_RECORDED: Mapping[str, Any] = {"speed": 1.0, "think": 1.0, "duration_s": None}
"""What these are where they change nothing."""
_OFF_UNLESS_SAID = frozenset(
    {"trace_sha256", "requests", "prefix_tokens", "sub_agents", "fork", "think_by_hour", "max_context"}
)
_NOT_COMPARED = frozenset({"hash_block_size", "trace"})
"""A trace is told by its content."""


@dataclass(frozen=True, slots=True)
class Requests:
    """What was asked for, as far as a result tells: the model's name, the options of workload and load (all of them if
    `is_whole`), and totals of requests and tokens.
    """

    model: str = ""
    made_of: Mapping[str, Any] = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)
    is_whole: bool = False

    def differ(self, other: Requests) -> Differences:
        """By name, what differs here and there. Totals only where nothing that makes them does."""
        found: Differences = {}
        if self.model and other.model and not same_model(self.model, other.model):
            found["model"] = (self.model, other.model)
        found |= self.made_differ(other)
        return found if found.keys() - {"model"} else found | _apart(self.totals, other.totals, ())

    def made_differ(self, other: Requests) -> Differences:
        """Model and totals aside."""
        optional = _OFF_UNLESS_SAID | AS_RECORDED.keys() if self.is_whole and other.is_whole else ()
        return _apart(_compared(self.made_of), _compared(other.made_of), optional)

    def untold(self) -> list[str]:
        """What cannot be compared."""
        names = {"model": self.model, "seed": "seed" in self.made_of, "arrivals and lengths": self.is_whole}
        return [name for name, told in names.items() if not told]

    def load(self) -> tuple[Any, ...] | None:
        """None: it tells none."""
        load = tuple(self.made_of.get(name, AS_RECORDED.get(name)) for name in LOAD)
        return load if load[:2] != (None, None) else None


def _compared(made_of: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in made_of.items() if key not in _NOT_COMPARED}


def _apart(ours: Mapping[str, Any], theirs: Mapping[str, Any], optional: Collection[str]) -> Differences:
    """What only one side tells differs if it is one of `optional`, where silence says that it is off."""
    names = [name for name in {**ours, **theirs} if name in optional or (name in ours and name in theirs)]
    pairs = {name: (_told(ours, name), _told(theirs, name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _told(fields: Mapping[str, Any], name: str) -> Any:
    value = fields.get(name, AS_RECORDED.get(name))
    return None if value is False or (value == 0 and name in _OFF_UNLESS_SAID) else value


def same_model(ours: str, theirs: str) -> bool:
    """By what servers and catalogs call it: without owner, case and punctuation, one may say more than the other."""
    a, b = (_folded(name) for name in (ours, theirs))
    return bool(a and b) and (a in b or b in a)


def _folded(name: str) -> str:
    return "".join(c for c in name.rstrip("/").rpartition("/")[2].lower() if c.isalnum())


def of_run(run: Run, records: Sequence[Record]) -> Requests:
    """`records` empty: without totals of tokens."""
    load = {key: value for key, value in run.load.items() if key in ("concurrency", *AS_RECORDED) and value is not None}
    totals = {"requests": run.summary.num_requests + run.summary.abandoned_calls}
    if records and not run.summary.abandoned_calls:
        totals["prompt tokens"] = sum(record.asked_input_tokens for record in records)
        totals["output tokens"] = sum(map(_output_tokens(records), records))
    return Requests(run.endpoint.model, run.workload | load, totals, is_whole=True)


def _output_tokens(records: Sequence[Record]) -> Callable[[Record], int]:
    """As many as were asked for, unless more than a few answers ended before."""
    many = sum(map(ended_early, records)) > FEW * len(records)
    return lambda record: record.output_tokens if many and ended_early(record) else record.asked_output_tokens


def of_simulation(summary: Mapping[str, Any], around: Mapping[str, Any], options: Any) -> Requests:
    """`around`: what is told beside the summary; `options`: those of its workload, where it has them."""
    made_of: dict[str, Any] = {key: around[key] for key in ("seed", *LOAD) if around.get(key) is not None}
    if isinstance(around.get("workload"), str):
        made_of["name"] = around["workload"]
    is_whole = isinstance(options, dict)
    # Refused calls are among the calls, and their tokens in no total.
    keys = {"requests": "calls"}
    keys |= {} if summary.get("refused") else {"prompt tokens": "input_tokens", "output tokens": "output_tokens"}
    totals = {name: number for name, key in keys.items() if isinstance(number := summary.get(key), int)}
    return Requests(str(around.get("model") or ""), (options if is_whole else {}) | made_of, totals, is_whole)


def said(differences: Differences, ours: str, theirs: str) -> str:
    """In one line: `seed (measured 0, simulated 1), …`."""
    return ", ".join(
        f"{name.replace('_', ' ')} ({ours} {word(a)}, {theirs} {word(b)})" for name, (a, b) in differences.items()
    )


def word(value: Any) -> str:
    """Of a digest only its beginning."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value[:12] + "…" if len(value) == 64 else value
    return (
        f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else msgspec.json.encode(value).decode()
    )
