"""Step times fitted to a log: a known machine is found again, whatever the log shows of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.simulator.recorded import LoggedStep, RecordedTimer

US, MS = 1_000, 1_000_000
HOST_NS = 400 * US
Law = Callable[[int, int, int], float]


def machine(tokens: int, sequences: int, pairs: int) -> float:
    """Nanoseconds."""
    return 50 * MS + 0.5 * MS * tokens + 2 * MS * sequences + 2 * US * pairs


DECODES = [(n, n, n * context) for n in (1, 2, 3, 4, 6) for context in range(40, 300, 8)]
PROMPTS = [
    (t, n, t * past) for t in (5, 9, 21, 30, 47, 90, 130, 200, 256) for n in (1, 3) for past in range(50, 450, 50)
]


def log_of(shapes: list[tuple[int, int, int]], law: Law = machine) -> list[LoggedStep]:
    return [LoggedStep(*shape, device_ns=round(law(*shape)), host_ns=HOST_NS) for shape in shapes]


def device_ns(timer: RecordedTimer, tokens: int, sequences: int, pairs: int) -> int:
    return timer.one((tokens, sequences, sequences, [pairs], [0], [0])).device_ns


@pytest.mark.parametrize(
    "shape",
    [(1, 1, 77), (2, 2, 303), (3, 3, 500), (6, 6, 1000), (16, 1, 800), (32, 1, 900), (32, 3, 6000), (220, 2, 30_000)],
)
def test_a_known_machine_is_found_again(shape: tuple[int, int, int]) -> None:
    timer = RecordedTimer(log_of(DECODES + PROMPTS))
    assert device_ns(timer, *shape) == pytest.approx(machine(*shape), rel=0.03)
    assert timer.one((*shape[:2], 1, [shape[2]], [0], [0])).host_ns == pytest.approx(HOST_NS, abs=1)
    assert timer.median_error < 0.02


def test_parts_that_hide_each_other_are_found_again() -> None:
    """So are the moods of a kernel: two rows take longer than three."""

    def law(tokens: int, sequences: int, pairs: int) -> float:
        mood = 1.2 if tokens == sequences == 2 else 1.0
        return mood * ((57 * MS) ** 1.5 + (2.7 * MS * tokens + 2 * US * pairs) ** 1.5) ** (1 / 1.5)

    timer = RecordedTimer(log_of(DECODES + PROMPTS, law))
    for shape in ((1, 1, 77), (2, 2, 303), (3, 3, 500), (16, 1, 800), (33, 1, 900), (70, 2, 5000), (220, 2, 30_000)):
        assert device_ns(timer, *shape) == pytest.approx(law(*shape), rel=0.06)


def test_noise_moves_it_little() -> None:
    rng = np.random.default_rng(5)
    log = log_of(DECODES + PROMPTS, lambda *shape: machine(*shape) * rng.lognormal(0, 0.1))
    timer = RecordedTimer(log)
    for shape in ((1, 1, 77), (2, 2, 303), (3, 3, 500), (32, 1, 900), (220, 2, 30_000)):
        assert device_ns(timer, *shape) == pytest.approx(machine(*shape), rel=0.06)


STEPS = st.lists(
    st.builds(
        lambda rows, more, past, device, host: LoggedStep(rows + more, rows, (rows + more) * past, device, host),
        st.integers(1, 8),
        st.sampled_from((0, 0, 1, 7, 31, 100, 255)),
        st.integers(1, 500),
        st.integers(10 * US, 100 * MS),
        st.integers(1, MS),
    ),
    min_size=8,
    max_size=40,
)


@settings(deadline=None)
@given(STEPS)
def test_totals_come_out(steps: list[LoggedStep]) -> None:
    timer = RecordedTimer(steps)
    predicted = sum(device_ns(timer, s.tokens, s.sequences, s.pairs) for s in steps)
    assert predicted == pytest.approx(sum(s.device_ns for s in steps), rel=1e-3)
    host_ns = sum(timer.one((s.tokens, s.sequences, 0, [s.pairs], [0], [0])).host_ns for s in steps)
    assert host_ns == pytest.approx(sum(s.host_ns for s in steps), rel=1e-3, abs=len(steps))


@settings(deadline=None)
@given(STEPS, st.integers(1, 8), st.integers(0, 100_000))
def test_more_tokens_or_pairs_are_never_quicker(steps: list[LoggedStep], rows: int, pairs: int) -> None:
    timer = RecordedTimer(steps)
    by_tokens = [device_ns(timer, rows + more, rows, pairs) for more in (1, 2, 20, 31, 32, 33, 100, 5000)]
    assert by_tokens == sorted(by_tokens)
    by_pairs = [device_ns(timer, rows + more, rows, pairs + further) for more in (0, 9) for further in (0, 10, 1000)]
    assert by_pairs == sorted(by_pairs[:3]) + sorted(by_pairs[3:])
    assert min(by_tokens + by_pairs) >= 1


@settings(deadline=None)
@given(STEPS, st.integers(1, 8), st.sampled_from((0, 5, 64)), st.integers(1, 5))
def test_several_steps_are_each_of_them(steps: list[LoggedStep], rows: int, more: int, count: int) -> None:
    timer = RecordedTimer(steps)
    pairs = np.arange(count) * rows + 100
    several = timer.several(count, (rows + more, rows, rows, [pairs], [pairs], [0]))
    each = [timer.one((rows + more, rows, rows, [n], [n], [0])) for n in pairs.tolist()]
    assert several.device_ns.tolist() == [step.device_ns for step in each]
    assert {several.host_ns} == {step.host_ns for step in each}


def test_a_few_steps_tell_nothing() -> None:
    with pytest.raises(ValueError, match="7 steps are too few to fit step times to; at least 8 are needed"):
        RecordedTimer(log_of(DECODES[:7]))
