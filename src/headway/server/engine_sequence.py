"""One submitted sequence as the HTTP process knows it: this is the truth that outlives engines."""

from __future__ import annotations

import asyncio
import sys
import time
from array import array
from dataclasses import replace

import msgspec

from headway.engine.messages import Ended, RowTokens, Submit
from headway.engine.reply import PromptReader
from headway.scheduler.receipt import Receipt
from headway.scheduler.request import FinishReason
from headway.server.engine_inbox import Inbox


class OpenSequence:
    """Prompt, tokens emitted, deadline, and how many engines died under it."""

    def __init__(self, submit: Submit) -> None:
        self.id = submit.id
        self.num_prompt_tokens = len(submit.token_ids) // 4
        self.inbox = Inbox()
        self.begun = False
        """It has left the queue of some engine."""
        self.on_board = False
        """It may ride in a step of the present engine, so that a crash may be its doing."""
        self.sent = False
        """The present engine has it."""
        self.drew = False
        """The present engine has drawn a token of it."""
        self.crashes = 0
        """Of engines, for which it may be to blame."""
        self.crashes_alone = 0
        """Of engines in which it was the only one."""
        self.finishing: FinishReason | None = None
        self.expiry: asyncio.TimerHandle | None = None
        self._submit = submit
        self._emitted = array("i")
        self._prompt = PromptReader(submit.id)
        self._lives = 0
        self._arrived_ns = time.monotonic_ns()
        self._first_ns = self._last_ns = 0

    @property
    def timeout_ns(self) -> int | None:
        """What is left of its time in the queue; None without a deadline, or once it has begun."""
        if self._submit.timeout_ns is None or self.begun:
            return None
        return self._submit.timeout_ns - (time.monotonic_ns() - self._arrived_ns)

    def submission(self) -> Submit:
        """For the next engine: prompt, all that was emitted, and what is left of its time."""
        self._lives += 1
        self._prompt.start_over()
        sampling = self._submit.sampling
        if self._emitted:
            # Its prompt was reported before its first token.
            sampling = replace(sampling, prompt_logprobs=None)
        return msgspec.structs.replace(
            self._submit,
            token_ids=self._submit.token_ids + _little_endian(self._emitted),
            sampling=sampling,
            timeout_ns=self.timeout_ns,
        )

    def take(self, row: RowTokens) -> None:
        if self.finishing:
            return
        if row.token_ids:
            self.drew = True
            self._last_ns = time.monotonic_ns()
            self._first_ns = self._first_ns or self._last_ns
            self._emitted.extend(row.token_ids)
        self.inbox.put(row.token_ids, self._prompt.fresh(row.logprobs) if row.logprobs else None)

    def settled(self) -> FinishReason | None:
        """How it ended, when all of it was drawn before its engine could say so."""
        if self.finishing:
            return self.finishing
        if self._emitted and self._emitted[-1] in self._submit.stop_token_ids:
            return "stop"
        if self._emitted and len(self._emitted) >= self._submit.max_tokens:
            return "length"
        return None

    def ending(self, ended: Ended) -> Ended:
        """An engine's last word, with a receipt over all of its lives."""
        if self._lives <= 1:
            return ended
        return msgspec.structs.replace(ended, receipt=self._receipt(ended.receipt))

    def ending_without_engine(self, reason: FinishReason) -> Ended:
        return Ended(self.id, reason, self._receipt(Receipt()))

    def _receipt(self, last_life: Receipt) -> Receipt:
        """Times as seen from here. What a lost engine computed for it is not known and not counted."""
        first_ns = self._first_ns or time.monotonic_ns()
        ttft_ns = first_ns - self._arrived_ns
        queue_ns = min(last_life.queue_ns, ttft_ns)
        return msgspec.structs.replace(
            last_life,
            queue_ns=queue_ns,
            prefill_ns=ttft_ns - queue_ns,
            decode_ns=max(0, self._last_ns - first_ns),
            tokens_generated=len(self._emitted),
        )


def _little_endian(ids: array[int]) -> bytes:
    if sys.byteorder == "little":
        return ids.tobytes()
    swapped = array("i", ids)
    swapped.byteswap()
    return swapped.tobytes()
