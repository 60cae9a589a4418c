"""What a simulated request costs: requests and output tokens a CPU-second, by load and by the size of the batch.

The load is that of the Azure conversation trace: its first rows, over and over, or with --trace all of it. As recorded:
one replica, arrivals as they were. Saturated: as many rows run as may, and the queue is never empty.

    python benchmarks/simulator.py --json
    python benchmarks/simulator.py --long 1000000                 over 64 replicas, with the peak of memory
    python -m venv DIR && DIR/bin/pip install --pre --only-binary :all: aisimulate
    python benchmarks/simulator.py --aisimulate DIR/bin/aisimulate        the same loads by both, in turns

AISimulate is a Rust core behind a command: its figure is the CPU time of a run, of 4 times as many requests, less
that of a run of the first ones, so that its start does not count. Ours includes the set-up.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from headway.arithmetic.hf_config import shape_from_config
from headway.catalog import load_catalog
from headway.cli.simulate_text import progress
from headway.simulator.simulation import Setup, simulate
from headway.workload.call import Call, Session, Workload
from headway.workload.trace import open_trace

CUT = Path(__file__).parents[1] / "tests" / "data" / "traces" / "azure_conv.csv"
AT_ONCE = 1e5
"""So many times as fast as recorded: everyone is there at the start."""
LOADS = {
    "as recorded": (1.0, 256),
    "4 times as fast": (4.0, 256),
    "saturated, 16 rows": (AT_ONCE, 16),
    "saturated, 64 rows": (AT_ONCE, 64),
    "saturated, 256 rows": (AT_ONCE, 256),
    "saturated, 1024 rows": (AT_ONCE, 1024),
}
"""Speed of arrivals, and the most rows in a batch."""
HEAD = 400
AISIMULATE = """
traffic:
  source: {{type: trace, paths: [{trace}], format: mooncake, block_size: 512}}
  load: {{type: trace_timestamps}}
engine:
  mode: aggregated
  model: meta-llama/Meta-Llama-3.1-8B
  hardware: h200_sxm
  backend: vllm
  workers:
    aggregated:
      scheduler: {{max_batched_tokens: 8192, max_sequences: {rows}}}
      kv_cache: {{prefix_caching: false}}
"""
Figures = dict[str, float]


def calls(path: Path, num_requests: int, speed: float) -> Iterator[Call]:
    """The trace, and again from its end, until there are enough requests."""
    rows = [session[0] for session in open_trace(path).sessions]
    length_s = (rows[-1].arrival_s or 0.0) + 1.0
    for number in range(num_requests):
        lap, row = divmod(number, len(rows))
        arrival_s = ((rows[row].arrival_s or 0.0) + lap * length_s) / speed
        yield Call(str(number), rows[row].num_input_tokens, rows[row].num_output_tokens, arrival_s=arrival_s)


def workload(path: Path, num_requests: int, speed: float) -> Workload:
    def sessions() -> Iterator[Session]:
        for call in calls(path, num_requests, speed):
            yield (call,)

    return Workload("azure", sessions(), num_calls=num_requests)


def measure(load: Workload, max_running: int, num_replicas: int = 1) -> Figures:
    catalog = load_catalog()
    setup = Setup(
        shape_from_config(catalog.config("llama-3.1-8b")),
        catalog.system("hgx-h200"),
        max_running=max_running,
        max_context=16_384,
        num_replicas=num_replicas,
    )
    with progress(load.num_calls if num_replicas > 1 else None) as advance:
        start = time.process_time()
        summary = simulate(setup, load, on_progress=advance)
        cpu_s = time.process_time() - start
    assert summary.finished == summary.calls
    return {
        "requests_per_cpu_s": round(summary.calls / cpu_s),
        "output_tokens_per_cpu_s": round(summary.output_tokens / cpu_s),
        "us_per_step": round(cpu_s / summary.steps * 1e6, 1),
        "mean_rows": round(summary.output_tokens / summary.steps, 1),
    }


def long_run(trace: Path, num_requests: int, num_replicas: int) -> Figures:
    """Each replica gets as many requests a second as one does as recorded."""
    found = measure(workload(trace, num_requests, num_replicas), 256, num_replicas)
    return found | {"peak_memory_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)}


def aisimulate(command: Path, trace: Path, num_requests: int, speed: float, rows: int) -> Figures:
    """No two requests share a block."""
    asked = list(calls(trace, num_requests, speed))
    with tempfile.TemporaryDirectory() as folder:
        spent_s = []
        for some in (asked[:HEAD], asked):
            path, config = Path(folder) / "trace.jsonl", Path(folder) / "config.yaml"
            config.write_text(AISIMULATE.format(trace=path, rows=rows))
            with path.open("w") as file:
                for call in some:
                    row = {
                        "timestamp": (call.arrival_s or 0.0) * 1000,
                        "input_length": call.num_input_tokens,
                        "output_length": call.num_output_tokens,
                        "hash_ids": [int(call.id) << 8 | block for block in range(-(-call.num_input_tokens // 512))],
                    }
                    file.write(json.dumps(row) + "\n")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            out = ["--output-dir", folder, "--overwrite"]
            subprocess.run([command, "predict", "-c", config, *out], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    cpu_s = spent_s[1] - spent_s[0]
    return {
        "requests_per_cpu_s": round((num_requests - HEAD) / cpu_s),
        "output_tokens_per_cpu_s": round(sum(call.num_output_tokens for call in asked[HEAD:]) / cpu_s),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--trace", type=Path, default=CUT, help="the whole Azure conversation trace")
    parser.add_argument("--requests", type=int, default=8000, help="of each run")
    parser.add_argument("--long", type=int, metavar="N", help="one run of N requests over --replicas")
    parser.add_argument("--replicas", type=int, default=64, help="of the long run")
    parser.add_argument("--aisimulate", type=Path, metavar="COMMAND", help="compare with this one")
    arguments = parser.parse_args()
    result: dict[str, Figures] = {}
    if arguments.long:
        result[f"{arguments.replicas} replicas"] = long_run(arguments.trace, arguments.long, arguments.replicas)
    for name, (speed, rows) in {} if arguments.long else LOADS.items():
        result[name] = measure(workload(arguments.trace, arguments.requests, speed), rows)
        if arguments.aisimulate:
            theirs = aisimulate(arguments.aisimulate, arguments.trace, 4 * arguments.requests, speed, rows)
            result[name] |= {f"aisimulate_{key}": value for key, value in theirs.items()}
            ratio = result[name]["requests_per_cpu_s"] / theirs["requests_per_cpu_s"]
            result[name]["times_aisimulate"] = round(ratio, 2)
        if not arguments.json:
            print(f"{name:20}", *(f"{key} {value:,}" for key, value in result[name].items()), sep="  ", flush=True)
    if arguments.json:
        print(json.dumps(result))


if __name__ == "__main__":
    main()
