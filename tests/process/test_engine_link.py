"""The link against a real engine process around the scripted body: crashes, hangs, garbage, overload, cancels."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headway.engine.messages import PROTOCOL, Ended, Submit
from headway.scheduler.request import Sampling
from headway.server import engine_sequence
from headway.server.engine import EngineFailed, Expired, InvalidRequest, NeverFits, Overloaded
from headway.server.engine_child import EngineUnusable
from headway.server.engine_link import EngineLink
from headway.server.engine_outbox import MAX_CRASHES
from headway.server.engine_room import QueueLimits
from tests.passing_time import PassingTime
from tests.process.linking import ENGINE, PATIENCE, Start
from tests.process.scripted_engine import BAD_STEP, LATE_POISON, POISON, VOCAB, continuation, drawn

SLOW = ("--step-s", "0.005")
ENDLESS = ("--step-s", "0.1")
"""For requests of hundreds of tokens that something else ends long before they are drawn."""
PROMPT = 4


def submit(request_id: str, seed: int, max_tokens: int = 20, prompt: int = PROMPT, **fields) -> Submit:
    tokens = np.arange(prompt, dtype="<i4") + 20
    tokens[0] = seed
    return Submit(request_id, tokens.tobytes(), prompt, max_tokens, fields.pop("sampling", Sampling()), **fields)


async def read(generation) -> tuple[list[int], Ended]:
    tokens: list[int] = []
    ended = None
    async for delta in generation:
        assert ended is None
        tokens += delta.token_ids
        ended = delta.ended
    assert ended is not None
    return tokens, ended


async def read_into(tokens: list[int], generation) -> None:
    async for delta in generation:
        tokens += delta.token_ids


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.005)


def is_in_state(letter: str, pid: int) -> bool:
    return f"State:\t{letter}" in Path(f"/proc/{pid}/status").read_text()


async def test_a_stream_gets_all_tokens_and_a_receipt(start: Start) -> None:
    link = await start()
    assert link.is_ready
    assert (link.info.model, link.info.vocab) == ("scripted", VOCAB)
    tokens, ended = await read(link.generate(submit("a", 100)))
    assert tokens == continuation(100, PROMPT, 20)
    assert (ended.reason, ended.receipt.tokens_generated) == ("length", 20)
    assert link.stats.steps_total >= 20


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
async def test_an_engine_that_dies_during_twenty_streams_costs_no_token_and_doubles_none(
    start: Start, number: signal.Signals
) -> None:
    link = await start("--ends-after", "10", "--ends-by", number.name, "--once")
    first_pid = link.engine_pid
    generations = [link.generate(submit(f"r{i}", 100 + i, max_tokens=30 + i)) for i in range(20)]
    for i, (tokens, ended) in enumerate(await asyncio.gather(*map(read, generations))):
        assert tokens == continuation(100 + i, PROMPT, 30 + i)
        assert (ended.reason, ended.receipt.tokens_generated) == ("length", 30 + i)
        assert 0 < ended.receipt.ttft_ns < 10**12
    assert link.restarts_total == 1
    assert link.engine_pid != first_pid
    assert link.stats.steps_total >= 49, "the longest answer drew a token a step, in both engines together"


async def test_totals_never_go_back_when_an_engine_is_lost(start: Start) -> None:
    link = await start()
    await read(link.generate(submit("a", 100)))
    before = link.stats
    assert before.tokens_computed_total > 0
    os.kill(link.engine_pid, signal.SIGKILL)
    await until(lambda: not link.is_ready)
    assert link.stats.tokens_computed_total == before.tokens_computed_total
    assert link.stats.blocks_total == 0
    await until(lambda: link.is_ready)
    await read(link.generate(submit("b", 101)))
    assert link.stats.tokens_computed_total > before.tokens_computed_total
    assert link.stats.blocks_total == before.blocks_total


async def test_a_hanging_engine_is_killed_and_the_streams_go_on(start: Start) -> None:
    link = await start("--ends-after", "6", "--ends-by", "SIGSTOP", "--once")
    stopped = link.engine_pid
    tasks = [asyncio.create_task(read(link.generate(submit(f"r{i}", 100 + i, max_tokens=60)))) for i in range(5)]
    await until(lambda: is_in_state("T", stopped))
    passing = PassingTime(asyncio.get_running_loop())
    while link.is_ready:
        passing.jump(PATIENCE.stall_s / 10)
        await asyncio.sleep(0)
    for i, (tokens, _) in enumerate(await asyncio.gather(*tasks)):
        assert tokens == continuation(100 + i, PROMPT, 60)
    assert link.restarts_total == 1
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)


async def test_an_idle_engine_is_never_taken_for_a_hanging_one(start: Start) -> None:
    link = await start()
    passing = PassingTime(asyncio.get_running_loop())
    for _ in range(100):
        passing.jump(PATIENCE.stall_s)
        await asyncio.sleep(0)
    assert link.restarts_total == 0


async def test_requests_wait_while_an_engine_is_restarted(start: Start) -> None:
    link = await start()
    os.kill(link.engine_pid, signal.SIGKILL)
    await until(lambda: not link.is_ready)
    tokens, _ = await read(link.generate(submit("a", 100)))
    assert tokens == continuation(100, PROMPT, 20)


async def test_a_poison_request_is_quarantined_and_the_others_survive(start: Start) -> None:
    link = await start(*SLOW)
    tasks = [asyncio.create_task(read(link.generate(submit(f"r{i}", 100 + i, max_tokens=60)))) for i in range(10)]
    poison = link.generate(submit("poison", POISON))
    late = [asyncio.create_task(read(link.generate(submit(f"l{i}", 200 + i, max_tokens=60)))) for i in range(10)]
    with pytest.raises(EngineFailed):
        await read(poison)
    # One crash that all shared, one that pointed to it unless it was the first to be tried, and one that it had alone.
    assert 1 <= link.restarts_total <= 2
    for i, (tokens, _) in enumerate(await asyncio.gather(*tasks)):
        assert tokens == continuation(100 + i, PROMPT, 60)
    for i, (tokens, _) in enumerate(await asyncio.gather(*late)):
        assert tokens == continuation(200 + i, PROMPT, 60)
    assert 2 <= link.restarts_total <= 3


async def test_a_poison_request_that_runs_alone_gets_one_retry(start: Start) -> None:
    link = await start()
    with pytest.raises(EngineFailed):
        await read(link.generate(submit("poison", POISON)))
    assert link.restarts_total == 1
    await read(link.generate(submit("good", 100)))


async def test_what_an_engine_said_before_it_died_is_heard_though_a_message_to_it_comes_to_nothing(
    start: Start,
) -> None:
    link = await start()
    pid = link.engine_pid
    poison = link.generate(submit("poison", POISON))
    while not is_in_state("Z", pid):
        time.sleep(0.01)  # nothing is read meanwhile
    other = link.generate(submit("other", 100))
    with pytest.raises(EngineFailed):
        await read(poison)
    assert link.restarts_total == 1, "the first crash was its own"
    assert (await read(other))[0] == continuation(100, PROMPT, 20)


async def test_three_poison_requests_at_once_take_no_other_with_them(start: Start) -> None:
    link = await start(*SLOW)
    seeds = [100, POISON, 101, LATE_POISON, 102, POISON, 103]
    generations = [link.generate(submit(f"r{i}", seed, max_tokens=40)) for i, seed in enumerate(seeds)]
    results = await asyncio.gather(*map(read, generations), return_exceptions=True)
    for seed, result in zip(seeds, results, strict=True):
        if seed < 20:
            assert isinstance(result, EngineFailed)
        else:
            assert isinstance(result, tuple)
            assert result[0] == continuation(seed, PROMPT, 40)
    await until(lambda: link.is_ready)
    assert 3 <= link.restarts_total <= 3 * MAX_CRASHES


async def test_a_request_that_rode_in_three_crashes_is_given_up_though_it_made_progress(start: Start) -> None:
    link = await start("--ends-after", "20")
    tokens: list[int] = []
    with pytest.raises(EngineFailed):
        await read_into(tokens, link.generate(submit("a", 100, max_tokens=400)))
    assert tokens == continuation(100, PROMPT, 3 * 20)


async def test_a_failed_step_fails_its_requests_without_a_restart(start: Start) -> None:
    link = await start()
    with pytest.raises(EngineFailed, match="out of memory"):
        await read(link.generate(submit("bad", BAD_STEP)))
    await read(link.generate(submit("good", 100)))
    assert link.restarts_total == 0


@pytest.mark.parametrize("fault", ["garbage", "pickle", "twice"])
async def test_garbage_on_the_socket_costs_an_engine_and_no_request(start: Start, fault: str) -> None:
    link = await start("--fault", fault, "--once")
    tokens, _ = await read(link.generate(submit("a", 100)))
    assert tokens == continuation(100, PROMPT, 20)
    assert link.restarts_total == 1


async def test_another_protocol_is_refused_with_both_numbers(start: Start) -> None:
    with pytest.raises(EngineUnusable, match=f"{PROTOCOL + 6}.*{PROTOCOL}"):
        await start("--fault", "protocol")


@pytest.mark.parametrize(
    ("fault", "words"),
    [("exit", "exit status 3"), ("unusable", "lm_head.weight is missing"), ("silent", "not ready after 0.2 s")],
)
async def test_an_engine_that_never_gets_ready_is_one_error(start: Start, fault: str, words: str) -> None:
    patience = replace(PATIENCE, start_s=0.2) if fault == "silent" else PATIENCE
    with pytest.raises(EngineUnusable, match=words):
        await start("--fault", fault, patience=patience)


async def test_a_command_that_does_not_exist_is_one_error() -> None:
    with pytest.raises(EngineUnusable, match="could not be started"):
        await EngineLink(("/nonexistent/python",)).start()


async def test_when_no_engine_comes_up_again_nobody_waits_for_ever(tmp_path: Path) -> None:
    """The engine's program is gone after the first start."""
    program = tmp_path / "engine"
    program.write_text(f'#!/bin/sh\nexec "{ENGINE[0]}" "{ENGINE[1]}" --step-s 0.1 "$@"\n')
    program.chmod(0o755)
    link = EngineLink((str(program),), patience=PATIENCE)
    await link.start()
    try:
        begun = link.generate(submit("begun", 100, max_tokens=400))
        await anext(begun)
        program.unlink()
        os.kill(link.engine_pid, signal.SIGKILL)
        await until(lambda: not link.is_ready)
        waiting = link.generate(submit("waiting", 101))
        with pytest.raises(Overloaded):
            await read(waiting)
        with pytest.raises(EngineFailed):
            await read(begun)
        with pytest.raises(Overloaded) as refused:
            link.generate(submit("late", 102))
        assert refused.value.retry_after_s > 0
        # The client is shown this: why no engine starts is for the log, as paths may be in it.
        assert str(refused.value) == "no engine is up"
        assert not link.is_ready
    finally:
        await link.close()


