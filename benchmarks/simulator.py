"""What a simulated request costs: requests and output tokens a CPU-second, by the size of the batch.

The load is that of the Azure conversation trace: its first rows, over and over, or with --trace all of it. As recorded:
one replica, arrivals as they were. Saturated: as many rows run as may, and the queue is never empty.

    python benchmarks/simulator.py --json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from headway.arithmetic.hf_config import shape_from_config
from headway.catalog import load_catalog
from headway.simulator.simulation import Setup, simulate
from headway.workload.call import Session, Workload, faster
from headway.workload.trace import open_trace

CUT = Path(__file__).parents[1] / "tests" / "data" / "traces" / "azure_conv.csv"


def repeated(path: Path, num_requests: int) -> Workload:
    """The trace, and again from its end, until there are enough requests."""
    rows = list(open_trace(path).sessions)
    length_s = (rows[-1][0].arrival_s or 0.0) + 1.0

    def sessions() -> Iterator[Session]:
        for number in range(num_requests):
            lap, row = divmod(number, len(rows))
            call = rows[row][0]
            yield (replace(call, id=str(number), arrival_s=(call.arrival_s or 0.0) + lap * length_s),)

    return Workload("azure", sessions())


def measure(workload: Workload, max_running: int) -> dict[str, float]:
    catalog = load_catalog()
    setup = Setup(
        shape_from_config(catalog.config("llama-3.1-8b")),
        catalog.system("hgx-h200"),
        max_running=max_running,
        max_context=16_384,
    )
    start = time.process_time()
    summary = simulate(setup, workload)
    cpu_s = time.process_time() - start
    assert summary.finished == summary.calls
    return {
        "requests_per_cpu_s": round(summary.calls / cpu_s),
        "output_tokens_per_cpu_s": round(summary.output_tokens / cpu_s),
        "us_per_step": round(cpu_s / summary.steps * 1e6, 1),
        "mean_rows": round(summary.output_tokens / summary.steps, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--trace", type=Path, default=CUT, help="the whole Azure conversation trace")
    parser.add_argument("--requests", type=int, default=4000, help="of each run")
    arguments = parser.parse_args()
    result = {"as recorded": measure(repeated(arguments.trace, arguments.requests), 256)}
    for rows in (16, 64, 256, 1024):
        workload = faster(repeated(arguments.trace, arguments.requests), 1e5)
        result[f"saturated, {rows} rows"] = measure(workload, rows)
    if arguments.json:
        print(json.dumps(result))
        return
    for name, found in result.items():
        print(f"{name:22}", *(f"{key} {value:,}" for key, value in found.items()), sep="  ")


if __name__ == "__main__":
    main()
