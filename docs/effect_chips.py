"""Effects of the chips that a replica is on: how many, of which kind, in one piece or two."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from effect_pages import Column, Effect, Row, line
from effect_runs import SPEED, at, catalog, figures, setup, swept

from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.formats import Precision, precision
from headway.arithmetic.parallelism import Parallelism, weight_bytes
from headway.catalog import System
from headway.simulator.simulation import HOST_GAP_S, simulate
from headway.simulator.split_time import FeedForwardSide
from headway.workload.lengths import Fixed
from headway.workload.synthetic import Synthetic

# Interactivity against throughput a chip

FRONTIER = ("interactivity", "tokens/s a user"), ("tokens_per_s_per_chip", "tokens/s a chip")


def _frontier(v: Any, size: float) -> Row:
    requests = max(8, round(3 * v["users"] * size))
    work = Synthetic(requests, Fixed(1000), Fixed(500), concurrency=v["users"], jitter_s=1)
    config = setup("llama-3.1-70b", v["system"], cut=Parallelism(tensor=v["chips"]), max_running=1024)
    s = simulate(config, work.workload(0))
    read_bytes = weight_bytes(config.model, config.precision) + v["users"] * kv_bytes(config.model, 1250, Precision())
    step_s = read_bytes / config.system.chip.hbm_bytes_per_s / v["chips"] + HOST_GAP_S
    bound = max(s.bound_share.items(), key=lambda share: share[1])[0]
    return figures(s) | {"expected": 1 / step_s, "bound": bound.replace("_", " ")}


def frontier(size: float = 1.0) -> Effect:
    systems, users = ["hgx-h100", "hgx-h200", "hgx-b200", "mi355x-node"], [1, 4, 16, 64, 256, 1024]
    rows = swept({"system": systems, "chips": [4], "users": users}, _frontier, size)
    wide = swept({"system": ["hgx-h100"], "chips": [2, 4, 8], "users": users}, _frontier, size)
    for row in wide:
        row["cut"] = f"{row['chips']} x H100"
    one, many = (at(rows, system="hgx-h100", users=n) for n in (1, 256))
    return Effect(
        rows,
        (
            Column("system", "system, 4 chips"),
            Column("users", "users", ",d"),
            Column("interactivity", "tokens/s a user", ".1f"),
            Column("expected", "bytes of a step / bandwidth", ".1f"),
            Column("tokens_per_s_per_chip", "tokens/s a chip", ",.0f"),
            Column("usd_per_mtok", "USD a million tokens", ".2f"),
            Column("bound", "most of the time bound by"),
        ),
        [line(rows, *FRONTIER, "system", log_y=True), line(wide, *FRONTIER, "cut", log_y=True)],
        {
            "slower": one["interactivity"] / many["interactivity"],
            "more": many["tokens_per_s_per_chip"] / one["tokens_per_s_per_chip"],
            "cheaper": one["usd_per_mtok"] / many["usd_per_mtok"],
        },
    )


# A chip that keeps all weights in SRAM

LPUS = 32
HOP_S, SCHEDULED_HOP_S = 10e-6, 1e-6
MACHINES = {
    "1 x H100": ("hgx-h100", 1, HOP_S),
    "8 x H100": ("hgx-h100", 8, HOP_S),
    "1 x B200": ("hgx-b200", 1, HOP_S),
    "8 x B200": ("hgx-b200", 8, HOP_S),
    "32 x LP30": ("lpx-256", LPUS, HOP_S),
    "32 x LP30, hops of 1 us": ("lpx-256", LPUS, SCHEDULED_HOP_S),
}


def _sram(v: Any, size: float) -> Row:
    requests = max(8, round(4 * v["users"] * size))
    work = Synthetic(requests, Fixed(500), Fixed(250), concurrency=v["users"], jitter_s=0.2)
    system, chips, hop_s = MACHINES[v["machine"]]
    config = setup("llama-3.1-8b", system, cut=Parallelism(tensor=chips), precision=precision("fp8", "fp8"))
    # A floor's links have no latency, and here it is what counts: an all-reduce after attention, one after the rest.
    hops_s = 2 * len(config.model.layers) * hop_s if chips > 1 else 0.0
    host_s = 0.0 if chips == LPUS else HOST_GAP_S
    s = simulate(replace(config, system=with_bf16(config.system), host_gap_s=host_s + hops_s), work.workload(0))
    room = config.scheduler_config().groups[0].num_blocks * config.block_size
    read_s = weight_bytes(config.model, config.precision) / chips / config.system.chip.hbm_bytes_per_s
    return figures(s) | {"room_tokens": room, "read_s": read_s, "hops_s": hops_s}


def with_bf16(system: System) -> System:
    """Where no rate of 16-bit products is published: half of the 8-bit one."""
    chip = system.chip
    rate = chip.bf16_flops_per_s or (chip.fp8_flops_per_s or 0) / 2
    return replace(system, chip=replace(chip, bf16_flops_per_s=rate))


def sram(size: float = 1.0) -> Effect:
    rows = swept({"machine": list(MACHINES), "users": [1, 4, 16, 64, 256]}, _sram, size)
    gpu, wide, lpu = (at(rows, machine=name, users=1) for name in ("1 x H100", "8 x H100", "32 x LP30"))
    full = {name: max(r["tokens_per_s_per_chip"] for r in rows if r["machine"] == name) for name in MACHINES}
    return Effect(
        rows,
        (
            Column("machine", "machine"),
            Column("users", "users", ",d"),
            Column("interactivity", "tokens/s a user", ",.0f"),
            Column("tokens_per_s_per_chip", "tokens/s a chip", ",.0f"),
            Column("read_s", "weights read, us", ",.0f", 1e6),
            Column("hops_s", "hops, us", ",.0f", 1e6),
            Column("room_tokens", "room for KV, tokens", ",d"),
        ),
        [line(rows, *FRONTIER, "machine", log_x=True, log_y=True)],
        {
            "faster": lpu["interactivity"] / gpu["interactivity"],
            "than_wide": lpu["interactivity"] / wide["interactivity"],
            "less": full["1 x H100"] / full["32 x LP30"],
        },
    )


# Attention and feed-forward on different chips

SPLITS = {
    "8 x B200": (Parallelism(tensor=8), None, 0),
    "16 x B200": (Parallelism(tensor=16), None, 0),
    "8 x B200, feed-forward on 8 more": (Parallelism(data=8), "hgx-b200", 8),
    "8 x B200, feed-forward on 256 x LP30": (Parallelism(data=8), "lpx-256", 256),
}


def _split(v: Any, size: float) -> Row:
    requests = max(8, round(3 * v["users"] * size))
    work = Synthetic(requests, Fixed(4000), Fixed(500), concurrency=v["users"], jitter_s=1)
    cut, other, chips = SPLITS[v["chips"]]
    side = None if other is None else FeedForwardSide(catalog().system(other), chips)
    config = setup("llama-3.1-70b", "hgx-b200", cut=cut, feed_forward=side, precision=precision("fp8", "bf16"))
    # Where a step is cut by tensors its all-reduces take hops, which the floor leaves out; between sides they are in.
    hops_s = 0.0 if side else 2 * len(config.model.layers) * HOP_S
    s = simulate(replace(config, host_gap_s=HOST_GAP_S + hops_s), work.workload(0))
    return figures(s) | {"bound": max(s.bound_share, key=lambda name: s.bound_share[name]).replace("_", " ")}


def split(size: float = 1.0) -> Effect:
    rows = swept({"chips": list(SPLITS), "users": [1, 8, 32, 128, 512]}, _split, size)
    whole, _, gpus, lpus = (at(rows, chips=name, users=512) for name in SPLITS)
    return Effect(
        rows,
        (
            Column("chips", "chips"),
            Column("users", "users", ",d"),
            Column("interactivity", "tokens/s a user", ",.0f"),
            SPEED,
            Column("tokens_per_s_per_chip", "tokens/s a chip", ",.0f"),
            Column("bound", "most of the time bound by"),
        ),
        [
            line(rows, FRONTIER[0], ("tokens_per_s", "tokens/s"), "chips", log_x=True, log_y=True),
            line(rows, *FRONTIER, "chips", log_x=True, log_y=True),
        ],
        {
            "total": lpus["tokens_per_s"] / whole["tokens_per_s"],
            "gpus": gpus["tokens_per_s"] / whole["tokens_per_s"],
            "each": gpus["tokens_per_s_per_chip"] / whole["tokens_per_s_per_chip"],
            "alone": rows[-5]["interactivity"] / rows[0]["interactivity"],
        },
    )
