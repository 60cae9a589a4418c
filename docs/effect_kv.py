"""Effects of where KV waits for a session's next call, and for how long."""

from __future__ import annotations

from typing import Any

from effect_pages import Column, Effect, Row, bars, line
from effect_runs import TTFT, at, catalog, figures, setup, swept

from headway.simulator.simulation import Setup, simulate
from headway.simulator.tier_memory import TierMemory
from headway.workload.agentic import Agentic

BLOCK = 256
"""Tokens. Large, as contexts are long: runs are quicker, and a call computes half a block more."""
HOURS = 4 * 365 * 24
"""Over which a tier's price is spread."""


# Tiers below a replica


def tier(name: str, size_bytes: float) -> TierMemory:
    """So much of a tier of the catalog, at the price of so much."""
    known = catalog().tiers[name]
    usd_per_hour = None if known.usd_per_byte is None else size_bytes * known.usd_per_byte / HOURS
    return TierMemory(name, size_bytes, known.read_bytes_per_s, known.latency_s, usd_per_hour=usd_per_hour)


MEMORIES = {
    "HBM": (),
    "+ 64 GB DRAM": (("dram", 64e9),),
    "+ 256 GB DRAM": (("dram", 256e9),),
    "+ 2 TB SSD": (("dram", 256e9), ("ssd", 2e12)),
    "+ 10 TB remote": (("dram", 256e9), ("remote", 10e12)),
}


def _tiers(v: Any, size: float) -> Row:
    tiers = tuple(tier(*part) for part in MEMORIES[v["memory"]])
    work = Agentic("coding_agent", round(64 * size), rate_per_s=0.1, max_context=100_000)
    s = simulate(setup(block_size=BLOCK, tiers=tiers), work.workload(0))
    return figures(s) | {
        "idle_bytes": sum(use.mean_idle_bytes for use in s.kv),
        "loaded": sum(use.loaded_tokens for use in s.kv) / s.input_tokens,
        "computed": s.input_tokens - s.reused_tokens,
        "tier_share": (s.tier_usd or 0.0) / s.chip_usd if s.chip_usd else 0.0,
    }


def tiers(size: float = 1.0) -> Effect:
    rows = swept({"memory": list(MEMORIES)}, _tiers, size)
    for row in rows:
        row["recomputed"] = row["computed"] / rows[0]["computed"]
    small, large = rows[1:3]
    return Effect(
        rows,
        (
            Column("memory", "memory"),
            Column("hit_rate", "prompt tokens not computed", ".1%"),
            Column("loaded", "from a tier", ".1%"),
            Column("recomputed", "computed, of HBM's", ".0%"),
            TTFT,
            Column("ttft_mean_s", "TTFT mean, s", ".3f"),
            Column("idle_bytes", "kept, GB", ",.0f", 1e-9),
            Column("tier_share", "tiers' price, of the chip's", ".1%"),
        ),
        [
            bars(rows, "memory", ("recomputed", "prompt tokens computed, of HBM's")),
            bars(rows, "memory", ("ttft_mean_s", "mean TTFT, s")),
        ],
        {
            "small": 1 - small["recomputed"],
            "large": 1 - large["recomputed"],
            "most": 1 - rows[-1]["recomputed"],
            "ttft": rows[0]["ttft_mean_s"] / large["ttft_mean_s"],
            "price": large["tier_share"],
        },
    )


# How long KV that nobody uses should stay

TTLS = {"10 s": 10, "1 min": 60, "5 min": 300, "20 min": 1200, "1 h": 3600, "4 h": 14_400, "for ever": None}
PUBLISHED = {
    ("coding_agent", "1 min"): (0.814, None),
    ("coding_agent", "5 min"): (0.941, None),
    ("coding_agent", "1 h"): (0.996, None),
    ("tracelab", "1 min"): (0.854, 0.74),
    ("tracelab", "5 min"): (0.94, 1.9),
    ("tracelab", "1 h"): (0.986, 5.07),
}
"""Share found again, and held KV over active KV, of TraceLab and of the sessions of callanjfox/kv-cache-tester."""
TOKEN_S = 0.025
"""Beside what the chip takes: a call then lasts as long as those that were measured."""


