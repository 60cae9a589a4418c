"""What a step gave, written into the rows: which tokens are valid now, and who has ended by them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from headway.scheduler.contract import IN_FLIGHT, Ints, StepOutcome, StepPlan, ints
from headway.scheduler.request import FinishReason
from headway.scheduler.rows import Rows
from headway.scheduler.sequence import Sequence, Status

_NO_DECODES = np.zeros((1, 0), np.int64)
_NO_SLOTS = ints()
_NO_SEQUENCES = np.zeros(0, object)


class OutcomeError(ValueError):
    """A body returned an outcome that does not belong to the plan."""


class Drawn(NamedTuple):
    """By one row."""

    sequence: Sequence
    slot: int
    token_ids: list[int]


class Committed(msgspec.Struct, frozen=True):
    """What rows drew, for those still wanted: plain decodes, then the rest. Tokens stand row by row.

    Put together only when asked for: a simulator does not ask.
    """

    decoded: Ints
    """[steps, rows] tokens of the plain decodes."""
    decoded_slots: Ints
    decoded_sequences: npt.NDArray[np.object_]
    others: list[Drawn]
    """Among these are all who drew their first token."""
    ended: list[tuple[Sequence, FinishReason]]

    def joined(self, after: Committed) -> Committed:
        """With what rows after the plain decodes drew."""
        return Committed(
            self.decoded, self.decoded_slots, self.decoded_sequences, after.others, self.ended + after.ended
        )

    @property
    def slots(self) -> Ints:
        return np.concatenate([self.decoded_slots, ints(*(row.slot for row in self.others))])

    @property
    def counts(self) -> Ints:
        decodes = np.full(len(self.decoded_slots), len(self.decoded))
        return np.concatenate([decodes, ints(*(len(row.token_ids) for row in self.others))])

    @property
    def token_ids(self) -> Ints:
        return np.concatenate([self.decoded.T.ravel(), *(ints(*row.token_ids) for row in self.others)])

    @property
    def request_ids(self) -> list[str]:
        sequences = [*self.decoded_sequences.tolist(), *(row.sequence for row in self.others)]
        return [sequence.request.id for sequence in sequences]


def check_outcome(plan: StepPlan, outcome: StepOutcome) -> None:
    """Raises OutcomeError."""
    drawing = int(np.count_nonzero(plan.samples))
    expected = drawing * outcome.steps
    if outcome.accepted is not None:
        if len(outcome.accepted) != drawing:
            raise OutcomeError(f"step {plan.number}: drafts of {len(outcome.accepted)} rows where {drawing} drew")
        expected += int(outcome.accepted.sum())
    if outcome.number != plan.number:
        raise OutcomeError(f"outcome of step {outcome.number} where step {plan.number} was due")
    if outcome.error is None and len(outcome.token_ids) != expected:
        raise OutcomeError(f"step {plan.number}: {len(outcome.token_ids)} drawn tokens where {expected} were due")
    if not 1 <= outcome.steps <= plan.repeats:
        raise OutcomeError(f"step {plan.number}: ran {outcome.steps} times where 1 to {plan.repeats} were allowed")
    if outcome.accepted is not None and (outcome.accepted > plan.drafts[plan.samples]).any():
        raise OutcomeError(f"step {plan.number}: accepted more tokens than were drafted")


def commit_decodes(rows: Rows, plan: StepPlan, outcome: StepOutcome, num_rows: int, planned_past: bool) -> Committed:
    """The first `num_rows` rows, each with one token, no drafts, and one draw, `outcome.steps` times over.

    `planned_past`: later plans are in flight, which may hold the row's next token already.
    """
    slots, starts, steps = plan.slots[:num_rows], plan.starts[:num_rows], outcome.steps
    decoded = outcome.token_ids[: steps * num_rows].reshape(steps, num_rows)
    last, latest = starts + steps, decoded[-1]
    length = last + 1
    rows.committed[slots] = last
    if steps > 1:
        rows.planned[slots] = last
        rows.known[slots] = length
    if rows.has_tokens:
        if steps == 1:
            rows.tokens[slots, last] = latest
        else:
            rows.tokens[slots, starts + 1 + np.arange(steps)[:, None]] = decoded
        rows.next_token[slots] = np.where(rows.planned[slots] == last, latest, IN_FLIGHT) if planned_past else latest
    stopped = latest == rows.stop_token[slots]
    if rows.more_stop_tokens:
        more = rows.more_stop_tokens
        stopped |= np.fromiter(
            (token in more.get(slot, ()) for slot, token in zip(slots.tolist(), latest.tolist(), strict=True)), np.bool_
        )
    ending = stopped | (length >= rows.limit[slots])
    ended: list[tuple[Sequence, FinishReason]] = [
        (rows.sequence[slots[i]], "stop" if stopped[i] else "length") for i in ending.nonzero()[0].tolist()
    ]
    return Committed(decoded, slots, rows.sequence[slots], [], ended)


def commit_rows(rows: Rows, plan: StepPlan, outcome: StepOutcome, first_row: int) -> Committed:
    """Rows from `first_row` on, any mix of chunks, decodes and drafts; those whose requests have ended are passed over.

    No row before `first_row` may have drafts, and each must draw.
    """
    drawing = at = first_row
    kept: list[Drawn] = []
    ended: list[tuple[Sequence, FinishReason]] = []
    failed = set(outcome.failed.tolist()) if outcome.failed is not None else set()
    columns = (plan.slots, plan.starts, plan.counts, plan.drafts, plan.samples)
    for slot, start, count, drafts, draws in zip(*(column[first_row:].tolist() for column in columns), strict=True):
        drawn: list[int] = []
        if draws:
            accepted = int(outcome.accepted[drawing]) if outcome.accepted is not None else 0
            drawing += 1
            drawn = outcome.token_ids[at : at + accepted + 1].tolist()
            at += accepted + 1
        sequence: Sequence = rows.sequence[slot]
        if sequence.status is Status.ENDING or slot in failed:
            rows.known[slot] -= draws
            if slot in failed:
                sequence.error = "the model gave no usable result for this request"
                ended.append((sequence, "error"))
            continue
        end = start + count - drafts
        drawn, reason = _until_stop(rows, slot, end, drawn)
        _advance(rows, slot, end, drawn)
        if drawn:
            kept.append(Drawn(sequence, slot, drawn))
        if reason is None and end == rows.limit[slot]:
            reason = "length"
        if reason is not None:
            ended.append((sequence, reason))
    return Committed(_NO_DECODES, _NO_SLOTS, _NO_SEQUENCES, kept, ended)


def fail_rows(rows: Rows, plan: StepPlan, error: str) -> Committed:
    """Nothing was computed: every row of the plan whose request lives ends with an error."""
    ended: list[tuple[Sequence, FinishReason]] = []
    for slot, draws in zip(plan.slots.tolist(), plan.samples.tolist(), strict=True):
        sequence: Sequence = rows.sequence[slot]
        rows.known[slot] -= draws
        if sequence.status is not Status.ENDING:
            sequence.error = error
            ended.append((sequence, "error"))
    return Committed(_NO_DECODES, _NO_SLOTS, _NO_SEQUENCES, [], ended)


def _until_stop(rows: Rows, slot: int, end: int, drawn: list[int]) -> tuple[list[int], FinishReason | None]:
    """Cuts drawn tokens, the first of which stands at position `end`, after a stop token or at the limit."""
    stop, more = int(rows.stop_token[slot]), rows.more_stop_tokens.get(slot, frozenset())
    limit = int(rows.limit[slot])
    for i, token in enumerate(drawn):
        if token == stop or token in more:
            return drawn[: i + 1], "stop"
        if end + i + 1 >= limit:
            return drawn[: i + 1], "length"
    return drawn, None


def _advance(rows: Rows, slot: int, end: int, drawn: list[int]) -> None:
    """Positions up to `end`, and those of accepted drafts, are valid; the last drawn token is the next to compute."""
    more = max(0, len(drawn) - 1)
    if rows.has_tokens and drawn:
        rows.tokens[slot, end : end + len(drawn)] = drawn
    rows.committed[slot] = end + more
    rows.planned[slot] += more
    rows.known[slot] += more
    if drawn:
        rows.next_token[slot] = drawn[-1] if rows.planned[slot] == end + more else IN_FLIGHT
