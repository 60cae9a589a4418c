"""Random workloads that queue, share prefixes, come back and are preempted on the fleets of `drive`."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from headway.simulator.tier_memory import TierMemory
from headway.workload.call import Call, Workload


def waits(number: int) -> st.SearchStrategy[tuple[int, ...] | None]:
    """For the call before it, or for any of those before it."""
    if not number:
        return st.none()
    some = st.lists(st.integers(0, number - 1), min_size=1, max_size=2, unique=True).map(tuple)
    return st.one_of(st.none(), st.none(), some)


@st.composite
def workloads(draw, most_sessions: int = 12) -> Workload:
    """Sessions of one to four calls; later ones extend the first prompt, and may go side by side or wait for several;
    arrivals may coincide, gaps may be 0.
    """
    sessions = []
    now_s = 0.0
    for number in range(draw(st.integers(1, most_sessions))):
        now_s += draw(st.sampled_from([0.0, 0.0, 0.0005, 0.001, 0.0137, 0.2]))
        shared = draw(st.integers(0, 6))
        length = draw(st.integers(1, 60))
        calls = []
        for i in range(draw(st.integers(1, 4))):
            blocks = length // 4
            ids = [*range(min(shared, blocks)), *(1000 * (number + 1) + j for j in range(shared, blocks))]
            calls.append(
                Call(
                    id=f"{number}.{i}",
                    num_input_tokens=length,
                    num_output_tokens=draw(st.integers(1, 40)),
                    session=f"s{number}",
                    agent=draw(st.sampled_from([0, 0, 1])),
                    after=draw(waits(i)),
                    arrival_s=None if i else now_s,
                    gap_s=draw(st.sampled_from([0.0, 0.0, 0.001, 0.05])),
                    hash_ids=tuple(ids),
                )
            )
            length += draw(st.integers(0, 30))
        sessions.append(calls)
    return Workload("random", sessions, hash_block_size=4, concurrency=draw(st.sampled_from([None, None, 3])))


SLOW = TierMemory("dram", size_bytes=40_000, bytes_per_s=1e6)
"""A block of `drive` takes 1 ms, as long as a step, and there are 40."""
TIERS = [(), (), (SLOW,), (replace(SLOW, size_bytes=9_000, ttl_s=0.05), TierMemory("ssd", 200_000, 3e5, 0.002))]

# `beside`: a second cache group.
settings_of_fleets = st.fixed_dictionaries(
    {
        "num_blocks": st.sampled_from([48, 52, 60, 200]),
        "max_running": st.sampled_from([1, 3, 8]),
        "replicas": st.sampled_from([1, 2, 3]),
        "router": st.sampled_from(["round-robin", "least-work", "session", "prefix"]),
        "prefix_caching": st.booleans(),
        "tiers": st.sampled_from(TIERS),
        "kv_ttl_ns": st.sampled_from([None, None, 20_000_000]),
        "beside": st.sampled_from(["nothing", "nothing", "window", "state"]),
    }
)
