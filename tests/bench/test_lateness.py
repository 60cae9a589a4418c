"""A load generator that stalls is seen to be late, in what it sends and in what it reads."""

from __future__ import annotations

import asyncio

import pytest

from headway.bench import lateness
from headway.bench.lateness import PROBE_S, LagProbe
from headway.bench.load import Load, Pace
from headway.bench.record import Record
from headway.workload.call import Call, Workload
from tests.bench.asking import ENDPOINT, client
from tests.bench.scripted import Server, answer
from tests.bench.virtual import VirtualLoop, run


def stall(at_s: float, for_s: float) -> None:
    """Something holds the event loop: time goes on, and nothing is done."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.call_at(at_s, loop.pass_time, for_s)


def test_the_probe_sees_a_stall_and_nothing_else() -> None:
    async def watched() -> list[float]:
        stall(0.95, 0.5)
        probe = LagProbe()
        probe.start()
        await asyncio.sleep(2.0)
        probe.stop()
        return probe.lags_s

    lags_s = run(watched())
    assert max(lags_s) == pytest.approx(0.5 - (0.96 - 0.95))
    assert sum(lag_s > 1e-9 for lag_s in lags_s) == 1


def test_a_request_that_is_due_in_a_stall_goes_out_late() -> None:
    async def driven() -> Load:
        stall(0.9, 0.4)
        asking = client(Server(lambda _: answer(1.0, [])))

        async def send(call: Call, body: bytes, scheduled_s: float) -> Record:
            return await asking.ask(call, body, load.start_s, scheduled_s)

        sessions = [(Call(str(i), 10, 1, arrival_s=float(i)),) for i in range(3)]
        load = Load(Workload("w", sessions), Pace(), lambda _: ENDPOINT.body("x", 1), send)
        await load.run(asyncio.Event())
        asking.close()
        return load

    records = sorted(run(driven()).records, key=lambda record: record.scheduled_s)
    assert [record.lateness_s for record in records] == pytest.approx([0.0, 0.3, 0.0])


def test_long_runs_keep_a_bounded_number_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lateness, "MAX_SAMPLES", 64)

    async def watched() -> int:
        probe = LagProbe()
        probe.start()
        await asyncio.sleep(1000 * PROBE_S)
        probe.stop()
        return len(probe.lags_s)

    assert 16 <= run(watched()) < 64
