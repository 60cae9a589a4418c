"""One trace twice on the real server, and once in the simulator, which knows the machine from a machine file alone.

    python benchmarks/parity.py [--machine FILE] [--requests 40] [--rate 0.5] [--json]

Without --machine, `headway calibrate` is run first. The trace says when requests arrive, the ids of their prompts'
tokens (half of the prompts begin alike) and how many tokens the answers have. Times are the client's: from the moment a
request is due to its first text, and from there to its end. Each run has a server of its own, whose step log must
replay to the same plans. A figure agrees if the simulation is off by at most 15% of the mean of the two real runs, or
by at most the spread between them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from headway.arithmetic.formats import precision
from headway.arithmetic.hf_config import shape_from_config
from headway.catalog.machine import MachineFile, machine_fit, machine_system, read_machine
from headway.engine.model_store import resolve_model
from headway.simulator.record import Record
from headway.simulator.results import Quantiles, quantiles
from headway.simulator.simulation import Setup, simulate
from serving.headway_server import HEADWAY
from serving.trace_runs import Trace, make_trace, plain_tokens, real_run

ALLOWED = 0.15


def simulated_run(machine: MachineFile, trace: Trace) -> dict[str, Quantiles]:
    served, form = machine.served, machine.number_format
    setup = Setup(
        shape_from_config(machine.config),
        machine_system("machine", machine),
        precision(form, form),
        calibration=machine_fit(machine),
        block_size=served.block_size,
        num_blocks=served.num_blocks,
        max_running=served.max_running,
        max_step_tokens=served.max_step_tokens,
        max_context=served.max_context,
    )
    done = Kept()
    simulate(setup, trace.workload, sink=done)
    return {
        "ttft_s": quantiles((r.receipt.ttft_ns for r in done.records), 1e-9),
        "tpot_s": quantiles((r.receipt.tpot_ns for r in done.records), 1e-9),
    }


@dataclass
class Kept:
    records: list[Record] = field(default_factory=list)

    def add(self, record: Record) -> None:
        self.records.append(record)


def compared(runs: list[dict[str, Quantiles]], simulated: dict[str, Quantiles]) -> list[dict[str, Any]]:
    """A row for each figure: seconds of each run, the simulation's error against their mean, the runs' spread."""
    rows = []
    for metric in ("ttft_s", "tpot_s"):
        for which in ("mean", "p50", "p99"):
            first, second = (getattr(run[metric], which) for run in runs)
            ours, mean = getattr(simulated[metric], which), (first + second) / 2
            error, spread = ours / mean - 1, abs(first - second) / mean
            row = {"metric": metric, "which": which, "real_1": first, "real_2": second, "simulated": ours}
            rows.append(row | {"error": error, "spread": spread, "agrees": abs(error) <= max(ALLOWED, spread)})
    return rows


def calibrated(path: Path | None, model: str | None, folder: Path) -> MachineFile:
    if path is None:
        path = folder / "machine.json"
        named = [model] if model else []
        subprocess.run([*HEADWAY, "calibrate", *named, "--out", str(path)], check=True, stdout=sys.stderr)
    return read_machine(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a directory, .gguf file or hub id; the default model without it")
    parser.add_argument("--machine", type=Path, help="a file of headway calibrate, of this model on this machine")
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--rate", type=float, default=0.5, help="requests a second")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a directory for the step logs of both runs")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    directory = resolve_model(options.model)
    trace = make_trace(plain_tokens(directory), options.requests, options.rate, options.seed)
    with tempfile.TemporaryDirectory(prefix="headway-parity-") as name:
        machine = calibrated(options.machine, options.model, Path(name))
        loads = [os.getloadavg()[0]]
        logs = options.keep or Path(name)
        logs.mkdir(exist_ok=True)
        runs = []
        for number in (1, 2):
            runs.append(real_run(directory, trace, logs / f"steps-{number}.jsonl", "--dtype", machine.dtype))
            loads.append(os.getloadavg()[0])
    rows = compared(runs, simulated_run(machine, trace))
    about = {
        "machine": machine.machine,
        "model": machine.model,
        "requests": options.requests,
        "rate_per_s": options.rate,
        "seed": options.seed,
        "held_out_median_error": machine.held_out_median_error,
        "load_average": loads,
    }
    if options.json:
        print(json.dumps(about | {"rows": rows, "runs": [{k: asdict(q) for k, q in run.items()} for run in runs]}))
        return
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print(f"{'':12}{'real 1':>10}{'real 2':>10}{'simulated':>11}{'error':>9}{'spread':>9}")
    for r in rows:
        times = "".join(f"{r[k] * 1e3:10.1f}" for k in ("real_1", "real_2")) + f"{r['simulated'] * 1e3:11.1f}"
        verdict = "" if r["agrees"] else "  differs"
        print(f"{r['metric'][:4]} {r['which']:7}{times}{r['error']:9.1%}{r['spread']:9.1%}{verdict}")


if __name__ == "__main__":
    main()
