"""Which sequence goes to the engine next, and which one is to blame when an engine dies.

Everything that rode in an engine's last steps is suspect. In the next engine suspects get on one at a time: each has to
draw a token before the next one is sent. So when a suspect kills the engine again, no other can be meant, and only
that one is quarantined. Sequences that were still queued are innocent and follow once the suspects are through.
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
        trial, self._trial = self._trial, None
        guilty = trial if trial is not None and trial.on_board else None
        quarantined = []
        untried, self._suspects, self._waiting = self._suspects, {}, {}
        for sequence in unfinished:
            if sequence.on_board and guilty is None:
                sequence.crashes += 1
            if sequence is guilty or sequence.crashes >= MAX_CRASHES:
                quarantined.append(sequence)
            elif sequence.on_board or sequence is trial or sequence.id in untried:
                self._suspects[sequence.id] = sequence
            else:
                self._waiting[sequence.id] = sequence
        return quarantined


def _pop_first(sequences: dict[str, OpenSequence]) -> OpenSequence:
    return sequences.pop(next(iter(sequences)))
