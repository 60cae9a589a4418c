"""An engine that draws what it is told: known tokens, delays and faults, in process."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Iterable

import numpy as np

from headway.engine.messages import PROTOCOL, Ended, EngineStats, Frames, Ready, Submit, frame
from headway.scheduler.contract import RowLogprobs, TokenLogprobs
from headway.scheduler.receipt import Receipt
from headway.scheduler.request import FinishReason
from headway.server.engine import Delta, Overloaded

Step = list[int] | float | Exception
"""Tokens drawn in one step; a pause in seconds; a fault."""
Reply = Callable[[Submit], Iterable[Step]]
MAX_CONTEXT = 256


def prompt_of(submit: Submit) -> list[int]:
    return np.frombuffer(submit.token_ids, "<i4").tolist()


class ScriptedEngine:
    def __init__(self, vocab: int, reply: Reply) -> None:
        self.info = Ready(PROTOCOL, "scripted", vocab, MAX_CONTEXT, 16, 64, 8, "float32", "cpu")
        self.stats = EngineStats(num_running=3, num_waiting=2, blocks_used=16, blocks_total=64, prefix_hits_total=7)
        self.is_ready = True
        self.restarts_total = 1
        self.default = reply
        self.reset()

    def reset(self) -> None:
        self.reply = self.default
        self.full = False
        self.reused = 0
        self.submits: list[Submit] = []
        self.running: set[str] = set()
        self.cancelled: list[str] = []
        self.finished: list[str] = []
        self.drawn = 0

    def generate(self, submit: Submit) -> ScriptedGeneration:
        if self.full:
            raise Overloaded("the queue is full", 2.5)
        # As an engine in a process of its own would get it.
        [submit] = Frames("to_engine").feed(frame(submit))
        assert isinstance(submit, Submit)
        self.submits.append(submit)
        self.running.add(submit.id)
        return ScriptedGeneration(self, submit)


class ScriptedGeneration:
    def __init__(self, engine: ScriptedEngine, submit: Submit) -> None:
        self._engine = engine
        self._submit = submit
        self._reason: FinishReason | None = None

    def cancel(self) -> None:
        if self._submit.id in self._engine.running:
            self._engine.running.discard(self._submit.id)
            self._engine.cancelled.append(self._submit.id)

    def finish(self, reason: FinishReason) -> None:
        self._reason = reason
        self._engine.finished.append(self._submit.id)

    async def __aiter__(self) -> AsyncIterator[Delta]:
        submit = self._submit
        count = 0
        if submit.max_tokens == 0:
            yield self._end("length", 0, [], _prompt_logprobs(submit))
            return
        first = _prompt_logprobs(submit)
        for step in self._engine.reply(submit):
            if isinstance(step, Exception):
                self._engine.running.discard(submit.id)
                raise step
            if isinstance(step, float):
                await asyncio.sleep(step)
                continue
            drawn = _until_stop(step[: submit.max_tokens - count], submit.stop_token_ids)
            count += len(drawn)
            self._engine.drawn += len(drawn)
            logprobs = RowLogprobs(_scores(submit, drawn), first.prompt if first else ())
            first = None
            ends: FinishReason | None = self._reason
            if drawn and drawn[-1] in submit.stop_token_ids:
                ends = "stop"
            elif count >= submit.max_tokens:
                ends = "length"
            if ends is not None:
                yield self._end(ends, count, drawn, logprobs)
                return
            yield Delta(drawn, logprobs)
            await asyncio.sleep(0)
        yield self._end(self._reason or "length", count, [], None)

    def _end(self, reason: FinishReason, count: int, drawn: list[int], logprobs: RowLogprobs | None) -> Delta:
        self._engine.running.discard(self._submit.id)
        receipt = Receipt(
            queue_ns=1_000_000,
            prefill_ns=2_000_000,
            decode_ns=3_000_000 * max(count - 1, 0),
            device_share_ns=4_000_000,
            host_share_ns=500_000,
            steps=count,
            tokens_computed=self._submit.num_prompt_tokens - self._engine.reused + count,
            tokens_reused=self._engine.reused,
            tokens_generated=count,
        )
        return Delta(drawn, logprobs, Ended(self._submit.id, reason, receipt))


def _until_stop(step: list[int], stops: tuple[int, ...]) -> list[int]:
    at = next((i for i, token in enumerate(step) if token in stops), len(step) - 1)
    return step[: at + 1]


def _score(token: int, top: int) -> TokenLogprobs:
    others = tuple((token + i, -0.5 - i) for i in range(top))
    return TokenLogprobs(token, -0.5 if token % 2 else -math.inf, 1, others)


def _scores(submit: Submit, drawn: list[int]) -> tuple[TokenLogprobs, ...]:
    top = submit.sampling.logprobs
    return () if top is None else tuple(_score(token, top) for token in drawn)


def _prompt_logprobs(submit: Submit) -> RowLogprobs | None:
    top = submit.sampling.prompt_logprobs
    if top is None:
        return None
    return RowLogprobs(prompt=tuple(_score(token, top) for token in prompt_of(submit)[1:]))
