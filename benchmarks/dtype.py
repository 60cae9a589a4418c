"""Step times of the default model in float32 and bfloat16, side by side: what `--dtype auto` is chosen from.

    python benchmarks/dtype.py [--json] [MODEL]

A decode step has B rows that hold 256 tokens each; a prefill step is one prompt of 512 tokens. Medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import dataclass

import numpy as np
import torch

from headway.engine.loading import DTYPES, LoadedModel, load
from headway.engine.model_store import resolve_model
from headway.engine.progress import terminal_progress
from headway.scheduler.config import SchedulerConfig
from headway.scheduler.request import Request
from headway.scheduler.scheduler import Scheduler

HELD_TOKENS = 256
PROMPT_TOKENS = 512
BATCHES = (1, 8, 32)
STEPS = 15
WARM_UP_STEPS = 3
KV_BYTES = 2**30


@dataclass(frozen=True)
class Bench:
    model: LoadedModel

    def decode_ms(self, batch: int) -> float:
        """Steps in which every row decodes and nothing else happens."""
        output = STEPS + WARM_UP_STEPS
        times = [
            time_ms for rows, tokens, time_ms in self._steps(batch, HELD_TOKENS, output) if rows == tokens == batch
        ]
        return statistics.median(times[WARM_UP_STEPS:])

    def prefill_ms(self) -> float:
        times = []
        for _ in range(4):
            times += [time_ms for _, tokens, time_ms in self._steps(1, PROMPT_TOKENS, 1) if tokens == PROMPT_TOKENS]
        return statistics.median(times[1:])

    def _steps(self, batch: int, prompt: int, output: int) -> list[tuple[int, int, float]]:
        """(rows, tokens, milliseconds) of each step that it takes to serve `batch` random prompts."""
        config = SchedulerConfig(
            self.model.groups,
            block_size=self.model.block_size,
            max_running=self.model.max_running,
            max_context=self.model.max_context,
            prefix_caching=False,
        )
        brain = Scheduler(config)
        random = np.random.default_rng(0)
        for i in range(batch):
            tokens = random.integers(0, self.model.shape.vocab, prompt)
            brain.add(Request(str(i), prompt, output, tokens), 0)
        steps = []
        while (plan := brain.plan(0)) is not None:
            self.model.executor.submit(plan)
            outcome = self.model.executor.collect()
            brain.commit(outcome, 0)
            steps.append((len(plan.slots), int(plan.counts.sum()), outcome.device_ns / 1e6))
        return steps


def measure(model_name: str | None) -> dict[str, dict[str, float]]:
    with terminal_progress() as report:
        directory = resolve_model(model_name, report)
    results = {}
    for dtype in DTYPES:
        model = load(directory, dtype=dtype, device="cpu", max_running=max(BATCHES), kv_bytes=KV_BYTES)
        bench = Bench(model)
        results[dtype] = {f"decode_{batch}_ms": bench.decode_ms(batch) for batch in BATCHES}
        results[dtype][f"prefill_{PROMPT_TOKENS}_ms"] = bench.prefill_ms()
        model.executor.close()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a directory, .gguf file or hub id; the default model without it")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = measure(arguments.model)
    if arguments.json:
        print(
            json.dumps({"threads": torch.get_num_threads(), "cpu": torch.backends.cpu.get_cpu_capability(), **results})
        )
        return
    print(f"{'':16}" + "".join(f"{dtype:>12}" for dtype in results))
    for name in next(iter(results.values())):
        print(f"{name:16}" + "".join(f"{row[name]:12.1f}" for row in results.values()))


if __name__ == "__main__":
    main()
