"""The step loop, message by message, with the scripted body and no process."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from headway.engine.loop import HEARTBEAT_S, Loop
from headway.engine.messages import (
    Began,
    Cancel,
    Drain,
    Ended,
    Finish,
    Heartbeat,
    Message,
    Refused,
    Stepped,
    Submit,
    ToEngine,
)
from headway.engine.wire import PeerGone
from headway.scheduler.config import CacheGroup, SchedulerConfig
from headway.scheduler.request import Sampling
from headway.scheduler.scheduler import Scheduler
from tests.process.scripted_engine import BAD_ROW, BAD_STEP, VOCAB, ScriptedExecutor, continuation


class Script:
    """A transport: each entry is what one `receive` gives; after the last one the peer is gone."""

    def __init__(self, *arrivals: list[ToEngine]) -> None:
        self.arrivals = deque(arrivals)
        self.sent: list[Message] = []
        self.waits_s: list[float] = []

    def receive(self, wait_s: float) -> list[ToEngine]:
        self.waits_s.append(wait_s)
        if not self.arrivals:
            raise PeerGone
        return self.arrivals.popleft()

    def send(self, *messages: Message) -> None:
        self.sent += messages

    def of(self, kind: type) -> list:
        return [message for message in self.sent if isinstance(message, kind)]

    def tokens(self, request_id: str) -> list[int]:
        return [t for step in self.of(Stepped) for row in step.rows if row.id == request_id for t in row.token_ids]


def submit(request_id: str, seed: int, prompt: int = 4, max_tokens: int = 8, **fields) -> Submit:
    tokens = np.arange(prompt, dtype="<i4") + 20
    tokens[0] = seed
    return Submit(request_id, tokens.tobytes(), prompt, max_tokens, fields.pop("sampling", Sampling()), **fields)


def run(*arrivals: list[ToEngine], depth: int = 1, **config) -> tuple[Script, ScriptedExecutor]:
    """Runs the loop until everything ended after a final Drain."""
    script, executor = Script(*arrivals, *([[]] * 500)), ScriptedExecutor()
    now_ns = iter(range(0, 10**12, 1000))
    settings = {"block_size": 4, "max_running": 4, "max_step_tokens": 16, "max_context": 64} | config
    scheduler = Scheduler(SchedulerConfig((CacheGroup("full", settings.pop("num_blocks", 64)),), **settings))
    Loop(scheduler, executor, script, lambda: next(now_ns), VOCAB, depth).run()
    assert scheduler.is_idle
    return script, executor


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_every_request_gets_its_tokens_and_then_one_ending(depth: int) -> None:
    submits = [submit(f"r{i}", 100 + i, prompt=3 + i, max_tokens=5 + i) for i in range(9)]
    script, executor = run(submits[:5], [], submits[5:], [Drain()], depth=depth)
    for i, s in enumerate(submits):
        assert script.tokens(s.id) == continuation(100 + i, 3 + i, 5 + i)
    ended = script.of(Ended)
    assert sorted(e.id for e in ended) == sorted(s.id for s in submits)
    assert {e.reason for e in ended} == {"length"}
    assert executor.most_in_flight == depth


def test_the_ending_comes_after_the_last_token_and_in_the_same_step() -> None:
    script, _ = run([submit("a", 100, max_tokens=3), Drain()])
    kinds = [type(m).__name__ for m in script.sent]
    assert kinds == ["Began", "Stepped", "Stepped", "Stepped", "Ended"]


def test_a_request_is_announced_before_it_rides() -> None:
    script, _ = run([submit("a", 100), submit("b", 101)], [submit("c", 102), Drain()], max_running=2)
    announced = [i for m in script.of(Began) for i in m.ids]
    assert announced == ["a", "b", "c"]
    assert script.sent.index(script.of(Began)[0]) < script.sent.index(script.of(Stepped)[0])


def test_a_request_that_was_begun_elsewhere_goes_on_where_it_was() -> None:
    known = [*np.frombuffer(submit("a", 100).token_ids, "<i4").tolist(), *continuation(100, 4, 3)]
    again = Submit("a", np.array(known, "<i4").tobytes(), 4, 8, Sampling())
    script, _ = run([again, Drain()])
    assert script.tokens("a") == continuation(100, 7, 5)


def test_a_failed_step_fails_its_own_requests_only() -> None:
    script, _ = run([submit("bad", BAD_STEP)], [], [submit("good", 100)], [Drain()])
    reasons = {e.id: (e.reason, e.error) for e in script.of(Ended)}
    assert reasons["bad"] == ("error", "out of memory: 1 GiB at 0x7f00")
    assert reasons["good"][0] == "length"


def test_a_failed_row_fails_its_own_request_only() -> None:
    script, _ = run([submit("bad", BAD_ROW), submit("good", 100), Drain()])
    assert {e.id: e.reason for e in script.of(Ended)} == {"bad": "error", "good": "length"}
    assert script.tokens("good") == continuation(100, 4, 8)


def test_cancel_and_finish_end_a_request_once() -> None:
    script, _ = run(
        [submit("a", 100, max_tokens=50), submit("b", 101, max_tokens=50)],
        [],
        [Cancel("a"), Finish("b"), Cancel("a"), Cancel("nobody"), Finish("nobody")],
        [Drain()],
    )
    assert sorted((e.id, e.reason) for e in script.of(Ended)) == [("a", "cancelled"), ("b", "stop")]


@pytest.mark.parametrize(
    ("bad", "kind", "words"),
    [
        (Submit("x", b"abc", 1, 1, Sampling()), "invalid", "token_ids"),
        (Submit("x", b"", 0, 1, Sampling()), "invalid", "num_prompt_tokens"),
        (Submit("x", b"\1\0\0\0", 2, 1, Sampling()), "invalid", "num_prompt_tokens"),
        (submit("x", VOCAB), "invalid", f"{VOCAB - 1}"),
        (submit("x", -1), "invalid", "token_ids"),
        (submit("x", 1, max_tokens=-1), "invalid", "max_tokens"),
        (submit("x", 1, stop_token_ids=(VOCAB,)), "invalid", "stop_token_ids"),
        (submit("x", 1, max_tokens=61), "never_fits", "65"),
        (submit("x", 1, max_tokens=2**63), "never_fits", "64"),
        (submit("ok", 1), "invalid", "ok"),
    ],
)
def test_a_bad_request_is_refused_with_a_reason_and_the_others_go_on(bad: Submit, kind: str, words: str) -> None:
    script, _ = run([submit("ok", 100), bad, Drain()])
    [refused] = script.of(Refused)
    assert (refused.id, refused.kind) == (bad.id, kind)
    assert words in refused.reason
    assert script.tokens("ok") == continuation(100, 4, 8)


def test_a_full_queue_is_said_at_once() -> None:
    script, _ = run([submit(f"r{i}", 100) for i in range(4)] + [Drain()], max_queued_requests=3)
    assert [(r.id, r.kind) for r in script.of(Refused)] == [("r3", "queue_full")]


def test_it_never_waits_while_there_is_work_and_waits_for_a_message_when_there_is_none() -> None:
    script, _ = run([], [submit("a", 100, max_tokens=3)], [], [], [], [Drain()])
    assert script.waits_s == [0.0, HEARTBEAT_S, 0.0, 0.0, 0.0, HEARTBEAT_S]
    assert len(script.of(Heartbeat)) >= 2


def test_it_sleeps_no_longer_than_to_the_next_deadline() -> None:
    """A request that can't be scheduled yet is expired by the clock, not by a message."""
    script, _ = run(
        [submit("a", 100, max_tokens=60)],
        [submit("late", 101, timeout_ns=20_000)],
        *([[]] * 30),
        [Drain()],
        max_running=1,
        max_step_tokens=4,
    )
    assert [e.reason for e in script.of(Ended) if e.id == "late"] == ["expired"]


