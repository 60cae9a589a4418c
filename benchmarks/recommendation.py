"""What to run, by `headway plan best` and by AISimulate, for the same questions: answers and times side by side.

`python benchmarks/recommendation.py --aiconfigurator PATH`: the command of that name in an environment where
AISimulate is installed. One model in bf16 on one box of eight chips under vLLM, with an SLO of TPOT and TTFT. Times
are those of whole commands, imports included. T, P, E, D: chips by tensor, pipeline, experts, data.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CHIPS = 8
SHOWN = "{:10} {:6} {:34} {:>6} {:>15} {:>15} {:>8}"


@dataclass(frozen=True, slots=True)
class Question:
    """A model and a box, by our names and by theirs."""

    model: str
    path: str
    system: str
    their_system: str
    prompt: int
    output: int
    tpot_s: float
    ttft_s: float


QUESTIONS = (
    Question("llama-3.1-70b", "meta-llama/Meta-Llama-3.1-70B", "hgx-h200", "h200_sxm", 8192, 1024, 0.025, 4.0),
    Question("qwen3-32b", "Qwen/Qwen3-32B", "hgx-h100", "h100_sxm", 4096, 512, 0.02, 2.0),
    Question("qwen3-235b-a22b", "Qwen/Qwen3-235B-A22B", "hgx-b200", "b200_sxm", 1024, 1024, 0.025, 2.0),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """The best of one kind. `batch`: in flight in each replica that decodes."""

    by: str
    kind: str
    unit: str
    batch: int
    tokens_per_s_per_user: float
    tokens_per_s_per_chip: float
    ttft_s: float

    def line(self) -> str:
        numbers = (self.batch, f"{self.tokens_per_s_per_user:.4g}", f"{self.tokens_per_s_per_chip:.4g}")
        return SHOWN.format(self.by, self.kind, self.unit, *numbers, f"{self.ttft_s:.3g} s")


def timed(command: Sequence[str]) -> tuple[str, float, float]:
    """(output, wall seconds, CPU seconds). Raises CalledProcessError if it fails."""
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, time.perf_counter() - wall, cpu_s


def ours(q: Question) -> tuple[list[Answer], float, float]:
    asked = ["--system", q.system, "--prompt", str(q.prompt), "--output", str(q.output), "--max-chips", str(CHIPS)]
    slo = ["--slo", str(1 / q.tpot_s), "--slo-ttft", str(q.ttft_s), "--count", "100", "--json"]
    out, wall_s, cpu_s = timed([str(Path(sys.executable).with_name("headway")), "plan", "best", q.model, *asked, *slo])
    found: dict[str, Answer] = {}
    for c in json.loads(out)["best"]:
        unit = f"{c['replicas']} x {_cut(c['parallelism'])}"
        if c["prefill_replicas"]:
            unit = f"{c['prefill_replicas']} x {_cut(c['prefill_parallelism'])} for prompts, {unit}"
        speed, made = c["interactivity_tokens_per_s"], c["throughput_tokens_per_s_per_chip"]
        found.setdefault(c["kind"], Answer("headway", c["kind"], unit, c["batch"], speed, made, c["ttft_s"]))
    return list(found.values()), wall_s, cpu_s


def theirs(command: str, q: Question) -> tuple[list[Answer], float, float]:
    asked = ["--model-path", q.path, "--system", q.their_system, "--total-gpus", str(CHIPS), "--backend", "vllm"]
    load = ["--isl", str(q.prompt), "--osl", str(q.output)]
    slo = ["--tpot", str(q.tpot_s * 1e3), "--ttft", str(q.ttft_s * 1e3), "--strict-sla"]
    with tempfile.TemporaryDirectory() as folder:
        _, wall_s, cpu_s = timed([command, "cli", "default", *asked, *load, *slo, "--save-dir", folder])
        tables = {file.parent.name: file for file in Path(folder).rglob("best_config_topn.csv")}
        rows = {kind: next(csv.DictReader(file.read_text().splitlines()), None) for kind, file in tables.items()}
    return [_their(kind, row) for kind, row in rows.items() if row], wall_s, cpu_s


def _their(kind: str, row: dict[str, str]) -> Answer:
    if kind == "agg":
        name, batch, unit = "mixed", row["bs"], f"1 x {_parts(row, '')}"
    else:
        name, batch = "split", row["(d)bs"]
        unit = f"{row['(p)workers']} x {_parts(row, '(p)')} for prompts, {row['(d)workers']} x {_parts(row, '(d)')}"
    speed, made = float(row["tokens/s/user"]), float(row["tokens/s/gpu"])
    return Answer("AISimulate", name, unit, int(batch), speed, made, float(row["ttft"]) / 1e3)


def _cut(p: dict[str, int]) -> str:
    named = (("T", p["tensor"]), ("P", p["pipeline"]), ("E", p["expert"]), ("D", p["data"]))
    return "".join(f"{letter}{n}" for letter, n in named if n > 1) or "T1"


def _parts(row: dict[str, str], pool: str) -> str:
    names = (("T", "tp"), ("P", "pp"), ("E", "moe_ep"), ("D", "dp"))
    return "".join(f"{letter}{row[pool + key]}" for letter, key in names if int(row[pool + key]) > 1) or "T1"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aiconfigurator", metavar="PATH", required=True)
    parser.add_argument("--model", action="append", choices=[q.model for q in QUESTIONS], default=[])
    options = parser.parse_args()
    for q in (q for q in QUESTIONS if not options.model or q.model in options.model):
        print(
            f"{q.model}, {CHIPS} chips of {q.system}, {q.prompt:,} tokens in, {q.output:,} out, "
            f"TPOT {q.tpot_s * 1e3:g} ms, TTFT {q.ttft_s:g} s"
        )
        print(SHOWN.format("by", "kind", "unit", "batch", "tokens/s a user", "tokens/s a chip", "TTFT"))
        for by, (answers, wall_s, cpu_s) in (("headway", ours(q)), ("AISimulate", theirs(options.aiconfigurator, q))):
            for answer in answers:
                print(answer.line())
            print(f"{by:10} took {wall_s:.1f} s, {cpu_s:.1f} s of CPU")
        print()


if __name__ == "__main__":
    main()
