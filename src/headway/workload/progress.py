"""How far a session has come: which call goes next, and which go side by side."""

from __future__ import annotations

from headway.workload.call import Session, WorkloadError


class Progress:
    """Law: as every call ends once, each call that waits for others is set free once, after all of them."""

    def __init__(self, session: Session) -> None:
        """Raises WorkloadError for a call that waits for none, for itself or for a later one."""
        self._session = session
        self._unfinished = len(session)
        self._waiting: dict[int, list[int]] = {}
        """By call: those that name it in `after`."""
        self._missing: dict[int, int] = {}
        for number, call in enumerate(session):
            if call.after is not None:
                self._enter(number, call.after)

    def _enter(self, number: int, after: tuple[int, ...]) -> None:
        call = self._session[number]
        if not after or not 0 <= min(after) <= max(after) < number or call.arrival_s is not None:
            raise WorkloadError(f"call {call.id}: it must wait for earlier calls of its session, not for {list(after)}")
        self._missing[number] = len(after)
        for earlier in after:
            self._waiting.setdefault(earlier, []).append(number)

    @property
    def is_over(self) -> bool:
        return not self._unfinished

    def ended(self, number: int) -> list[int]:
        """A call has ended. The calls that waited for it last: each goes its `gap_s` from now."""
        self._unfinished -= 1
        free = [number + 1] if self._follows_plainly(number + 1) else []
        for waiting in self._waiting.get(number, ()):
            self._missing[waiting] -= 1
            if not self._missing[waiting]:
                free.append(waiting)
        return free

    def _follows_plainly(self, number: int) -> bool:
        if number >= len(self._session):
            return False
        call = self._session[number]
        return call.arrival_s is None and call.after is None