def test_prompt_logprobs_come_once_and_in_order_though_the_prompt_is_computed_in_chunks() -> None:
    sampling = Sampling(logprobs=0, prompt_logprobs=0)
    script, _ = run([submit("a", 100, prompt=40, max_tokens=3, sampling=sampling), Drain()])
    rows = [row for step in script.of(Stepped) for row in step.rows if row.id == "a"]
    assert [-p.logprob for row in rows if row.logprobs for p in row.logprobs.prompt] == list(range(1, 40))
    assert [len(row.logprobs.drawn) for row in rows if row.token_ids and row.logprobs] == [1, 1, 1]


def test_prompt_logprobs_come_once_though_a_preemption_has_the_prompt_computed_again() -> None:
    wanted = submit("wanted", 100, prompt=8, max_tokens=40, sampling=Sampling(logprobs=0, prompt_logprobs=0))
    script, _ = run(
        [submit("first", 101, prompt=8, max_tokens=40), wanted, Drain()], num_blocks=14, prefix_caching=False
    )
    assert script.of(Stepped)[-1].stats.preemptions_total > 0
    rows = [row for step in script.of(Stepped) for row in step.rows if row.id == "wanted"]
    assert [-p.logprob for row in rows if row.logprobs for p in row.logprobs.prompt] == list(range(1, 8))
    assert script.tokens("wanted") == continuation(100, 8, 40)


def test_a_lost_peer_ends_the_loop_in_the_middle_of_work() -> None:
    script = Script([submit("a", 100, max_tokens=60)], [])
    scheduler = Scheduler(SchedulerConfig((CacheGroup("full", 64),), max_running=4, max_context=64))
    loop = Loop(scheduler, ScriptedExecutor(), script, lambda: 0, VOCAB)
    with pytest.raises(PeerGone):
        loop.run()
