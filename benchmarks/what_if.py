"""Does a fork of a logged run predict what the real engine does when the same thing is changed?

    python benchmarks/what_if.py [--requests 30] [--rate 0.6] [--rounds 2] [--logs FOLDER] [--json]

A round runs one trace on the real server as it is, and once with each change: no prefix cache, small chunks, few
running requests. Every other round goes backwards, so that a machine that becomes slower does so for all. From the log
of a round's run as it is, and from nothing else, `headway simulate --replay LOG --with CHANGE` predicts the differences
of mean TTFT and TPOT in that round. Measured and predicted are means over rounds. It holds if it is off by at most 20%
of the measured difference, with the same sign, or by no more than what is measured in equal rounds differs.

A busy machine changes its speed from run to run: `slower` says how much longer the changed run's decodes took than
those of as many rows in the run as it is.

Times are the engine's own, from its step logs. Nothing else should run meanwhile. Logs that FOLDER has already are not
made again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import mean, median
from typing import Any

from headway.engine.model_store import resolve_model
from headway.simulator.changes import parse_changes
from headway.simulator.logged_run import read_logged
from headway.simulator.recorded import LoggedStep
from headway.simulator.what_if import Run, what_if
from serving.trace_runs import make_trace, plain_tokens, real_run

BASE = ("--max-running", "32", "--max-step-tokens", "256")
CHANGES = {
    "prefix_cache=off": ("--no-prefix-cache",),
    "chunk=32": ("--max-step-tokens", "32"),
    "max_running=2": ("--max-running", "2"),
}
METRICS = ("ttft_s", "tpot_s")
ALLOWED = 0.2
Means = dict[str, float]


def log_of(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}-{number}.jsonl"


def run_missing(folder: Path, rounds: int, run: Callable[..., None]) -> None:
    """A log appears under its name when it is whole."""
    for number in range(1, rounds + 1):
        names = ["base", *CHANGES]
        for name in names if number % 2 else reversed(names):
            log = log_of(folder, name, number)
            if not log.exists():
                part = log.with_suffix(".part")
                run(part, *CHANGES.get(name, ()))
                part.rename(log)


@cache
def measured(log: Path) -> Means:
    receipts = read_logged(log).receipts.values()
    return {"ttft_s": mean(r.ttft_ns for r in receipts) / 1e9, "tpot_s": mean(r.tpot_ns for r in receipts) / 1e9}


@dataclass(frozen=True)
class Round:
    """Of one change."""

    before: Means
    simulated: Means
    after: Means
    predicted: Means
    slower: float


def a_round(folder: Path, change: str, number: int) -> Round:
    base, changed = log_of(folder, "base", number), log_of(folder, change, number)
    fork = what_if(base, parse_changes(change))
    return Round(
        before=measured(base),
        simulated=_means(fork.simulated),
        after=measured(changed),
        predicted=_means(fork.changed),
        slower=slower(read_logged(base).steps, read_logged(changed).steps),
    )


def slower(base: Sequence[LoggedStep], changed: Sequence[LoggedStep]) -> float:
    """Ratio of medians by number of rows, each number with as much weight as it has steps in both."""
    logs, total = 0.0, 0
    times = [_decodes(steps) for steps in (base, changed)]
    for rows in times[0].keys() & times[1].keys():
        weight = min(len(each[rows]) for each in times)
        was, became = (median(each[rows]) for each in times)
        logs += weight * math.log(became / was)
        total += weight
    return math.exp(logs / total) if total else 1.0


def _decodes(steps: Sequence[LoggedStep]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for step in steps:
        if step.tokens == step.sequences:
            found.setdefault(step.sequences, []).append(step.device_ns)
    return found


def _means(run: Run) -> Means:
    return {"ttft_s": run.ttft_s.mean, "tpot_s": run.tpot_s.mean}


def row(change: str, metric: str, rounds: list[Round]) -> dict[str, Any]:
    def average(name: str) -> float:
        return mean(getattr(each, name)[metric] for each in rounds)

    differences = [each.after[metric] - each.before[metric] for each in rounds]
    real = mean(differences)
    foreseen = average("predicted") - average("simulated")
    noise = mean(abs(a - b) for a, b in combinations(differences, 2)) if len(rounds) > 1 else 0.0
    return {
        "change": change,
        "metric": metric,
        "before": average("before"),
        "simulated": average("simulated"),
        "after": average("after"),
        "measured": real,
        "predicted": foreseen,
        "noise": noise,
        "holds": abs(foreseen - real) <= max(noise, ALLOWED * abs(real)),
        "slower": mean(each.slower for each in rounds) - 1,
    }


def table(folder: Path, rounds: int) -> list[dict[str, Any]]:
    found = []
    for change in CHANGES:
        all_rounds = [a_round(folder, change, number) for number in range(1, rounds + 1)]
        found += [row(change, metric, all_rounds) for metric in METRICS]
    return found


def show(found: list[dict[str, Any]]) -> None:
    plain, signed = ("before", "simulated", "after", "noise"), ("measured", "predicted")
    print(f"load average {os.getloadavg()[0]:.2f}; ms of the mean")
    print(" " * 23 + "".join(f"{name:>10}" for name in (*plain, *signed, "slower")))
    for each in found:
        values = "".join(f"{each[name] * 1e3:10.1f}" for name in plain)
        values += "".join(f"{each[name] * 1e3:+10.1f}" for name in signed)
        values += f"{each['slower']:+10.1%}{'' if each['holds'] else '  fails'}"
        print(f"{each['change']:17} {each['metric'][:4]} {values}")
    print(f"{sum(each['holds'] for each in found)} of {len(found)} hold")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a directory, .gguf file or hub id; the default model without it")
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--rate", type=float, default=0.6, help="requests a second")
    parser.add_argument("--rounds", type=int, default=2, help="one tells no noise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep the step logs there")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, not {options.rounds}")

    def run(log: Path, *arguments: str) -> None:
        directory = resolve_model(options.model)
        trace = make_trace(plain_tokens(directory), options.requests, options.rate, options.seed)
        real_run(directory, trace, log, *BASE, *arguments)

    with tempfile.TemporaryDirectory(prefix="headway-what-if-") as name:
        folder = options.logs or Path(name)
        folder.mkdir(exist_ok=True)
        run_missing(folder, options.rounds, run)
        found = table(folder, options.rounds)
    if options.json:
        print(json.dumps({"load_average": os.getloadavg()[0], "rows": found}))
    else:
        show(found)


if __name__ == "__main__":
    main()
