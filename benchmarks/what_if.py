"""Does a fork of a logged run predict what the real engine does when the same thing is changed?

    python benchmarks/what_if.py [--requests 30] [--rate 0.6] [--logs FOLDER] [--json]

One trace runs twice on the real server as it is, and once with each change: no prefix cache, small chunks, few running
requests. From the log of the first run alone, `headway simulate --replay LOG --with CHANGE` predicts the difference of
mean TTFT and TPOT. It holds if it is off by at most 20% of the measured difference, with the same sign, or by no more
than the two equal runs differ. Times are the engine's own, from its step logs. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from headway.engine.model_store import resolve_model
from headway.scheduler.receipt import Receipt
from headway.simulator.what_if import Run, WhatIf, parse_changes, read_logged, what_if
from serving.trace_runs import Trace, make_trace, plain_tokens, real_run

BASE = ("--max-running", "32", "--max-step-tokens", "256")
CHANGES = {
    "prefix_cache=off": ("--no-prefix-cache",),
    "chunk=32": ("--max-step-tokens", "32"),
    "max_running=2": ("--max-running", "2"),
}
ALLOWED = 0.2
Means = dict[str, float]


def measured(directory: Path, trace: Trace, log: Path, *options: str) -> Means:
    real_run(directory, trace, log, *BASE, *options)
    receipts = list(read_logged(log).receipts.values())
    return {"ttft_s": _mean(receipts, "ttft_ns"), "tpot_s": _mean(receipts, "tpot_ns")}


def _mean(receipts: list[Receipt], name: str) -> float:
    return sum(getattr(receipt, name) for receipt in receipts) / len(receipts) / 1e9


def predicted(found: WhatIf) -> Means:
    def mean(run: Run, name: str) -> float:
        value: float = getattr(run, name).mean
        return value

    return {name: mean(found.changed, name) - mean(found.simulated, name) for name in ("ttft_s", "tpot_s")}


def row(change: str, name: str, base: list[float], after: float, foreseen: float) -> dict[str, Any]:
    real = after - sum(base) / len(base)
    noise = abs(base[0] - base[1])
    holds = abs(foreseen - real) <= max(noise, ALLOWED * abs(real))
    return {
        "change": change, "metric": name, "before": base, "after": after, "measured": real,
        "predicted": foreseen, "noise": noise, "holds": holds,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a directory, .gguf file or hub id; the default model without it")
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--rate", type=float, default=0.6, help="requests a second")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep the step logs there")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    directory = resolve_model(options.model)
    trace = make_trace(plain_tokens(directory), options.requests, options.rate, options.seed)
    with tempfile.TemporaryDirectory(prefix="headway-what-if-") as name:
        folder = options.logs or Path(name)
        folder.mkdir(exist_ok=True)
        base = [measured(directory, trace, folder / f"base-{n}.jsonl") for n in (1, 2)]
        rows = []
        for change, arguments in CHANGES.items():
            after = measured(directory, trace, folder / f"{change}.jsonl", *arguments)
            foreseen = predicted(what_if(folder / "base-1.jsonl", parse_changes(change), _no_system))
            rows += [row(change, m, [b[m] for b in base], after[m], foreseen[m]) for m in ("ttft_s", "tpot_s")]
    if options.json:
        print(json.dumps({"load_average": os.getloadavg()[0], "rows": rows}))
        return
    print(f"load average {os.getloadavg()[0]:.2f}; ms of the mean")
    print(f"{'':24}{'before':>18}{'after':>9}{'measured':>10}{'predicted':>10}{'noise':>8}")
    for r in rows:
        before = "".join(f"{s * 1e3:9.1f}" for s in r["before"])
        rest = (
            f"{r['after'] * 1e3:9.1f}{r['measured'] * 1e3:+10.1f}{r['predicted'] * 1e3:+10.1f}{r['noise'] * 1e3:8.1f}"
        )
        print(f"{r['change']:17} {r['metric'][:4]}  {before}{rest}{'' if r['holds'] else '  fails'}")


def _no_system(name: str, max_step_tokens: int) -> Any:
    raise AssertionError(f"no change here is to a system of {max_step_tokens} tokens a step, and {name} is none")


if __name__ == "__main__":
    main()
