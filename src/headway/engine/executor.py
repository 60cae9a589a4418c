"""The torch body's hands: runs step plans on a device, in a thread of its own, so that planning can overlap."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch

from headway.engine.batch import Rows
from headway.engine.block_tables import BlockTables
from headway.engine.kv_cache import KVCache
from headway.engine.logprobs import PromptScores
from headway.engine.model import Model, StepBatch, finite_tokens
from headway.engine.sampling_table import SamplingTable
from headway.engine.verdict import Verdict, verify
from headway.scheduler.contract import IN_FLIGHT, Bools, Ints, RowLogprobs, StepOutcome, StepPlan, ints

MAX_IN_FLIGHT = 64


class TorchExecutor:
    """A `scheduler.contract.Executor`. Plans run in the order of `submit`; an in-flight token is the row's last draw.

    A plan runs one step, whatever its `repeats`. Running out of memory fails the step, not the executor; any other
    error is raised by `collect`.
    """

    def __init__(self, model: Model, *, max_running: int, max_context: int) -> None:
        self._model = model
        width = -(-max_context // model.cache.block_size)
        self._tables = BlockTables(len(model.cache.groups), max_running, width)
        self._sampling = SamplingTable(max_running, model.shape.vocab, model.device)
        self._prompts = PromptScores()
        self._last_drawn = np.zeros(max_running, np.int64)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="headway-step")
        self._in_flight: deque[Future[StepOutcome]] = deque()

    @property
    def cache(self) -> KVCache:
        return self._model.cache

    def submit(self, plan: StepPlan) -> None:
        """The plan's arrays must not change afterwards. Raises RuntimeError beyond `MAX_IN_FLIGHT` plans."""
        if len(self._in_flight) >= MAX_IN_FLIGHT:
            raise RuntimeError(f"submit: {MAX_IN_FLIGHT} plans are in flight already")
        self._in_flight.append(self._thread.submit(self._run, plan))

    def collect(self) -> StepOutcome:
        """Waits for the oldest plan. Raises RuntimeError when none was submitted."""
        if not self._in_flight:
            raise RuntimeError("collect: no plan was submitted")
        return self._in_flight.popleft().result()

    def close(self) -> None:
        """Waits for what runs, drops what does not yet."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _run(self, plan: StepPlan) -> StepOutcome:
        began_ns = time.perf_counter_ns()
        try:
            with torch.inference_mode():
                self._apply(plan)
                verdict = self._step(plan)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            failure = f"out of memory in step {plan.number}"
            return StepOutcome(plan.number, ints(), device_ns=time.perf_counter_ns() - began_ns, error=failure)
        return verdict.outcome(plan, device_ns=time.perf_counter_ns() - began_ns)

    def _apply(self, plan: StepPlan) -> None:
        for slot in plan.released.tolist():
            self._sampling.release(slot)
            self._prompts.release(slot)
        for admitted in plan.admitted:
            self._sampling.admit(admitted)
            self._prompts.admit(admitted)
        self._tables.apply(plan.blocks)

    def _step(self, plan: StepPlan) -> Verdict:
        if not len(plan.slots):
            return Verdict.empty()
        rows = Rows(plan.slots, plan.starts, plan.counts)
        token_ids, failed = self._token_ids(plan, rows)
        batch = self._model.batch(rows, token_ids, self._tables.tables)
        hidden = self._model.forward(batch)
        failed |= self._contain(batch, hidden, rows)
        verdict = verify(self._model, hidden, plan, token_ids, failed, self._sampling)
        self._record(plan, verdict)
        self._score_prompts(plan, rows, hidden, verdict)
        return verdict

    def _token_ids(self, plan: StepPlan, rows: Rows) -> tuple[Ints, Bools]:
        """[T] ids that the embedding has, in-flight ones filled in; [R] rows that asked for others."""
        slots = np.repeat(plan.slots, plan.counts)
        ids = np.where(plan.token_ids == IN_FLIGHT, self._last_drawn[slots], plan.token_ids)
        unknown = (ids < 0) | (ids >= self._model.shape.vocab)
        ids[unknown] = 0
        failed = np.add.reduceat(unknown, rows.offsets) > 0
        return ids, failed | self._sampling.invalid[plan.slots]

    def _contain(self, batch: StepBatch, hidden: torch.Tensor, rows: Rows) -> Bools:
        """[R] rows that are not finite. What they wrote is erased: a masked NaN would still spoil other rows."""
        bad = ~finite_tokens(hidden)
        if not bad.any():
            return np.zeros(len(rows.slots), np.bool_)
        failed: Bools = np.add.reduceat(bad, rows.offsets) > 0
        self._model.erase(batch, np.flatnonzero(np.repeat(failed, rows.counts)))
        return failed

    def _record(self, plan: StepPlan, verdict: Verdict) -> None:
        """Keeps what was drawn, for in-flight tokens and penalties."""
        for slot, tokens in zip(plan.slots[plan.samples].tolist(), verdict.rows(), strict=True):
            self._last_drawn[slot] = tokens[-1]
            self._sampling.record(slot, tokens)

    def _score_prompts(self, plan: StepPlan, rows: Rows, hidden: torch.Tensor, verdict: Verdict) -> None:
        for slot, start, count, offset in zip(
            plan.slots.tolist(), plan.starts.tolist(), plan.counts.tolist(), rows.offsets.tolist(), strict=True
        ):
            if self._prompts.wanted(slot) and slot not in verdict.failed:
                scores = self._prompts.score(slot, start, hidden[offset : offset + count], self._model)
                if scores:
                    drawn = verdict.logprobs.get(slot, RowLogprobs()).drawn
                    verdict.logprobs[slot] = RowLogprobs(drawn=drawn, prompt=scores)


def out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed; torch says so on a CPU with a bare RuntimeError."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return any(text in str(error) for text in ("can't allocate memory", "DefaultCPUAllocator", "out of memory"))