def _retention(v: Any, size: float) -> Row:
    config = setup(num_blocks=50_000, block_size=BLOCK, kv_ttl_s=TTLS[v["ttl"]], host_gap_s=TOKEN_S)
    work = Agentic(v["agents"], round(36 * size), rate_per_s=0.01, shared_tokens=0, max_context=131_072)
    s = simulate(config, work.workload(0))
    device = s.kv[0]
    compute_s = (s.input_tokens - s.reused_tokens) * prefill_s(config)
    found, held = PUBLISHED.get((v["agents"], v["ttl"]), (None, None))
    return figures(s) | {
        "ttl_s": TTLS[v["ttl"]],
        "held": device.mean_idle_bytes / device.mean_used_bytes,
        "compute_usd": 1000 * compute_s * chip_usd_per_s(config) / s.calls,
        "hold_usd": 1000 * device.mean_idle_bytes * s.duration_s * dram_usd_per_byte_s() / s.calls,
        "found_published": found,
        "held_published": held,
    }


def prefill_s(config: Setup) -> float:
    """Of a token, by its products alone."""
    return 2 * config.model.num_params / config.system.chip.flops_per_s("bf16")


def chip_usd_per_s(config: Setup) -> float:
    return (config.system.chip.rent_usd_per_hour or 0.0) / 3600


def dram_usd_per_byte_s() -> float:
    return (catalog().tiers["dram"].usd_per_byte or 0.0) / HOURS / 3600


def break_even_s(config: Setup) -> float:
    """As long as keeping a token's KV in DRAM costs what computing it again would."""
    token_bytes = config.kv_block_bytes / config.block_size
    return prefill_s(config) * chip_usd_per_s(config) / (token_bytes * dram_usd_per_byte_s())


def retention(size: float = 1.0) -> Effect:
    rows = swept({"agents": ["coding_agent", "tracelab"], "ttl": list(TTLS)}, _retention, size)
    for row in rows:
        row["found"] = row["hit_rate"] / at(rows, agents=row["agents"], ttl="for ever")["hit_rate"]
        row["usd"] = row["compute_usd"] + row["hold_usd"]
        if row["ttl_s"] is None:  # What is held for ever says how long the run was.
            row.update(held=None, hold_usd=None, usd=None)
    timed = [row for row in rows if row["ttl_s"] is not None]
    ours = [row for row in timed if row["agents"] == "coding_agent"]
    best = min(ours, key=lambda row: float(row["usd"]))
    both = [
        {"ttl_s": row["ttl_s"], "cost": name, "usd": row[key]}
        for name, key in (("computing again", "compute_usd"), ("keeping", "hold_usd"), ("both", "usd"))
        for row in ours
    ]
    return Effect(
        rows,
        (
            Column("agents", "agents"),
            Column("ttl", "kept for"),
            Column("found", "found again", ".1%"),
            Column("found_published", "published", ".1%"),
            Column("held", "held / active", ".2f"),
            Column("held_published", "published", ".2f"),
            Column("compute_usd", "computing, USD / 1,000 calls", ".3f"),
            Column("hold_usd", "keeping", ".3f"),
            Column("usd", "both", ".3f"),
        ),
        [
            line(timed, ("ttl_s", "kept for, s"), ("found", "found again, of what could be"), "agents", log_x=True),
            line(both, ("ttl_s", "kept for, s"), ("usd", "USD a 1,000 calls (coding_agent)"), "cost", log_x=True),
        ],
        {
            "best": best["ttl"],
            "break_even_min": break_even_s(setup(block_size=BLOCK)) / 60,
            "at_5_min": at(rows, agents="coding_agent", ttl="5 min")["found"],
        },
    )
