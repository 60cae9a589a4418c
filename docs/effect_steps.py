"""Effects of what rides in a step: who boards, with how many tokens, on which chip."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from effect_pages import Column, Effect, Row, line
from effect_runs import MS, SPEED, TTFT, TTFT99, at, catalog, figures, in_batch, setup, swept, with_mean

from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.formats import Precision, precision
from headway.arithmetic.parallelism import Parallelism, weight_bytes
from headway.catalog import System
from headway.simulator.results import Slo
from headway.simulator.simulation import HOST_GAP_S, simulate
from headway.simulator.split_time import FeedForwardSide
from headway.workload.lengths import Fixed
from headway.workload.synthetic import Synthetic

# Continuous against static batching

SEATS = 64
MEAN_ANSWER = 200


def _batching(v: Any, size: float) -> Row:
    answers = with_mean(MEAN_ANSWER, v["log_std"])
    work = Synthetic(round(1500 * size), Fixed(200), answers, concurrency=2 * SEATS, max_tokens=8192)
    # One step holds the prompts of a whole batch: a static batch is filled in one step.
    config = setup(max_running=SEATS, max_step_tokens=16_384, batching=v["batching"])
    s = simulate(config, work.workload(0))
    used = MEAN_ANSWER / largest(MEAN_ANSWER, v["log_std"], SEATS) if v["batching"] == "static" else 1.0
    return figures(s) | {"seats_used": s.output_tokens / s.steps / SEATS, "expected": used}


def largest(mean: float, log_std: float, of: int) -> float:
    """Expected greatest of `of` lognormal draws: the integral of the share of times that it is above a value."""
    if not log_std:
        return mean
    z = np.linspace(-8, 8, 20_001)
    below = np.cumsum(np.exp(-(z**2) / 2)) * (z[1] - z[0]) / math.sqrt(2 * math.pi)
    values = mean / math.exp(log_std**2 / 2) * np.exp(log_std * z)
    return float(values[0] + np.trapezoid(1 - np.minimum(below, 1.0) ** of, values))


def batching(size: float = 1.0) -> Effect:
    rows = swept({"log_std": [0.0, 0.25, 0.5, 0.75, 1.0], "batching": ["continuous", "static"]}, _batching, size)
    static, continuous = (at(rows, log_std=1.0, batching=kind) for kind in ("static", "continuous"))
    return Effect(
        rows,
        (
            Column("log_std", "log-deviation of lengths"),
            Column("batching", "batching"),
            SPEED,
            Column("seats_used", "seats used", ".1%"),
            Column("expected", "mean / expected longest", ".1%"),
            TTFT,
            MS("tpot_p50_s", "TPOT p50, ms"),
        ),
        [
            line(rows, ("log_std", "log-deviation of answers' lengths"), ("tokens_per_s", "tokens/s"), "batching"),
            line(rows, ("log_std", "log-deviation of answers' lengths"), ("seats_used", "seats used"), "batching"),
        ],
        {
            "gain": continuous["tokens_per_s"] / static["tokens_per_s"],
            "used": static["seats_used"],
            "expected": static["expected"],
        },
    )


# Memory reserved for the worst case against blocks on demand


def _reservation(v: Any, size: float) -> Row:
    work = Synthetic(round(2500 * size), Fixed(500), with_mean(250, 0.8), concurrency=600, max_tokens=2048)
    config = setup(max_running=512, max_output_tokens=v["limit"], reservation=v["reservation"])
    s = simulate(config, work.workload(0))
    room = config.scheduler_config().groups[0].num_blocks * config.block_size
    return figures(s) | {
        "running": in_batch(s),
        "expected": min(512, room / (500 + v["limit"])) if v["reservation"] == "worst_case" else None,
    }


def reservation(size: float = 1.0) -> Effect:
    kinds = ["demand", "worst_case"]
    rows = swept({"limit": [2048, 4096, 8192, 16_384, 32_768], "reservation": kinds}, _reservation, size)
    demand, worst = (at(rows, limit=8192, reservation=kind) for kind in kinds)
    return Effect(
        rows,
        (
            Column("limit", "limit, tokens", ",d"),
            Column("reservation", "memory"),
            SPEED,
            Column("running", "in the batch, mean", ".0f"),
            Column("expected", "room / (prompt + limit)", ".0f"),
            TTFT,
            Column("preemptions", "preemptions"),
        ),
        [
            line(rows, ("limit", "clients' limit, tokens"), y, "reservation", log_x=True)
            for y in (("tokens_per_s", "tokens/s"), ("running", "requests in the batch"))
        ],
        {"gain": demand["tokens_per_s"] / worst["tokens_per_s"], "running": worst["running"]},
    )


# Chunked prefill


def _chunking(v: Any, size: float) -> Row:
    work = Synthetic(round(600 * size), with_mean(4000, 0.5), Fixed(200), rate_per_s=4.0, max_tokens=16_000)
    config = setup(max_running=min(v["chunk"], 128), max_step_tokens=v["chunk"])
    s = simulate(config, work.workload(0))
    flops = v["chunk"] * 2 * config.model.num_params
    prefill_s = flops / config.system.chip.flops_per_s("bf16")
    return figures(s) | {"expected_s": prefill_s + HOST_GAP_S}


def chunking(size: float = 1.0) -> Effect:
    rows = swept({"chunk": [128, 256, 512, 1024, 2048, 4096, 8192, 16_384]}, _chunking, size)
    small, middle, large = (at(rows, chunk=chunk) for chunk in (128, 512, 8192))
    both = [
        {"chunk": row["chunk"], "time": name, "s": row[key]}
        for name, key in (("ITL p99", "itl_p99_s"), ("ITL p50", "itl_p50_s"), ("TTFT p50", "ttft_p50_s"))
        for row in rows
    ]
    return Effect(
        rows,
        (
            Column("chunk", "tokens a step", ",d"),
            MS("itl_p50_s", "ITL p50, ms"),
            MS("itl_p99_s", "ITL p99, ms"),
            MS("expected_s", "a full step of prompt, computed, ms"),
            MS("ttft_p50_s", "TTFT p50, ms"),
            MS("ttft_p99_s", "TTFT p99, ms"),
        ),
        [
            line(both, ("chunk", "tokens a step"), ("s", "seconds"), "time", log_x=True, log_y=True),
            line(rows, ("itl_p99_s", "ITL p99, s"), ("ttft_p99_s", "TTFT p99, s"), log_x=True, log_y=True),
        ],
        {"itl": large["itl_p99_s"] / middle["itl_p99_s"], "ttft": small["ttft_p50_s"] / middle["ttft_p50_s"]},
    )


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


# More requests than there is time for


def _overload(v: Any, size: float) -> Row:
    work = Synthetic(round(2500 * size), with_mean(1000, 0.5), with_mean(250, 0.8), rate_per_s=v["rate"])
    config = setup(max_step_tokens=2048, max_queued_requests=v["queue"])
    s = simulate(config, work.workload(0), Slo(ttft_s=1.0, tpot_s=0.03))
    return figures(s) | {
        "finished_per_s": s.requests_per_s,
        "refused": sum(s.refused.values()) / s.calls,
        "waiting": "any number" if v["queue"] == UNBOUNDED else f"at most {v['queue']}",
    }


UNBOUNDED = 1_000_000


def overload(size: float = 1.0) -> Effect:
    rows = swept({"queue": [UNBOUNDED, 32], "rate": [10, 20, 30, 40, 50, 60]}, _overload, size)
    calm = at(rows, queue=UNBOUNDED, rate=40)
    free, bounded = (at(rows, queue=queue, rate=60) for queue in (UNBOUNDED, 32))
    return Effect(
        rows,
        (
            Column("waiting", "may wait"),
            Column("rate", "requests/s"),
            Column("finished_per_s", "finished a second", ".1f"),
            Column("goodput_per_s", "within the SLO, a second", ".1f"),
            Column("refused", "refused", ".1%"),
            TTFT,
            TTFT99,
            MS("tpot_p50_s", "TPOT p50, ms"),
        ),
        [
            line(rows, ("rate", "requests/s"), y, "waiting")
            for y in (("goodput_per_s", "requests/s within the SLO"), ("ttft_p99_s", "TTFT p99, s"))
        ],
        {
            "best": calm["goodput_per_s"],
            "collapsed": free["goodput_per_s"],
            "held": bounded["goodput_per_s"],
            "finished": free["finished_per_s"],
            "capacity": 256 / (250 * free["tpot_p50_s"]),
        },
    )


# More requests than there is memory for


ROOM = 51_200
"""Tokens of KV that fit."""
PROMPT, MEAN, LOG_STD = 200, 600, 0.5


def _preemption(v: Any, size: float) -> Row:
    work = Synthetic(round(1500 * size), Fixed(PROMPT), with_mean(MEAN, LOG_STD), concurrency=384, max_tokens=4096)
    s = simulate(setup(num_blocks=ROOM // 16, max_running=v["seats"]), work.workload(0))
    # Half of an answer is there on average, and at any time a long one is more likely to be met than a short one.
    held = PROMPT + MEAN * math.exp(LOG_STD**2) / 2
    return figures(s) | {
        "preempted": s.preemptions / s.calls,
        "running": in_batch(s),
        "expected": min(v["seats"], ROOM / held),
        "itl_max_s": s.itl_s.max,
    }


def preemption(size: float = 1.0) -> Effect:
    rows = swept({"seats": [16, 32, 64, 96, 128, 256]}, _preemption, size)
    few, right, many = (at(rows, seats=seats) for seats in (64, 96, 256))
    return Effect(
        rows,
        (
            Column("seats", "seats", ",d"),
            SPEED,
            Column("running", "requests in the batch", ".0f"),
            Column("expected", "room / what one holds", ".0f"),
            Column("preempted", "preemptions a request", ".2f"),
            MS("tpot_p50_s", "TPOT p50, ms"),
            MS("itl_p99_s", "ITL p99, ms"),
            Column("itl_max_s", "longest ITL, s", ".2f"),
        ),
        [line(rows, ("seats", "seats"), y) for y in (("tokens_per_s", "tokens/s"), ("itl_max_s", "longest ITL, s"))],
        {
            "expected": right["expected"],
            "running": many["running"],
            "preempted": many["preempted"],
            "calm_s": few["itl_max_s"],
            "longest_s": many["itl_max_s"],
            "change": many["tokens_per_s"] / right["tokens_per_s"] - 1,
        },
    )
