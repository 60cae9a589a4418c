"""Effects of what rides in a step: who boards, with how many tokens, in how much memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from effect_pages import Column, Effect, Row, line
from effect_runs import MS, SPEED, TTFT, TTFT99, at, figures, in_batch, setup, swept, with_mean

from headway.simulator.results import Slo
from headway.simulator.simulation import HOST_GAP_S, simulate
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


UNBOUNDED = None


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
