"""Which sequence goes to the engine next, and which one is to blame when an engine dies.

Everything on board when an engine died is suspect. In the next engine suspects get on one at a time: each has to draw a
token before the next one is sent. When the engine dies again with one on trial, that one alone is blamed: if nobody
else was on board it is quarantined, otherwise it is the first to get on the next engine, by itself. Sequences that were
still queued are innocent and follow once the suspects are through.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.server.engine_sequence import OpenSequence

MAX_CRASHES = 3
"""A sequence that was on board this often when an engine died is given up, though it drew tokens in between."""


class Outbox:
    def __init__(self) -> None:
        self._suspects: dict[str, OpenSequence] = {}
        self._waiting: dict[str, OpenSequence] = {}
        self._trial: OpenSequence | None = None

    def __len__(self) -> int:
        return len(self._suspects) + len(self._waiting)

    def put(self, sequence: OpenSequence) -> None:
        self._waiting[sequence.id] = sequence

    def next(self) -> OpenSequence | None:
        """Takes out the one to send now; None when nothing may be sent."""
        if self._trial is not None:
            return None
        if self._suspects:
            self._trial = _pop_first(self._suspects)
            return self._trial
        return _pop_first(self._waiting) if self._waiting else None

    def clear(self, sequence: OpenSequence) -> None:
        """It drew a token."""
        if self._trial is sequence:
            self._trial = None

    def remove(self, sequence: OpenSequence) -> None:
        self.clear(sequence)
        self._suspects.pop(sequence.id, None)
        self._waiting.pop(sequence.id, None)

    def engine_died(self, unfinished: Iterable[OpenSequence]) -> list[OpenSequence]:
        """Takes back everything unfinished, in order of arrival; returns those that no engine may have again."""
        everyone = list(unfinished)
        riders = [sequence for sequence in everyone if sequence.on_board]
        trial, self._trial = self._trial, None
        tried = trial is not None and trial.on_board
        for sequence in riders:
            sequence.crashes += sequence is trial or not tried
        quarantined = [s for s in riders if s.crashes >= MAX_CRASHES or (tried and s.crashes > 1 and riders == [s])]
        # The one on trial is the next to try, alone; then those in their first steps, where most faults show.
        riders.sort(key=lambda sequence: (sequence is not trial, sequence.drew))
        untried = [s for s in everyone if s.id in self._suspects or (s is trial and not tried)]
        self._suspects = {s.id: s for s in riders + untried if s not in quarantined}
        self._waiting = {s.id: s for s in everyone if s.id not in self._suspects and s not in quarantined}
        return quarantined


def _pop_first(sequences: dict[str, OpenSequence]) -> OpenSequence:
    return sequences.pop(next(iter(sequences)))
