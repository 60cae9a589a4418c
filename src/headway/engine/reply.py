"""What goes back for each step: the tokens that rows drew, with the log-probabilities that they asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headway.engine.messages import RowTokens
from headway.scheduler.contract import RowLogprobs, StepOutcome, StepPlan

if TYPE_CHECKING:
    from headway.scheduler.commit import Committed


class PromptReader:
    """Reports each prompt position of one request once, though a preemption or a crash has it computed again."""

    __slots__ = ("_seen", "_sent", "id")

    def __init__(self, request_id: str) -> None:
        self.id = request_id
        self._seen = self._sent = 0

    def start_over(self) -> None:
        """The prompt is going to be computed again from its first position."""
        self._seen = 0

    def fresh(self, logprobs: RowLogprobs) -> RowLogprobs:
        """Without those prompt positions that were reported before."""
        known = min(len(logprobs.prompt), max(0, self._sent - self._seen))
        self._seen += len(logprobs.prompt)
        self._sent = max(self._sent, self._seen)
        return RowLogprobs(logprobs.drawn, logprobs.prompt[known:])


class Replies:
    """Turns a commit into rows. Remembers only requests with prompt logprobs: at most one entry an open request."""

    def __init__(self) -> None:
        self._readers: dict[str, PromptReader] = {}
        self._by_slot: dict[int, PromptReader] = {}

    def rows(self, plan: StepPlan, outcome: StepOutcome, committed: Committed) -> list[RowTokens]:
        """Plans come in the order in which they were collected."""
        self._follow(plan)
        logprobs = dict(outcome.logprobs or {})
        rows: list[RowTokens] = []
        tokens, at = committed.token_ids.tolist(), 0
        for request_id, slot, count in zip(
            committed.request_ids, committed.slots.tolist(), committed.counts.tolist(), strict=True
        ):
            seen = self._seen(slot, logprobs.pop(slot, None), count) if logprobs else None
            rows.append(RowTokens(request_id, tokens[at : at + count], seen))
            at += count
        for slot, rest in logprobs.items():
            reader = self._by_slot.get(slot)
            if reader is not None and rest.prompt:
                rows.append(RowTokens(reader.id, [], reader.fresh(RowLogprobs((), rest.prompt))))
        return rows

    def forget(self, request_id: str) -> None:
        self._readers.pop(request_id, None)

    def _follow(self, plan: StepPlan) -> None:
        if self._by_slot:
            for slot in plan.released.tolist():
                self._by_slot.pop(slot, None)
        for admitted in plan.admitted:
            if admitted.request.reads_whole_prompt:
                request_id = admitted.request.id
                reader = self._readers.setdefault(request_id, PromptReader(request_id))
                reader.start_over()
                self._by_slot[admitted.slot] = reader

    def _seen(self, slot: int, logprobs: RowLogprobs | None, count: int) -> RowLogprobs | None:
        """A row that ended within its drafts drew more than it keeps."""
        if logprobs is None:
            return None
        kept = RowLogprobs(logprobs.drawn[:count], logprobs.prompt)
        reader = self._by_slot.get(slot)
        return reader.fresh(kept) if reader is not None else kept