async def test_a_request_whose_last_token_was_drawn_before_the_crash_gets_no_token_more(start: Start) -> None:
    """The engine is stopped after it drew everything that the request wants and before it can be asked again."""
    link = await start("--ends-after", "20", "--ends-by", "SIGSTOP", "--once")
    stop = drawn(100, PROMPT + 6)
    by_length = link.generate(submit("length", 101, max_tokens=7))
    by_stop = link.generate(submit("stop", 100, max_tokens=50, stop_token_ids=(stop,)))
    hold = link.generate(submit("hold", 102, max_tokens=100))
    receive = link._receive

    def without_endings(message) -> None:
        if not isinstance(message, Ended):
            receive(message)

    link._child._on_message = without_endings
    await until(lambda: link.stats.num_running == 1)
    os.kill(link.engine_pid, signal.SIGKILL)
    tokens, ended = await read(by_length)
    assert (tokens, ended.reason) == (continuation(101, PROMPT, 7), "length")
    tokens, ended = await read(by_stop)
    assert (tokens, ended.reason) == (continuation(100, PROMPT, 7), "stop")
    assert ended.receipt.tokens_generated == 7
    assert (await read(hold))[0] == continuation(102, PROMPT, 100)


async def test_finish_ends_a_stream_with_its_receipt_and_nothing_is_drawn_after_it(start: Start) -> None:
    link = await start(*ENDLESS)
    generation = link.generate(submit("a", 100, max_tokens=400))
    await anext(generation)
    generation.finish("stop")
    generation.finish("stop")
    rest, ended = await read(generation)
    assert rest == []
    assert ended.reason == "stop"
    assert ended.receipt.steps > 0


