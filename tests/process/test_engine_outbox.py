"""Who is blamed when engines die, with engines played out in memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway.engine.messages import EngineStats, RowTokens, Submit
from headway.scheduler.request import Sampling
from headway.server.engine import Overloaded
from headway.server.engine_outbox import MAX_CRASHES, Outbox
from headway.server.engine_patience import Backoff, Patience
from headway.server.engine_room import QueueLimits, WaitingRoom
from headway.server.engine_sequence import OpenSequence
from headway.server.engine_totals import Totals

INNOCENT_TOKENS = 6


class World:
    """Engines that run what the outbox sends; `fatal[i]` is the token count at which sequence i kills one, or None."""

    def __init__(self, fatal: list[int | None]) -> None:
        self.fatal = {f"r{i}": at for i, at in enumerate(fatal)}
        self.drawn = dict.fromkeys(self.fatal, 0)
        self.open = {id: OpenSequence(Submit(id, b"\1\0\0\0", 1, 100, Sampling())) for id in self.fatal}
        self.outbox = Outbox()
        self.on_board: list[OpenSequence] = []
        self.given_up: list[str] = []
        self.crashes = 0
        for sequence in self.open.values():
            self.outbox.put(sequence)

    def send(self, most: int) -> None:
        for _ in range(most):
            sequence = self.outbox.next()
            if sequence is None:
                return
            sequence.on_board = True
            self.on_board.append(sequence)

    def step(self) -> None:
        if any(self.fatal[s.id] == self.drawn[s.id] for s in self.on_board):
            self.crash()
            return
        for sequence in list(self.on_board):
            self.drawn[sequence.id] += 1
            sequence.take(RowTokens(sequence.id, [7]))
            self.outbox.clear(sequence)
            if self.drawn[sequence.id] == INNOCENT_TOKENS:
                self.on_board.remove(sequence)
                self.outbox.remove(sequence)
                del self.open[sequence.id]

    def crash(self) -> None:
        self.crashes += 1
        for sequence in self.outbox.engine_died(self.open.values()):
            self.given_up.append(sequence.id)
            self.outbox.remove(sequence)
            del self.open[sequence.id]
        for sequence in self.open.values():
            sequence.on_board = sequence.drew = False
        self.on_board = []


def play(fatal: list[int | None], bursts: list[int]) -> World:
    world = World(fatal)
    for turn in range(1000):
        if not world.open:
            return world
        world.send(bursts[turn % len(bursts)])
        world.step()
    raise AssertionError(f"still open: {list(world.open)}")


BURSTS = st.lists(st.integers(1, 8), min_size=1, max_size=5)


@given(st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=12), BURSTS)
def test_exactly_the_poison_requests_are_given_up_and_engines_stop_dying(
    fatal: list[int | None], bursts: list[int]
) -> None:
    """Whenever they come and however late in its life each one kills."""
    world = play(fatal, bursts)
    poison = {f"r{i}" for i, at in enumerate(fatal) if at is not None}
    assert set(world.given_up) == poison
    assert world.crashes <= MAX_CRASHES * len(poison)


def test_queued_requests_are_innocent() -> None:
    world = World([None, 0, None])
    while world.outbox.next():
        pass
    for _ in range(10):
        assert world.outbox.engine_died(world.open.values()) == []
        assert [world.outbox.next() for _ in range(3)] == list(world.open.values())
    assert {s.crashes for s in world.open.values()} == {0}


@given(st.lists(st.tuples(st.sampled_from(["enter", "begin", "leave"]), st.integers(1, 50)), max_size=60))
def test_the_waiting_room_never_holds_more_than_its_limits(events: list[tuple[str, int]]) -> None:
    limits = QueueLimits(max_requests=3, max_tokens=60)
    room, seats = WaitingRoom(limits), 2
    waiting: list[int] = []
    begun: list[int] = []
    for kind, tokens in events:
        queued = len(waiting) - max(0, seats - len(begun))
        if kind == "enter":
            try:
                room.enter(tokens, seats)
            except Overloaded:
                assert queued >= limits.max_requests or sum(waiting) + tokens > limits.max_tokens
            else:
                waiting.append(tokens)
                assert queued < limits.max_requests
                assert sum(waiting) <= limits.max_tokens or len(waiting) == 1
        elif kind == "begin" and waiting and len(begun) < seats:
            begun.append(waiting.pop(0))
            room.begin(begun[-1])
        elif kind == "leave" and begun:
            room.leave(begun.pop(), begun=True)
        elif kind == "leave" and waiting:
            room.leave(waiting.pop(), begun=False)
    while waiting:
        room.leave(waiting.pop(), begun=False)
    room.enter(10**9, 0)


@given(st.lists(st.tuples(st.integers(0, 100), st.booleans()), max_size=30))
def test_totals_never_go_back(events: list[tuple[int, bool]]) -> None:
    totals, steps, seen = Totals(), 0, 0
    for more, dies in events:
        steps += more
        totals.update(EngineStats(steps_total=steps, num_running=1))
        assert totals.stats(0).steps_total >= seen
        seen = totals.stats(0).steps_total
        if dies:
            totals.engine_died()
            steps = 0
            assert (totals.stats(4).num_running, totals.stats(4).num_waiting) == (0, 4)
    assert seen == sum(more for more, _ in events)


def test_back_off_doubles_up_to_its_bound_and_starts_over_after_a_long_life() -> None:
    now_s = 0.0
    backoff = Backoff(Patience(backoff_s=1, max_backoff_s=5), clock_s=lambda: now_s)
    with backoff.timing():
        now_s += 4
    assert [backoff.next_s() for _ in range(5)] == [1, 2, 4, 5, 5]
    with backoff.timing():
        now_s += 6
    assert backoff.next_s() == 1
