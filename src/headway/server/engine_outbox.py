"""Which sequence goes to the engine next, and which one is to blame when an engine dies.

Everything on board when an engine died is suspect. In the next engine suspects get on one at a time: each has to draw a
token before the next one is sent. When the engine dies again with one on trial, that one alone is blamed, and is the
first to get on the next engine, by itself. One that was blamed MAX_CRASHES times runs by itself to its end.

Only a sequence that nobody rode with is given up: at its second crash when it was on trial, or else at the third that
it had alone. Then the culprit is found, and the others are hardly suspect. Sequences that were still queued are
innocent and follow once the suspects are through.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.server.engine_sequence import OpenSequence

MAX_CRASHES = 3


class Outbox:
    def __init__(self) -> None:
        self._suspects: dict[str, OpenSequence] = {}
        self._waiting: dict[str, OpenSequence] = {}
        self._sent: dict[str, OpenSequence] = {}
        self._trial: OpenSequence | None = None

    def __len__(self) -> int:
        return len(self._suspects) + len(self._waiting)

    def put(self, sequence: OpenSequence) -> None:
        self._waiting[sequence.id] = sequence

    def next(self) -> OpenSequence | None:
        """Takes out the one to send now; None when nothing may be sent."""
        if self._trial is not None:
            return None
        source = self._suspects or self._waiting
        first = next(iter(source.values()), None)
        if first is None or (_rides_alone(first) and self._sent):
            return None
        if source is self._suspects:
            self._trial = first
        self._sent[first.id] = source.pop(first.id)
        return first

    def clear(self, sequence: OpenSequence) -> None:
        """It drew a token."""
        if self._trial is sequence and not _rides_alone(sequence):
            self._trial = None

    def remove(self, sequence: OpenSequence) -> None:
        if self._trial is sequence:
            self._trial = None
        for where in (self._suspects, self._waiting, self._sent):
            where.pop(sequence.id, None)

    def engine_died(self, unfinished: Iterable[OpenSequence]) -> list[OpenSequence]:
        """Takes back everything unfinished, in order of arrival; returns those that no engine may have again."""
        everyone = list(unfinished)
        riders = [sequence for sequence in everyone if sequence.on_board]
        trial, self._trial = self._trial, None
        tried = trial is not None and trial.on_board
        for sequence in riders:
            sequence.crashes += sequence is trial or not tried
            sequence.crashes_alone += len(riders) == 1
        given_up = [s for s in riders if s.crashes_alone >= MAX_CRASHES or (tried and s.crashes > 1 and riders == [s])]
        # The one on trial is the next to try, alone; then those in their first steps, where most faults show.
        riders.sort(key=lambda sequence: (sequence is not trial, sequence.drew))
        untried = [s for s in everyone if s.id in self._suspects or (s is trial and not tried)]
        self._suspects = {s.id: s for s in riders + untried if s not in given_up}
        self._waiting = {s.id: s for s in everyone if s.id not in self._suspects and s not in given_up}
        self._sent.clear()
        if given_up:
            for sequence in everyone:
                sequence.crashes = min(sequence.crashes, 1)
        return given_up


def _rides_alone(sequence: OpenSequence) -> bool:
    return sequence.crashes >= MAX_CRASHES
