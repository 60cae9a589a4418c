"""Effects of where a request goes: routers, pools, failures."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

from effect_pages import Column, Effect, Row, bars, line
from effect_runs import MS, TTFT, TTFT99, at, figures, setup, swept, with_mean

from headway.catalog.system import Link
from headway.simulator.faults import Fault
from headway.simulator.record import Record
from headway.simulator.results import Slo, Summary
from headway.simulator.simulation import simulate
from headway.workload.agentic import Agentic
from headway.workload.lengths import Fixed
from headway.workload.synthetic import Synthetic

# Where a session's next call goes

REPLICAS = 4
ROUTERS = ["round-robin", "least-work", "session", "prefix"]


def _routing(v: Any, size: float) -> Row:
    config = setup(num_replicas=REPLICAS, router=v["router"], block_size=64)
    agents = Agentic("coding_agent", round(24 * size), concurrency=12, max_context=100_000)
    prompts = Synthetic(
        round(4000 * size), Fixed(200), Fixed(20), rate_per_s=20.0, prefixes=400, prefix_tokens=4096, name="prompts"
    )
    work = agents if v["workload"] == "agents" else prompts
    return figures(simulate(config, work.workload(0)))


def routing(size: float = 1.0) -> Effect:
    rows = swept({"workload": ["agents", "shared prompts"], "router": ROUTERS}, _routing, size)
    for row in rows:
        blind = at(rows, workload=row["workload"], router="round-robin")
        row["computed"] = (1 - row["hit_rate"]) / (1 - blind["hit_rate"])
    blind, session = (at(rows, workload="agents", router=router) for router in ("round-robin", "session"))
    lone, prefix = (at(rows, workload="shared prompts", router=router) for router in ("session", "prefix"))
    return Effect(
        rows,
        (
            Column("workload", "workload"),
            Column("router", "router"),
            Column("hit_rate", "prompt tokens from the cache", ".1%"),
            Column("computed", "computed, of round robin's", ".0%"),
            TTFT,
            TTFT99,
            Column("busy", "busy", ".1%"),
        ),
        [
            bars(rows, "workload", ("hit_rate", "prompt tokens from the cache"), "router"),
            bars(rows, "workload", ("ttft_p99_s", "TTFT p99, s"), "router"),
        ],
        {
            "blind": blind["hit_rate"],
            "session": session["hit_rate"],
            "times": 1 / session["computed"],
            "ttft": blind["ttft_p50_s"] / session["ttft_p50_s"],
            "lone": lone["hit_rate"],
            "prefix": prefix["hit_rate"],
        },
    )


# Prefill and decode on pools of their own

SLO = Slo(ttft_s=0.5, tpot_s=0.010)
GOOD = 0.9
"""Share of requests that keep the SLO: goodput is the highest rate at which so many do."""
LENGTHS = {"8,000 in, 100 out": (8000, 100), "500 in, 1,000 out": (500, 1000)}
PREFILLS = {("8,000 in, 100 out", 8): 5}
"""Of a fleet's replicas, where one is too few."""
LINKS = {"split, 50 GB/s": 50e9, "split, 1.25 GB/s": 1.25e9}
MIXED = {"mixed": 8192, "mixed, chunks of 512": 512}
RATES = [0.5 * 1.25**step for step in range(17)]
"""A second and replica."""


def _pools(v: Any, size: float) -> Row:
    """Goodput by bisection over RATES, and what the fleet is like there."""
    best: Summary | None = None
    low, high = 0, len(RATES)
    while low < high:
        middle = (low + high) // 2
        s = fleet_at_rate(v, RATES[middle] * v["replicas"], 15 * size)
        low, high, best = (middle + 1, high, s) if (s.goodput_share or 0) >= GOOD else (low, middle, best)
    if best is None:
        return {"goodput": 0.0}
    return figures(best) | {"goodput": RATES[low - 1]}


def fleet_at_rate(v: Any, rate_per_s: float, seconds: float) -> Summary:
    prompts, answers = (with_mean(mean, 0.3) for mean in LENGTHS[v["lengths"]])
    work = Synthetic(max(100, round(rate_per_s * seconds)), prompts, answers, 32_000, rate_per_s)
    config = setup(max_step_tokens=MIXED.get(v["fleet"], 8192), num_replicas=v["replicas"], router="least-work")
    if v["fleet"] in LINKS:
        prefills = PREFILLS.get((v["lengths"], v["replicas"]), 1)
        config = replace(config, handover=Link(LINKS[v["fleet"]], 5e-6))
        pools = (
            replace(config, role="prefill", num_replicas=prefills),
            replace(config, role="decode", num_replicas=v["replicas"] - prefills),
        )
        config = replace(config, pools=pools)
    return simulate(config, work.workload(0), SLO)


