"""Effects of where a request goes: routers, pools, failures."""

from __future__ import annotations

from typing import Any

from effect_pages import Column, Effect, Row, bars
from effect_runs import TTFT, TTFT99, at, figures, setup, swept

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
