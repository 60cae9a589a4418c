"""How long a whole Pareto sweep takes: one model, four systems, every cut up to 72 chips, 64 batches, two formats.

`python benchmarks/pareto.py [--json] [--repeats N]`: after import, best of N, CPU time beside wall time; with prompts
of --context tokens and answers of 1,024, then decode only. `recommendation.py` asks AISimulate as well.
"""

from __future__ import annotations

import argparse
import json
import platform
import time

from headway.arithmetic.formats import precision
from headway.arithmetic.hf_config import shape_from_config
from headway.catalog import load_catalog
from headway.planner.lengths import Lengths
from headway.planner.pareto import ParetoReport, pareto_report

SYSTEMS = ("hgx-h200", "hgx-b200", "gb200-nvl72", "mi355x-node")
FORMATS = ("bf16", "fp8")
MODELS = ("llama-3.1-70b", "deepseek-v3", "qwen3-235b-a22b", "gpt-oss-120b")


def sweep(name: str, load: Lengths | int) -> ParetoReport:
    catalog = load_catalog()
    shape = shape_from_config(catalog.config(name))
    systems = [catalog.system(system) for system in SYSTEMS]
    return pareto_report(name, shape, systems, [precision(name) for name in FORMATS], load, slo_tokens_per_s=50)


def measured(name: str, load: Lengths | int, repeats: int) -> dict[str, object]:
    """Catalog and configuration are read each time."""
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        report = sweep(name, load)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {
        "model": name,
        "systems": SYSTEMS,
        "formats": FORMATS,
        "context_tokens": report.context_tokens,
        "prompts": report.prompt_tokens is not None,
        "configurations": report.considered,
        "frontier_points": len(report.frontier),
        "wall_s": min(walls),
        "cpu_s": min(cpus),
        "first_wall_s": walls[0],
        "repeats": repeats,
        "machine": platform.processor() or platform.machine(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--model", action="append", default=[])
    options = parser.parse_args()
    for name in options.model or MODELS:
        for load in (Lengths(options.context, 0, 1024), options.context):
            row = measured(name, load, options.repeats)
            if options.json:
                print(json.dumps(row))
                continue
            print(
                f"{name:16} {'with prompts' if row['prompts'] else 'decode only':12} {row['configurations']:6} "
                f"configurations, {row['frontier_points']:4} on the frontier: {row['wall_s']:.3f} s "
                f"(CPU {row['cpu_s']:.3f} s, first {row['first_wall_s']:.3f} s)"
            )


if __name__ == "__main__":
    main()
