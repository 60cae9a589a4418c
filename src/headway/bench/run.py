"""One run: probe, warm up, load, count, sum up."""

from __future__ import annotations

import asyncio
import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Literal

import msgspec

from headway.bench.client import Client, ClientSettings
from headway.bench.context import too_long
from headway.bench.counting import count_output
from headway.bench.endpoint import Endpoint
from headway.bench.lateness import LagProbe
from headway.bench.load import Load, Pace
from headway.bench.prompts import Prompts
from headway.bench.record import Record
from headway.bench.slo import Slo
from headway.bench.summary import MAX_FAILED, Summary, objections, summarise
from headway.bench.tokens import Tokenizer
from headway.workload.call import Call, Workload

FORMAT = 1
KIND: Literal["headway-bench"] = "headway-bench"


class Run(msgspec.Struct, kw_only=True):
    """Everything that is needed to repeat a run, and what came out of it. Not in it: keys, prompts, answers."""

    kind: Literal["headway-bench"] = KIND
    format: int = FORMAT
    label: str
    headway: str = msgspec.field(default_factory=lambda: version("headway"))
    started_at: str
    command: list[str] = []
    machine: dict[str, Any] = msgspec.field(default_factory=lambda: _machine())
    url: str
    endpoint: Endpoint
    server: dict[str, Any] = {}
    """What it says of itself."""
    workload: dict[str, Any]
    """Name, seed, and the options that made it."""
    load: dict[str, Any]
    prompts: dict[str, Any]
    client: dict[str, Any]
    slo: Slo | None = None
    warmup_requests: int = 0
    interrupted: bool = False
    objections: list[str] = []
    """Why this is no result; empty: it is one."""
    notes: list[str] = []
    summary: Summary

    @property
    def is_result(self) -> bool:
        return not self.objections


@dataclass(frozen=True, slots=True)
class Bench:
    """What all runs against one server share."""

    client: Client
    settings: ClientSettings
    words: Sequence[str]
    tokenizer: Tokenizer | None
    overhead_tokens: int
    prompt_seed: int
    pace: Pace
    slo: Slo | None = None
    warmup_requests: int = 0
    max_lateness_s: float = 0.025
    max_failed: float = MAX_FAILED
    context: int | None = None
    """Most tokens of a sequence, where the server says."""
    on_record: Callable[[Load], None] = lambda _: None
    """Called after each answer, for a progress bar."""
    notes: list[str] = field(default_factory=list)

    def prompts(self, name: str, block_size: int) -> Prompts:
        """Texts of runs with different names have nothing in common, so one run's cache is no help to the next."""
        return Prompts(self.words, f"{self.prompt_seed}/{name}", block_size, self.overhead_tokens)

    async def run(
        self, name: str, workload: Workload, described: dict[str, Any], stop: asyncio.Event
    ) -> tuple[Run, list[Record]]:
        """Raises WorkloadError when a trace turns out to be bad, TokenizerError when the server's stops answering."""
        await self._warm_up(name, workload.concurrency or 1, stop)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        load, lags_s = await self._drive(name, workload, stop)
        await self._count(load.records)
        summary = summarise(load.records, lags_s, self.slo, load.num_abandoned)
        run = Run(
            label=name,
            started_at=started,
            url=self.client.endpoint.url,
            endpoint=self.client.endpoint,
            workload={"name": workload.name, "hash_block_size": workload.hash_block_size} | described,
            load={"concurrency": workload.concurrency} | asdict(self.pace),
            prompts={
                "seed": self.prompt_seed,
                "tokenizer": self.tokenizer.name if self.tokenizer else None,
                "words": len(self.words),
                "overhead_tokens": self.overhead_tokens,
            },
            client=asdict(self.settings) | {"max_lateness_s": self.max_lateness_s, "max_failed": self.max_failed},
            slo=self.slo,
            warmup_requests=self.warmup_requests,
            interrupted=stop.is_set(),
            objections=objections(summary, self.max_lateness_s, self.max_failed),
            notes=[*self.notes, *too_long(load.records, self.context)],
            summary=summary,
        )
        return run, load.records

    async def _drive(self, name: str, workload: Workload, stop: asyncio.Event) -> tuple[Load, list[float]]:
        prompts = self.prompts(name, workload.hash_block_size)
        endpoint = self.client.endpoint

        def prepare(call: Call) -> bytes:
            return endpoint.body(prompts.text(call), call.num_output_tokens, call.session)

        async def send(call: Call, body: bytes, scheduled_s: float) -> Record:
            record = await self.client.ask(call, body, load.start_s, scheduled_s)
            self.on_record(load)
            return record

        load = Load(workload, self.pace, prepare, send)
        probe = LagProbe()
        probe.start()
        try:
            await load.run(stop)
        finally:
            probe.stop()
        return load, probe.lags_s

    async def _warm_up(self, name: str, concurrency: int, stop: asyncio.Event) -> None:
        """Requests of their own, so that what is measured finds no cache; of a size that any model takes."""
        if not self.warmup_requests:
            return
        calls = [Call(f"warm-up {i}", 64, 16, arrival_s=0.0) for i in range(self.warmup_requests)]
        workers = min(concurrency, self.warmup_requests)
        workload = Workload("warm-up", [(call,) for call in calls], concurrency=workers)
        prompts = self.prompts(f"{name}/warm-up", 0)
        endpoint = self.client.endpoint

        async def send(call: Call, body: bytes, scheduled_s: float) -> Record:
            return await self.client.ask(call, body, load.start_s, scheduled_s)

        load = Load(workload, Pace(), lambda call: endpoint.body(prompts.text(call), call.num_output_tokens), send)
        await load.run(stop)

    async def _count(self, records: Sequence[Record]) -> None:
        counts: dict[str, int] = {}
        if self.tokenizer is not None:
            texts = list({record.text for record in records if record.text and record.outcome == "ok"})
            counts = dict(zip(texts, await self.tokenizer.count(texts), strict=True))
        count_output(records, counts)


def _machine() -> dict[str, Any]:
    return {
        "platform": platform.platform(),
        "python": sys.version.split()[0],
        "cpus": os.cpu_count(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
    }
