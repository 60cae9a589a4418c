"""Prompts take chip-time: what users see under load is what the fits were fitted to, and obeys laws of queues."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.arithmetic.attends import spans
from headway.arithmetic.formats import precision
from headway.arithmetic.shape import ShapeError
from headway.arithmetic.spans import Ints
from headway.arithmetic.step_shape import decode, prefill
from headway.cli import main
from headway.planner.deployment import Deployment
from headway.planner.lengths import Lengths
from headway.planner.pareto import pareto_report
from headway.planner.split import BUSIEST, best_pools, split
from headway.planner.sweep import Sweep, sweeps
from headway.planner.under_load import Load, Steps, mixed
from headway.roofline import calibration
from headway.roofline.serving import Served, served_s
from headway.roofline.terms import step_terms
from tests.arithmetic.models import catalog, model
from tests.planner.deployments import deployed

CHAT = Lengths(8192, 0, 1024)
H100 = [catalog().system("hgx-h100")]
FITS = {"h100-sxm": calibration(catalog().calibration("h100-sxm", "vllm"))}


def swept(lengths: Lengths, fitted: bool = True, ttft_s: float | None = None, max_chips: int = 8) -> list[Sweep]:
    fits = FITS if fitted else {}
    return sweeps("", model("llama-3.1-8b"), H100, [precision("fp8")], lengths, fits, max_chips, ttft_s)


def loaded(batch: Ints, lengths: Lengths, where: Deployment | None = None) -> Load:
    where = where or deployed("llama-3.1-8b", fitted=True, tensor=2)
    step = where.cost(where.decode_shape(batch, lengths.middle))
    return mixed([Steps(batch, step, where.prompt(lengths.new, lengths.cached))], lengths, where.fitted)[0]


@pytest.mark.parametrize("cut", [{"tensor": 2}, {"tensor": 1, "data": 4}])
def test_the_answer_is_the_function_that_was_fitted(cut: dict[str, int]) -> None:
    """TPOT and TTFT of a mixed replica against the rule that `plan fit` fits, from the operations up."""
    where = deployed("qwen3-30b-a3b", fitted=True, **cut)
    assert where.fitted is not None
    batch = np.array([4, 16, 64])
    n, groups, known = len(batch), where.cut.data, spans(where.model)
    shapes = (
        decode(known, batch, CHAT.middle),
        prefill(known, CHAT.prompt, batch=np.ones(n, np.int64)),
        prefill(known, CHAT.prompt, batch=np.full(n, groups)),
    )
    terms = [step_terms(where.work(shape), shape, where.system, where.cut) for shape in shapes]
    lengths = (np.full(n, float(CHAT.prompt)), np.full(n, float(CHAT.output)))
    none, flags = np.zeros(n), np.zeros(n, bool)
    asked = Served(*terms, np.full(n, float(groups)), batch * 1.0, none, *lengths, flags, flags, flags, none, flags)
    c = asdict(where.fitted.coefficients) | asdict(where.fitted.serving)
    load = loaded(batch, CHAT, where)
    assert load.tpot_s == pytest.approx(served_s(asked, c), rel=1e-6)
    assert load.ttft_s == pytest.approx(served_s(replace(asked, first=~flags), c), rel=1e-6)


@given(st.integers(1, 20_000), st.integers(2, 4000), st.booleans())
@settings(max_examples=30, deadline=None)
def test_prompts_never_come_free(prompt: int, output: int, fitted: bool) -> None:
    """Throughput is below that of decode alone, by Little's law no request is shorter than its parts, and the chips
    are never busy for more than all of the time.
    """
    where = deployed("llama-3.1-8b", fitted=fitted, tensor=2)
    lengths, batch = Lengths(prompt, 0, output), np.array([1, 7, 50, 300])
    step = where.cost(where.decode_shape(batch, lengths.middle))
    cost, load = where.prompt(prompt), loaded(batch, lengths, where)
    drafted = where.fitted.serving.tokens_per_step if where.fitted else 1.0
    assert (load.tokens_per_s < batch / step.step_s * drafted * (1 + 1 / output)).all()
    assert (load.tokens_per_s <= batch * output / (load.ttft_s + (output - 1) * load.tpot_s) * (1 + 1e-9)).all()
    assert (load.ttft_s >= cost.alone_s).all()
    compute_s = step.compute_s / batch * output + cost.busy_s[0] * (batch - 1) / batch
    assert (load.tokens_per_s / output * compute_s <= 1 + 1e-9).all()


def test_a_longer_prompt_and_a_fuller_engine_take_longer() -> None:
    batch = np.array([1, 8, 64, 256])
    short, long = (loaded(batch, Lengths(prompt, 0, 512)) for prompt in (1000, 8000))
    pairs = (
        (short.tpot_s[1:], long.tpot_s[1:]),
        (short.ttft_s, long.ttft_s),
        (long.tokens_per_s, short.tokens_per_s),
    )
    for faster, slower in pairs:
        assert (faster < slower).all()
    for each in (long.tpot_s, long.ttft_s):
        assert (np.diff(each) > 0).all()
    cached = loaded(batch, Lengths(8000, 7000, 512))
    assert (cached.tokens_per_s > long.tokens_per_s).all()
    assert (cached.ttft_s < long.ttft_s).all()


def test_one_request_at_a_time_waits_for_nobody() -> None:
    where = deployed("llama-3.1-8b", fitted=True, tensor=2)
    assert where.fitted is not None
    load = loaded(np.array([1]), CHAT)
    step_s = float(where.decode_s(1, CHAT.middle))
    assert load.tpot_s[0] == pytest.approx(step_s / where.fitted.serving.tokens_per_step)
    outside_s = where.fitted.serving.steps_before * step_s + where.fitted.serving.request_s
    assert load.ttft_s[0] == pytest.approx(where.prefill_s(CHAT.new) + outside_s)


@pytest.mark.parametrize("fitted", [False, True])
def test_pools_keep_up_with_one_another(fitted: bool) -> None:
    """As many prompts are computed as decoding asks for, in whole replicas, on no more chips than allowed."""
    found = [s for s in swept(CHAT, fitted, max_chips=16) if s.kind == "split"]
    assert found
    for sweep in found:
        pools = sweep.pools
        assert pools is not None
        each_s = np.array([replace(sweep.where, cut=pool.where.cut).prompt(CHAT.new).each_s for pool in pools.pools])
        requests_per_s = sweep.load.tokens_per_s * pools.decode_replicas / CHAT.output
        busy = requests_per_s * each_s[pools.chosen]
        assert (busy <= pools.prefill_replicas * BUSIEST * (1 + 1e-6)).all()
        assert (sweep.chips <= 16).all()
        assert (pools.prefill_replicas >= 1).all()
        assert (pools.decode_replicas >= 1).all()
        alone_s = np.array([pool.prompt.alone_s for pool in pools.pools])
        assert (sweep.load.ttft_s >= alone_s[pools.chosen]).all()


def test_no_other_number_of_replicas_would_take_fewer_chips() -> None:
    for sweep in (s for s in swept(CHAT, max_chips=8) if s.kind == "split"):
        assert sweep.pools is not None
        for j in range(0, len(sweep.batches), 9):
            need = sweep.load.tokens_per_s[j] / CHAT.output
            decode, chips = sweep.where.cut.chips, sweep.chips[j] / sweep.pools.decode_replicas[j]
            for pool, d in itertools.product(sweep.pools.pools, range(1, 9)):
                p = max(1, math.ceil(need * pool.prompt.each_s * d / pool.busiest - 1e-9))
                all_chips = p * pool.where.cut.chips + d * decode
                assert all_chips > 8 or all_chips / d >= chips - 1e-9


def test_a_tight_ttft_leaves_replicas_for_prompts_idle() -> None:
    where = deployed("llama-3.1-8b", fitted=True, tensor=1)
    batch = np.array([32])
    prompt, step = where.prompt(CHAT.new), where.cost(where.decode_shape(batch, CHAT.middle))
    found = [(where, Steps(batch, step, prompt))]
    (easy,), (tight,) = (best_pools(found, CHAT, slo) for slo in (None, prompt.alone_s * 1.3))
    assert tight.busiest < easy.busiest == BUSIEST
    assert best_pools(found, CHAT, prompt.alone_s) == ()
    assert best_pools(found, Lengths(8192, 0, 1), None) == ()
    times = [split(found, [pool], CHAT, 72)[0].load.ttft_s[0] for pool in (easy, tight)]
    assert times[1] <= prompt.alone_s * 1.3 < times[0]


def test_what_misses_the_ttft_is_not_on_the_frontier() -> None:
    args = ("", model("llama-3.1-8b"), H100, [precision("fp8")], CHAT, FITS)
    every, prompt = pareto_report(*args, max_chips=8), pareto_report(*args, max_chips=8, slo_ttft_s=0.2)
    assert max(c.ttft_s or 0 for c in every.frontier) > 0.2
    assert prompt.frontier
    assert all(c.ttft_s is not None and c.ttft_s <= 0.2 for c in prompt.frontier)
    assert pareto_report(*args, max_chips=8, slo_ttft_s=1e-9).frontier == ()


def test_prompts_make_tokens_dearer_and_both_kinds_are_tried() -> None:
    args = ("", model("llama-3.1-8b"), H100, [precision("fp8")])
    alone, served = (pareto_report(*args, load, FITS, 50, 8).best_at_slo for load in (CHAT.middle, CHAT))
    assert alone is not None
    assert served is not None
    assert served.throughput_tokens_per_s_per_chip < 0.85 * alone.throughput_tokens_per_s_per_chip
    assert {sweep.kind for sweep in swept(CHAT)} == {"mixed", "split"}
    assert (alone.kind, alone.ttft_s) == ("decode", None)


def test_room_for_the_cache_bounds_a_batch() -> None:
    """The largest batch is bound by memory capacity, unless arithmetic is what its steps wait for."""
    for sweep in swept(Lengths(30_000, 29_000, 1000), fitted=False):
        last = sweep.configuration(len(sweep.batches) - 1).bound
        full = sweep.batches[-1] + sweep.where.cut.data * sweep.where.cut.pipeline > sweep.most
        assert (last == "memory_capacity") == (full and sweep.load.bounds[-1] != "compute")
    assert any(s.configuration(len(s.batches) - 1).bound == "memory_capacity" for s in swept(CHAT))


def test_groups_of_sequences_compute_prompts_of_their_own() -> None:
    """A dense model's groups share nothing: a prompt costs the chips of one of them."""
    for fitted in (False, True):
        one, four = (deployed("llama-3.1-8b", fitted=fitted, data=data) for data in (1, 4))
        assert four.prefill_chip_s(8192) == pytest.approx(one.prefill_chip_s(8192))