async def test_finish_holds_when_the_engine_dies_at_that_moment(start: Start) -> None:
    link = await start(*ENDLESS)
    generation = link.generate(submit("a", 100, max_tokens=400))
    await anext(generation)
    os.kill(link.engine_pid, signal.SIGSTOP)
    generation.finish("stop")
    os.kill(link.engine_pid, signal.SIGKILL)
    _, ended = await read(generation)
    assert ended.reason == "stop"


async def test_the_queue_is_bounded_by_requests_and_refuses_at_once(start: Start) -> None:
    link = await start(*SLOW, "--max-running", "2", limits=QueueLimits(max_requests=3, retry_after_s=7))
    taken = [link.generate(submit(f"r{i}", 100 + i)) for i in range(5)]
    with pytest.raises(Overloaded) as refused:
        link.generate(submit("r5", 105))
    assert refused.value.retry_after_s == 7
    await asyncio.gather(*map(read, taken))
    await read(link.generate(submit("r6", 106)))


async def test_the_queue_is_bounded_by_tokens(start: Start) -> None:
    link = await start(*SLOW, "--max-running", "1", limits=QueueLimits(max_tokens=100))
    alone = link.generate(submit("long", 100, prompt=300))
    with pytest.raises(Overloaded, match="300 tokens are waiting"):
        link.generate(submit("more", 101, prompt=40))
    await read(alone)
    await read(link.generate(submit("more", 101, prompt=40)))


