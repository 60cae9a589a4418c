"""Everything that `headway calibrate` measures: a model is loaded as for serving, and scenarios are run for a while."""

from __future__ import annotations

import contextlib
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from headway.arithmetic.shape import ModelShape
from headway.engine.kv_tiers import block_bytes
from headway.engine.loading import LoadedModel, load, resolve_device
from headway.engine.measuring import MeasuredStep, Measuring, Scenario, scenarios
from headway.engine.memory import free_bytes
from headway.engine.probing import probe_bytes_per_s, probe_flops_per_s
from headway.engine.progress import Report, quiet
from headway.engine.settings import EngineSettings, scheduler_config
from headway.scheduler.config import SchedulerConfig

MIN_ROUNDS, MAX_ROUNDS = 2, 20
SLOW_SHARE = 0.05
"""Of the budget: when a scenario takes longer, larger ones of its kind are left out."""
_CPUINFO = Path("/proc/cpuinfo")
Steps = list[MeasuredStep]


@dataclass(frozen=True, slots=True)
class MeasuredMachine:
    """`steps` [N] are typical: the median of all that ran with the same shape. `group` names each one's scenario."""

    machine: str
    shape: ModelShape
    dtype: str
    device: str
    config: SchedulerConfig
    memory_bytes: int
    flops_per_s: float
    bytes_per_s: float
    steps: tuple[MeasuredStep, ...]
    group: tuple[int, ...]
    num_measured: int
    disturbance: float
    """All measured time, over what it would be had every step been typical."""


def measure_machine(
    model_dir: Path, *, dtype: str = "auto", device: str = "auto", budget_s: float = 60.0, report: Report = quiet
) -> MeasuredMachine:
    """Takes about `budget_s`, and one round of all scenarios at least. Raises ModelError."""
    where = resolve_device(device)
    memory_bytes = free_bytes(where)
    model = load(model_dir, dtype=dtype, device=device)
    try:
        return _measured(model, where, memory_bytes, budget_s, report)
    finally:
        model.executor.close()


def _measured(
    model: LoadedModel, where: torch.device, memory_bytes: int, budget_s: float, report: Report
) -> MeasuredMachine:
    on_cpu = where.type == "cpu"
    number: torch.dtype = getattr(torch, model.dtype)
    config = scheduler_config(
        EngineSettings(model_dir="", name=""),
        model.groups,
        model.max_context,
        on_cpu,
        block_bytes(model.executor.cache),
    )
    bench = Measuring(model.executor, config, model.shape.vocab, depth=1 if on_cpu else 2)
    flops_per_s, bytes_per_s = probe_flops_per_s(number, where), probe_bytes_per_s(number, where)
    runs = _runs(bench.run, scenarios(config), budget_s, report)
    typical = [(group, s, like) for group, alike in runs.items() for s, like in _points(alike)]
    spent_ns = sum(x.device_ns + x.gap_ns for _, _, like in typical for x in like)
    expected_ns = sum((s.device_ns + s.gap_ns) * len(like) for _, s, like in typical)
    return MeasuredMachine(
        machine=machine_words(where),
        shape=model.shape,
        dtype=model.dtype,
        device=where.type,
        config=config,
        memory_bytes=memory_bytes,
        flops_per_s=flops_per_s,
        bytes_per_s=bytes_per_s,
        steps=tuple(s for _, s, _ in typical),
        group=tuple(group for group, _, _ in typical),
        num_measured=sum(len(like) for _, _, like in typical),
        disturbance=spent_ns / expected_ns,
    )


def _runs(
    run: Callable[[Scenario], Steps], asked: tuple[Scenario, ...], budget_s: float, report: Report
) -> dict[int, list[Steps]]:
    """By scenario, the steps of each time that it ran. What runs first touches memory first: that round is dropped.

    A prompt is a token longer each time: a body may prepare something for every length that it has not met, and in
    service it meets new ones all the time.
    """
    began = time.monotonic()

    def spent_s() -> float:
        spent = time.monotonic() - began
        report("Measuring steps", min(round(spent * 10), round(budget_s * 10)), round(budget_s * 10))
        return spent

    kept: list[int] = []
    slow: set[tuple[int, bool]] = set()
    for i, scenario in enumerate(asked):
        if scenario.kind in slow:
            continue
        before = spent_s()
        run(scenario)
        kept.append(i)
        if spent_s() - before > SLOW_SHARE * budget_s:
            slow.add(scenario.kind)
    runs: dict[int, list[Steps]] = {i: [] for i in kept}
    random = np.random.default_rng(0)
    for done in range(MAX_ROUNDS):
        if done >= MIN_ROUNDS and spent_s() > budget_s:
            break
        for i in random.permutation(kept).tolist():
            runs[i].append(run(longer(asked[i], done + 1)))
            spent_s()
    return runs


def longer(scenario: Scenario, tokens: int) -> Scenario:
    """By so many tokens of its prompt, if it has one."""
    return replace(scenario, prompt=scenario.prompt + tokens) if scenario.prompt else scenario


def _points(runs: list[Steps]) -> list[tuple[MeasuredStep, Steps]]:
    """Of one scenario: each typical step, and those that it stands for. Steps that only decode are all alike; of
    prompts that grow, the middle one's shape goes with the median of their times.
    """
    if all((s.counts == 1).all() for s in runs[0]):
        like = [s for steps in runs for s in steps]
        return [(_median(runs[0][len(runs[0]) // 2], like), like)]
    steps = [list(alike) for alike in zip(*runs, strict=True)]
    return [(_median(alike[len(alike) // 2], alike), alike) for alike in steps]


def _median(shape: MeasuredStep, like: Steps) -> MeasuredStep:
    device_ns, gap_ns = (round(statistics.median(getattr(s, name) for s in like)) for name in ("device_ns", "gap_ns"))
    return replace(shape, device_ns=device_ns, gap_ns=gap_ns)


def machine_words(device: torch.device) -> str:
    """What the device is called, and how much there is of it; no name of the machine's own."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    threads = torch.get_num_threads()
    return f"{_cpu_name()}, {threads} thread{'' if threads == 1 else 's'}"


def _cpu_name() -> str:
    with contextlib.suppress(OSError):
        for line in _CPUINFO.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