def test_a_fit_says_how_far_off_it_was() -> None:
    args = ("", model("llama-3.1-8b"), H100, [precision("fp8")], CHAT)
    fit = FITS["h100-sxm"]
    assert any(line.startswith(f"h100-sxm: TPOT is off by {fit.median_error:.0%}") for line in _assumed(*args, FITS))
    guessed = {"h100-sxm": replace(fit, measured_chip=False)}
    assert any(line.startswith("h100-sxm was never measured") for line in _assumed(*args, guessed))
    assert not any("TPOT is off" in line for line in _assumed(*args))


def _assumed(*args: Any) -> tuple[str, ...]:
    return pareto_report(*args, max_chips=1).assumptions


def test_lengths_that_cannot_be() -> None:
    with pytest.raises(ShapeError, match=r"cached tokens \(10\) must be fewer than the prompt's \(10\)"):
        Lengths(10, 10, 5)
    with pytest.raises(ShapeError, match="output tokens must be between 1 and 1000000, not 0"):
        Lengths(10, 0, 0)


@pytest.mark.parametrize("concurrency", [8, 32])
def test_the_scheduler_itself_serves_at_the_planned_rate(concurrency: int) -> None:
    """The closed form against the scheduler on a virtual clock with the same fit, step by step. Lengths vary there, so
    that requests do not come and go together.
    """
    load = loaded(np.array([concurrency]), Lengths(2048, 0, 256))
    where = "--model llama-3.1-8b --system hgx-h100 --tensor 2 --weights fp8 --calibrated vllm"
    run = f"--concurrency {concurrency} --requests {12 * concurrency} --input-tokens 2048 --output-tokens 128-384"
    result = CliRunner().invoke(main, ["simulate", *where.split(), *run.split(), "--json"])
    assert result.exit_code == 0, result.output
    seen = json.loads(result.stdout)
    assert load.tpot_s[0] == pytest.approx(seen["tpot_s"]["mean"], rel=0.1)
    assert load.tokens_per_s[0] == pytest.approx(seen["output_tokens_per_s"], rel=0.1)
