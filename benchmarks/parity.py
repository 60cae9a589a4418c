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
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from headway.arithmetic.formats import precision
from headway.arithmetic.hf_config import shape_from_config
from headway.bench.client import Client, ClientSettings
from headway.bench.endpoint import endpoint
from headway.bench.load import Load, Pace
from headway.bench.metrics import tpot_s, ttft_s
from headway.bench.record import Record
from headway.bench.words import WORDS
from headway.catalog.machine import MachineFile, machine_fit, machine_system, read_machine
from headway.engine.model_store import resolve_model
from headway.simulator.fleet import Fleet, FleetConfig
from headway.simulator.record import Record as Simulated
from headway.simulator.replay import replay
from headway.simulator.results import Quantiles, quantiles
from headway.simulator.router import RoundRobin
from headway.simulator.simulation import Setup
from headway.workload.call import Call, Workload
from serving.headway_server import HEADWAY, headway_server

BLOCK = 16
SHARED_TOKENS = 64
ALLOWED = 0.15


@dataclass(frozen=True)
class Trace:
    calls: tuple[Call, ...]
    prompts: dict[str, list[int]]
    """Token ids, by call."""

    @property
    def workload(self) -> Workload:
        return Workload("parity", [(call,) for call in self.calls], BLOCK, num_calls=len(self.calls))


def make_trace(vocabulary: list[int], requests: int, rate: float, seed: int) -> Trace:
    """Poisson arrivals; 20 to 220 tokens in, or 64 more that half of all have in common; 8 to 40 out."""
    rng = np.random.default_rng(seed)
    common = rng.choice(vocabulary, SHARED_TOKENS).tolist()
    arrivals_s = np.cumsum(rng.exponential(1 / rate, requests))
    calls, prompts = [], {}
    for i, arrival_s in enumerate(arrivals_s.tolist()):
        own = rng.choice(vocabulary, int(rng.integers(20, 220))).tolist()
        shares = bool(rng.integers(2))
        tokens = common + own if shares else own
        first = SHARED_TOKENS // BLOCK if shares else 0
        ids = (*range(1, first + 1), *(1000 * (i + 1) + j for j in range(first, len(tokens) // BLOCK)))
        output = int(rng.integers(8, 40))
        calls.append(Call(str(i), len(tokens), output, arrival_s=arrival_s, hash_ids=ids, max_output_tokens=output))
        prompts[str(i)] = tokens
    return Trace(tuple(calls), prompts)


def plain_tokens(directory: Path) -> list[int]:
    """Ids of whole words, so that answers are text."""
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
    encoded = (tokenizer.encode(f" {word}", add_special_tokens=False).ids for word in WORDS)
    return [ids[0] for ids in encoded if len(ids) == 1]


async def drive(url: str, name: str, trace: Trace) -> list[Record]:
    """A request by itself first, so that the first of the trace finds everything warm."""
    client = Client(endpoint(url, model=name, api="completions"), ClientSettings())

    def body(call: Call) -> bytes:
        fields = {"model": name, "prompt": trace.prompts[call.id], "max_tokens": call.num_output_tokens}
        settings = {"stream": True, "ignore_eos": True, "temperature": 0, "stream_options": {"include_usage": True}}
        return json.dumps(fields | settings).encode()

    async def send(call: Call, content: bytes, scheduled_s: float) -> Record:
        return await client.ask(call, content, load.start_s, scheduled_s)

    warm = trace.calls[-1]
    load = Load(Workload("warm", [(Call("warm", 1, 8),)]), Pace(), lambda _: body(warm), send)
    await load.run(asyncio.Event())
    load = Load(trace.workload, Pace(), body, send)
    await load.run(asyncio.Event())
    client.close()
    return load.records


def real_run(directory: Path, dtype: str, trace: Trace, log: Path) -> dict[str, Quantiles]:
    with headway_server(directory, "--dtype", dtype, "--step-log", str(log)) as url:
        records = asyncio.run(drive(url, directory.name, trace))
    asked = {call.id: call.num_output_tokens for call in trace.calls}
    for record in records:
        if record.outcome != "ok" or record.usage_output_tokens != asked[record.id]:
            raise SystemExit(
                f"request {record.id}: {record.outcome}, {record.usage_output_tokens} tokens {record.error}"
            )
        record.output_tokens = asked[record.id]
    replayed = replay(log)
    assert replayed.requests == len(records) + 1
    first_s = [(ttft_s(r) or 0.0) + r.lateness_s for r in records]
    return {"ttft_s": quantiles(first_s), "tpot_s": quantiles(s for r in records if (s := tpot_s(r)) is not None)}


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
    records: list[Simulated] = []
    fleet = Fleet(FleetConfig(1, setup.scheduler_config()), setup.step_time(), RoundRobin(), records.append)
    fleet.run(trace.workload)
    return {
        "ttft_s": quantiles((r.receipt.ttft_ns for r in records), 1e-9),
        "tpot_s": quantiles((r.receipt.tpot_ns for r in records), 1e-9),
    }


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
            runs.append(real_run(directory, machine.dtype, trace, logs / f"steps-{number}.jsonl"))
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