async def test_ten_thousand_requests_at_once_are_taken_up_to_the_limit_and_all_taken_ones_are_served(
    start: Start,
) -> None:
    link = await start(limits=QueueLimits(max_requests=500))
    taken, refused = [], 0
    for i in range(10_000):
        try:
            taken.append(link.generate(submit(f"r{i}", 100, max_tokens=2)))
        except Overloaded:
            refused += 1
    assert len(taken) + refused == 10_000
    assert len(taken) == 564
    for tokens, _ in await asyncio.gather(*map(read, taken)):
        assert tokens == continuation(100, PROMPT, 2)


async def test_two_hundred_cancels_at_once_free_everything_and_disturb_nobody(start: Start) -> None:
    link = await start("--step-s", "0.02")
    survivor = asyncio.create_task(read(link.generate(submit("survivor", 100, max_tokens=100))))
    doomed = [link.generate(submit(f"r{i}", 101, max_tokens=400)) for i in range(200)]
    await anext(doomed[0])
    for generation in doomed:
        generation.cancel()
        generation.cancel()
    assert [d async for d in doomed[1]] == []
    assert (await survivor)[0] == continuation(100, PROMPT, 100)
    await read(link.generate(submit("r0", 102, max_tokens=2)))
    assert link.stats.num_running + link.stats.num_waiting <= 1
    assert await link.drain(120)


async def test_a_dropped_generation_is_cancelled(start: Start) -> None:
    link = await start(*ENDLESS)
    generation = link.generate(submit("a", 100, max_tokens=400))
    await anext(generation)
    del generation
    gc.collect()
    assert await link.drain(120)
    assert link.restarts_total == 0


async def test_a_reader_that_stalls_gets_everything_in_one_piece(start: Start) -> None:
    link = await start()
    generation = link.generate(submit("a", 100, max_tokens=300))
    await read(link.generate(submit("b", 101, max_tokens=300)))
    await until(lambda: link.stats.num_running == 0)
    [delta] = [d async for d in generation]
    assert delta.token_ids == continuation(100, PROMPT, 300)


async def test_logprobs_are_complete_after_a_crash(start: Start) -> None:
    link = await start("--ends-after", "10", "--once")
    sampling = Sampling(logprobs=0, prompt_logprobs=0)
    generation = link.generate(submit("a", 100, prompt=300, max_tokens=60, sampling=sampling))
    deltas = [delta async for delta in generation]
    assert link.restarts_total == 1
    shown = [d.logprobs for d in deltas if d.logprobs]
    assert [-p.logprob for lp in shown for p in lp.prompt] == list(range(1, 300))
    for delta in deltas:
        if delta.token_ids and delta.logprobs and delta.logprobs.drawn:
            assert [p.token_id for p in delta.logprobs.drawn] == delta.token_ids
    assert [t for d in deltas for t in d.token_ids] == continuation(100, 300, 60)


@pytest.mark.parametrize("wrong", [{"timeout_ns": 2**64}, {"session": "\ud800"}, {"priority": -(2**70)}])
async def test_what_can_not_be_sent_is_refused_and_stays_nowhere(start: Start, wrong: dict[str, object]) -> None:
    link = await start("--ends-after", "5", "--once")
    with pytest.raises(InvalidRequest, match="can't be sent"):
        link.generate(submit("odd", 99, **wrong))
    tokens, _ = await read(link.generate(submit("a", 100, max_tokens=60)))
    assert tokens == continuation(100, PROMPT, 60)
    assert link.restarts_total == 1
    assert await link.drain(120)


async def test_refusals_of_the_engine_keep_their_kind(start: Start) -> None:
    link = await start()
    with pytest.raises(NeverFits, match="1004"):
        await read(link.generate(submit("long", 100, max_tokens=1000)))
    with pytest.raises(InvalidRequest, match="token_ids"):
        await read(link.generate(submit("bad", VOCAB)))
    held = link.generate(submit("a", 100))
    with pytest.raises(InvalidRequest, match="'a'"):
        link.generate(submit("a", 101))
    await read(held)


