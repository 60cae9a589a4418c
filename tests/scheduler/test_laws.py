"""The brain under random events: whatever comes in whatever order, its laws hold and everyone gets the right tokens."""

from __future__ import annotations

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headway.scheduler.block_pool import BlockPool
from headway.scheduler.config import CacheGroup, Speculation
from headway.scheduler.refusal import NeverFits, QueueFull
from headway.scheduler.request import Request
from headway.scheduler.step_log import replay

from .drive import Drive, config, expected_output, request
from .strategies import configs, prompts


def stopping_script(request_id: str, position: int) -> int:
    """Stops now and then, at a place that depends on the request."""
    value = (hash_of(request_id) + position * 13) % 23
    return value % 6 if value else 0


def hash_of(text: str) -> int:
    return sum(ord(c) * (i + 3) for i, c in enumerate(text))


PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)


class Brain(RuleBasedStateMachine):
    """Random arrivals, cancellations, outside endings, steps and failed steps, with one to three plans in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: dict[str, Request] = {}
        self.cut: set[str] = set()
        """Cancelled, finished outside, or failed: what came out is a beginning of what was expected."""

    @initialize(config=configs, depth=st.integers(1, 3))
    def start(self, config, depth: int) -> None:
        self.drive = Drive(config, depth, stopping_script)

    @rule(
        prompt=prompts,
        max_tokens=st.integers(0, 20),
        priority=st.integers(0, 2),
        salt=st.sampled_from([b"", b"x"]),
        session=st.sampled_from([None, "s"]),
        more_stops=st.booleans(),
    )
    def arrive(self, prompt, max_tokens, priority, salt, session, more_stops) -> None:
        name = f"r{len(self.requests)}"
        stops = (0, 4) if more_stops else (0,)
        new = request(name, prompt, max_tokens, priority=priority, salt=salt, session=session, stop_token_ids=stops)
        try:
            self.drive.add(new)
        except (NeverFits, QueueFull):
            return
        self.requests[name] = new

    @rule(data=st.data(), reason=st.sampled_from(["cancelled", "stop"]))
    @precondition(lambda self: self.alive())
    def end_outside(self, data, reason) -> None:
        name = data.draw(st.sampled_from(self.alive()))
        if self.drive.brain.finish(name, reason, self.drive.now_ns):
            self.cut.add(name)

    @rule()
    def submit(self) -> None:
        if len(self.drive.plans) < self.drive.depth:
            self.drive.submit()

    @rule()
    @precondition(lambda self: self.drive.plans)
    def collect(self) -> None:
        self.drive.collect()

    @rule(steps=st.integers(1, 8))
    def run_on(self, steps: int) -> None:
        for _ in range(steps):
            self.drive.step()

    @rule()
    @precondition(lambda self: self.drive.plans)
    def fail_a_step(self) -> None:
        self.cut |= set(self.alive())
        self.drive.body.fail_next = "out of memory"
        self.drive.collect()

    @rule(data=st.data(), ok=st.booleans())
    @precondition(lambda self: self.drive.body.transfers)
    def end_a_transfer(self, data, ok) -> None:
        self.drive.finish_transfer(data.draw(st.sampled_from(sorted(self.drive.body.transfers))), ok)

    def alive(self) -> list[str]:
        return [name for name in self.requests if name not in self.drive.ended]

    @invariant()
    def outputs_begin_as_expected(self) -> None:
        if hasattr(self, "drive"):
            for name, output in self.drive.outputs.items():
                expected = expected_output(self.requests[name], stopping_script) if name in self.requests else []
                assert output == expected[: len(output)]

    def teardown(self) -> None:
        if not hasattr(self, "drive"):
            return
        self.drive.settle()
        assert set(self.drive.ended) == set(self.requests), "every request ends, in exactly one way"
        for name, asked in self.requests.items():
            if name not in self.cut:
                assert self.drive.outputs[name] == expected_output(asked, stopping_script)
                receipt = self.drive.ended[name].receipt
                assert receipt.tokens_generated == len(self.drive.outputs[name])
        assert self.drive.scheduler.is_idle
        pools = [*self.drive.scheduler._cache.pools, *self.drive.scheduler._transfers.tiers.pools.values()]
        assert all(pool.num_held == 0 for pool in pools), "no block leaked"
        replay(self.drive.log)


TestBrain = Brain.TestCase
TestBrain.settings = settings(max_examples=100, stateful_step_count=30, deadline=None, phases=PHASES)


class Pool(RuleBasedStateMachine):
    """A block pool against a model: a set of holds by block, and what is published."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(6)
        self.holds: list[int] = []
        self.published: dict[bytes, int] = {}

    @rule(count=st.integers(0, 3))
    def allocate(self, count: int) -> None:
        if count > self.pool.num_available:
            return
        blocks = self.pool.allocate(count)
        assert not set(blocks) & set(self.holds), "a held block was given away"
        self.holds += blocks
        self.published = {k: b for k, b in self.published.items() if b not in blocks}

    @rule(data=st.data(), key=st.sampled_from([b"a", b"b", b"c"]))
    @precondition(lambda self: self.holds)
    def publish(self, data, key: bytes) -> None:
        block = data.draw(st.sampled_from(self.holds))
        new = key not in self.published and block not in self.published.values()
        assert self.pool.publish(block, key) == new
        if new:
            self.published[key] = block

    @rule(key=st.sampled_from([b"a", b"b", b"c"]))
    def share(self, key: bytes) -> None:
        block = self.pool.find(key)
        assert block == self.published.get(key), "what was published is found until it is evicted"
        if block is not None:
            self.pool.hold([block])
            self.holds.append(block)

    @rule(data=st.data())
    @precondition(lambda self: self.holds)
    def release(self, data) -> None:
        block = data.draw(st.sampled_from(self.holds))
        self.holds.remove(block)
        self.pool.release([block])

    @invariant()
    def laws(self) -> None:
        self.pool.check()
        assert self.pool.num_held == len(set(self.holds))


TestPool = Pool.TestCase
TestPool.settings = settings(max_examples=100, deadline=None)


def test_no_starvation_within_a_priority() -> None:
    """Requests keep arriving; each still starts after all that came before it and ends within a bound."""
    drive = Drive(config(num_blocks=24, max_running=3, groups=(CacheGroup("full", 24),), speculation=Speculation()))
    for i in range(60):
        drive.add(request(f"r{i}", [i] * (5 + i % 20), 6))
        drive.step()
    drive.run()
    admitted = [a.request.id for plan in drive.body.plans for a in plan.admitted]
    firsts = list(dict.fromkeys(admitted))
    assert firsts == [f"r{i}" for i in range(60)]
