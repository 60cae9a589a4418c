"""Every engine, every job, several times: in turns, so that a slow minute of the machine meets them all."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .child import EngineError
from .cpu_time import CpuTime
from .jobs import WARM_UP, Job
from .measurement import Measurement, measure
from .peers import Engine, NotInstalled, Setting

Make = Callable[[Setting], Engine]
Watch = Callable[[str], None]


@dataclass
class Results:
    """Grows while the race runs, and is whole at any moment."""

    measurements: list[Measurement] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    """Engines that are not installed, and why."""
    lost: dict[str, str] = field(default_factory=dict)
    """Engines that did not start or did not live, and why; they are not tried again."""


@dataclass(frozen=True, slots=True)
class Race:
    setting: Setting
    engines: dict[str, Make]
    jobs: Sequence[Job]
    runs: int
    began: Watch
    done: Watch

    async def run(self, results: Results) -> None:
        vocab = json.loads((self.setting.model_dir / "config.json").read_text())["vocab_size"]
        for run in range(self.runs):
            for job in self.jobs:
                for name, make in self.engines.items():
                    if name not in results.absent and name not in results.lost:
                        self.began(f"run {run + 1} of {self.runs}, {job.name}, {name}")
                        await self._turn(name, make, job, run, vocab, results)

    async def _turn(self, name: str, make: Make, job: Job, run: int, vocab: int, results: Results) -> None:
        try:
            measured = await self._measure(name, make(self.setting), job, run, vocab)
        except NotInstalled as missing:
            results.absent[name] = str(missing)
            self.done(f"{name}: not installed: {missing}")
        except EngineError as error:
            results.lost[name] = str(error)
            self.done(f"{name}: failed: {error}")
        else:
            results.measurements.append(measured)
            self.done(_line(measured))

    async def _measure(self, name: str, engine: Engine, job: Job, run: int, vocab: int) -> Measurement:
        try:
            await engine.start()
            await engine.run(WARM_UP, WARM_UP.prompts(run, vocab))
            before = CpuTime.now(engine.pid)
            answers, client_cpu_share = await engine.run(job, job.prompts(run, vocab))
            after = CpuTime.now(engine.pid)
        finally:
            await engine.stop()
        others = after.cores_of_others(before) if before and after else None
        return measure(name, job, run, answers, client_cpu_share, others)


def _line(m: Measurement) -> str:
    rate = "no right answer" if m.output_tokens_per_s is None else f"{m.output_tokens_per_s:.1f} tokens/s"
    others = f", others used {m.cores_of_others:.1f} cores" if m.cores_of_others is not None else ""
    flaws = f", {m.wrong} wrong, {m.failed} failed: {'; '.join(m.errors)}" if m.wrong or m.failed else ""
    return f"run {m.run + 1}  {m.job}  {m.engine}  {rate}{others}{flaws}"