def pools(size: float = 1.0) -> Effect:
    axes: dict[str, list[Any]] = {"lengths": list(LENGTHS), "replicas": [2, 8], "fleet": [*MIXED, *LINKS]}
    rows = swept(axes, _pools, size)

    def ratio(first: int, fleet: str) -> float:
        """Of the rows from `first`, to the mixed fleet, which is the first of them."""
        return float(at(rows[first:], fleet=fleet)["goodput"] / rows[first]["goodput"])

    return Effect(
        rows,
        (
            Column("lengths", "tokens"),
            Column("replicas", "replicas"),
            Column("fleet", "fleet"),
            Column("goodput", "goodput, requests/s a replica", ".1f"),
            TTFT99,
            MS("tpot_p50_s", "TPOT p50, ms"),
            MS("itl_p99_s", "ITL p99, ms"),
        ),
        [
            bars(
                [row for row in rows if row["lengths"] == name],
                "replicas",
                ("goodput", f"goodput a replica; {name}"),
                "fleet",
            )
            for name in LENGTHS
        ],
        {
            "long_small": ratio(0, "split, 50 GB/s"),
            "long_large": ratio(4, "split, 50 GB/s"),
            "chunks": ratio(4, "mixed, chunks of 512"),
            "short_small": ratio(8, "split, 50 GB/s"),
            "short_large": ratio(12, "split, 50 GB/s"),
            "itl_mixed_ms": 1000 * rows[4]["itl_p99_s"],
            "itl_split_ms": 1000 * rows[6]["itl_p99_s"],
        },
    )


# A replica fails and comes back

FAILS_S, DOWN_S, BIN_S = 30, 20, 5
LATE_S = 0.5


class _Course:
    """TTFT by the time of arrival."""

    def __init__(self) -> None:
        self._ttft_s: dict[int, list[float]] = defaultdict(list)
        self._ends_ns: list[int] = []
        self.computed_tokens = 0

    def add(self, record: Record) -> None:
        self._ends_ns.append(record.end_ns)
        self._ttft_s[record.arrival_ns // (BIN_S * 10**9)].append(record.receipt.ttft_ns / 1e9)
        self.computed_tokens += record.receipt.tokens_computed

    def middle_per_s(self) -> float:
        """Requests that end in a second, without the first and the last quarter of them."""
        ends_ns, quarter = sorted(self._ends_ns), len(self._ends_ns) // 4
        return 2 * quarter * 1e9 / (ends_ns[3 * quarter] - ends_ns[quarter])

    def p90_s(self) -> dict[int, float]:
        """By the second in which a bin begins."""
        return {number * BIN_S: sorted(v)[int(0.9 * len(v))] for number, v in sorted(self._ttft_s.items())}


def around_failure(v: Any, size: float) -> Row:
    seconds = 30 if v["rate"] > 100 else 110 * size
    work = Synthetic(round(v["rate"] * seconds), Fixed(2000), with_mean(250, 0.5), 8000, rate_per_s=v["rate"])
    faults = (Fault("replica", FAILS_S, DOWN_S, replica=0),) if v["fails"] else ()
    config = setup(num_replicas=REPLICAS, router="least-work", max_running=64, max_step_tokens=2048, faults=faults)
    course = _Course()
    s = simulate(config, work.workload(0), sink=course)
    late = [start_s for start_s, ttft_s in course.p90_s().items() if ttft_s > LATE_S]
    return figures(s) | {
        "finished_per_s": course.middle_per_s(),
        "computed": course.computed_tokens,
        "recovered_s": max([*late, FAILS_S + DOWN_S - BIN_S]) + BIN_S - FAILS_S - DOWN_S,
        "course": [{"s": start_s, "ttft_s": ttft_s} for start_s, ttft_s in course.p90_s().items()],
    }


def failure(size: float = 1.0) -> Effect:
    [full] = swept({"rate": [200], "fails": [False]}, around_failure, size)
    capacity = full["finished_per_s"]
    rows = swept({"rate": [40, 54, 60], "fails": [False, True]}, around_failure, size)
    left = capacity * (1 - 1 / REPLICAS)
    for row in rows:
        backlog = DOWN_S * max(0.0, row["rate"] - left) if row["fails"] else 0.0
        row["load"] = row["rate"] / capacity
        row["expected_s"] = backlog / (capacity - row["rate"])
        row["what"] = "one replica down for 20 s" if row["fails"] else "none fails"
    lost = [row for row in rows if row["fails"]]
    course = [{"requests/s": f"{row['rate']} requests/s", **point} for row in lost for point in row["course"]]
    return Effect(
        rows,
        (
            Column("rate", "requests/s"),
            Column("load", "load", ".0%"),
            Column("what", "failure"),
            TTFT,
            TTFT99,
            MS("itl_p99_s", "ITL p99, ms"),
            Column("recovered_s", "late until, s after", ".0f"),
            Column("expected_s", "expected", ".0f"),
        ),
        [line(course, ("s", "time of arrival, s"), ("ttft_s", "TTFT p90, s"), "requests/s", log_y=True)],
        {"capacity": capacity, "left": left, "worst": lost[-1]["ttft_p99_s"]},
    )