@pytest.mark.parametrize("engine_up", [True, False])
async def test_a_deadline_that_passes_in_the_queue_expires_the_request(start: Start, engine_up: bool) -> None:
    link = await start(*ENDLESS, "--max-running", "1")
    first = link.generate(submit("first", 100, max_tokens=400))
    await anext(first)
    if not engine_up:
        os.kill(link.engine_pid, signal.SIGSTOP)
    with pytest.raises(Expired):
        await read(link.generate(submit("late", 101, timeout_ns=50_000_000)))
    if not engine_up:
        os.kill(link.engine_pid, signal.SIGCONT)
    await anext(first)


async def test_a_deadline_means_nothing_once_a_request_has_begun(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    link = await start("--ends-after", "5", "--once", "--step-s", "0.05")
    hour_ns = 3600 * 10**9
    generation = link.generate(submit("a", 100, timeout_ns=hour_ns))
    await anext(generation)
    PassingTime(asyncio.get_running_loop()).jump(hour_ns / 1e9)
    now_ns = time.monotonic_ns
    monkeypatch.setattr(engine_sequence.time, "monotonic_ns", lambda: now_ns() + hour_ns)
    _, ended = await read(generation)
    assert (ended.reason, link.restarts_total) == ("length", 1)


async def test_drain_lets_open_streams_end_and_takes_no_new_ones(start: Start) -> None:
    link = await start(*SLOW)
    generation = link.generate(submit("a", 100, max_tokens=50))
    drained = asyncio.create_task(link.drain(120))
    await asyncio.sleep(0)
    with pytest.raises(Overloaded, match="shutting down"):
        link.generate(submit("b", 101))
    assert (await read(generation))[0] == continuation(100, PROMPT, 50)
    assert await drained


async def test_drain_survives_a_crash_and_gives_up_at_its_limit(start: Start) -> None:
    link = await start(*SLOW, "--ends-after", "10", "--ends-by", "SIGSTOP", "--once")
    generation = link.generate(submit("a", 100, max_tokens=50))
    slow = link.generate(submit("slow", 100, max_tokens=400))
    await anext(generation)
    os.kill(link.engine_pid, signal.SIGKILL)
    assert not await link.drain(0.01)
    assert (await read(generation))[1].reason == "length"
    slow.cancel()


async def test_close_leaves_no_process_and_fails_what_is_open(start: Start) -> None:
    link = await start(*ENDLESS)
    generation = link.generate(submit("a", 100, max_tokens=400))
    await anext(generation)
    pid = link.engine_pid
    await link.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    with pytest.raises(EngineFailed):
        await read(generation)


async def test_close_leaves_no_process_though_an_engine_was_just_being_ended(start: Start) -> None:
    link = await start()
    pid = link.engine_pid
    free = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        asyncio.get_running_loop().set_default_executor(executor)
        executor.submit(free.wait)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: not link.is_ready)
        closing = asyncio.create_task(link.close())
        for _ in range(10):
            await asyncio.sleep(0)
        free.set()
        await closing
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


PARENT = """
import asyncio, sys
from headway.server.engine_link import EngineLink
from tests.process.test_engine_link import submit
async def main():
    link = EngineLink(sys.argv[1:])
    await link.start()
    busy = [link.generate(submit(f"r{i}", 100, max_tokens=500)) for i in range(5)]
    await anext(busy[0])
    print(link.engine_pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@pytest.mark.parametrize("asleep", ["while a model is loaded", "while a step runs"])
def test_a105_an_engine_that_reads_nothing_exits_with_its_parent(asleep: str) -> None:
    code = "import sys, time; from headway.engine.run import wire_from_fd; wire_from_fd(int(sys.argv[1]))"
    code += f"; print({asleep!r}, flush=True)"
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", f"{code}; time.sleep(1000)", str(theirs.fileno())]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, text=True) as engine:
        theirs.close()
        assert engine.stdout.readline() == f"{asleep}\n"
        if "step" in asleep:
            ours.sendall(b"unread")
        ours.close()
        assert engine.wait(120) == 0


async def test_an_engine_whose_parent_is_killed_exits() -> None:
    command = [sys.executable, "-c", PARENT, *ENGINE, *SLOW]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as parent:
        engine_pid = int(parent.stdout.readline())
        parent.kill()

    def gone() -> bool:
        try:
            return is_in_state("Z", engine_pid)
        except OSError:
            return True

    await until(gone)
