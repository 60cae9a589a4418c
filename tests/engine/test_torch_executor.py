"""What the body does with plans: batches, chunks, in-flight tokens, log-probabilities, and things that go wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from random_models import expected_logits, loaded, planner, random_tokens, save_random
from torch_planner import Part

from headway.engine.model import Model
from headway.scheduler.contract import IN_FLIGHT
from headway.scheduler.request import Sampling

SEEDED = Sampling(temperature=1.0, top_p=0.9, seed=3)


@pytest.fixture(scope="module")
def windowed_dir(tmp_path_factory):
    directory = tmp_path_factory.mktemp("windowed")
    save_random(directory, "qwen2-mixed", initializer_range=0.12)
    return directory


@pytest.fixture(params=["llama", "windowed"])
def model(request, llama_dir, windowed_dir):
    found = loaded(llama_dir if request.param == "llama" else windowed_dir)
    yield found
    found.executor.close()


@pytest.mark.parametrize("sampling", [Sampling(), SEEDED], ids=["greedy", "seeded"])
def test_tokens_are_the_same_alone_batched_and_chunked(model, sampling):
    prompts = [random_tokens(n, seed=n) for n in (1, 9, 40, 41, 100)]
    alone = [planner(model, seed=i).generate([p], 20, sampling)[0] for i, p in enumerate(prompts)]
    assert planner(model, seed=8).generate(prompts, 20, sampling) == alone
    assert planner(model, seed=9).generate(prompts, 20, sampling, chunk=7) == alone


def test_a_row_that_starts_over_continues_as_it_would_have(model):
    """As after a preemption or a crash: the prompt, then what was generated, all recomputed in another slot."""
    sampling = Sampling(temperature=1.0, seed=5, repetition_penalty=1.3, frequency_penalty=0.5)
    prompt = random_tokens(33, seed=1)
    whole = planner(model).generate([prompt], 20, sampling)[0]
    plans = planner(model, seed=4)
    row = plans.admit(prompt + whole[:8], sampling, prompt=len(prompt), slot=5)
    plans.prefill([row], chunk=13)
    plans.decode([row], 11)
    assert row.tokens[len(prompt) :] == whole


def test_several_plans_in_flight(model):
    prompts = [random_tokens(n, seed=n) for n in (4, 19)]
    want = planner(model).generate(prompts, 12, SEEDED)
    plans = planner(model)
    rows = [plans.admit(p, SEEDED) for p in prompts]
    plans.prefill(rows)
    for _ in range(11):
        parts = [Part(row, 1, samples=True, in_flight=True) for row in rows]
        plan = plans.plan(parts)
        assert (plan.token_ids == IN_FLIGHT).all()
        plans.executor.submit(plan)
        for row in rows:
            row.computed += 1
    drawn = [plans.executor.collect() for _ in range(11)]
    assert [o.number for o in drawn] == sorted(o.number for o in drawn)
    for i, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
        assert row.tokens[len(prompt) :] + [int(o.token_ids[i]) for o in drawn] == want[i]


def test_a_plan_without_rows_only_changes_the_tables(llama):
    plans = planner(llama)
    row = plans.admit(random_tokens(5, seed=0))
    outcome = plans.step([])
    assert (outcome.error, outcome.token_ids.tolist()) == (None, [])
    plans.prefill([row])
    assert len(row.tokens) == 6


def test_a_prompt_only_row_draws_nothing(llama):
    plans = planner(llama)
    row = plans.admit(random_tokens(11, seed=0), max_tokens=0)
    outcome = plans.step([Part(row, 11)])
    assert (outcome.token_ids.tolist(), outcome.accepted, outcome.logprobs, outcome.failed) == ([], None, None, None)
    assert outcome.device_ns > 0


def test_collect_without_a_plan(llama):
    with pytest.raises(RuntimeError, match="no plan"):
        llama.executor.collect()


def test_a_bounded_number_of_plans_is_in_flight(llama, monkeypatch):
    monkeypatch.setattr("headway.engine.executor.MAX_IN_FLIGHT", 2)
    plans = planner(llama)
    for _ in range(2):
        llama.executor.submit(plans.plan([]))
    with pytest.raises(RuntimeError, match="in flight already"):
        llama.executor.submit(plans.plan([]))
    assert [llama.executor.collect().number for _ in range(2)] == [1, 2]


def logits_of(directory, tokens):
    import transformers

    return expected_logits(transformers.AutoModelForCausalLM.from_pretrained(directory), tokens)


def test_logprobs_are_of_the_raw_logits(llama, llama_dir):
    prompt = random_tokens(10, seed=6)
    sampling = Sampling(temperature=2.0, top_k=20, seed=1, logit_bias=((5, 3.0),), logprobs=3)
    plans = planner(llama)
    row = plans.admit(prompt, sampling)
    silent = plans.admit(prompt, Sampling(seed=2))
    outcome = plans.step([Part(silent, 10, samples=True), Part(row, 10, samples=True)])
    want = logits_of(llama_dir, prompt)[-1].log_softmax(-1)
    assert list(outcome.logprobs) == [row.slot]
    (entry,) = outcome.logprobs[row.slot].drawn
    assert entry.token_id == row.tokens[-1]
    assert entry.logprob == pytest.approx(want[entry.token_id].item(), abs=1e-4)
    assert entry.rank == 1 + int((want > want[entry.token_id]).sum())
    assert [i for i, _ in entry.top] == want.topk(3).indices.tolist()
    assert [v for _, v in entry.top] == pytest.approx(want.topk(3).values.tolist(), abs=1e-4)


def test_logprobs_of_accepted_drafts_only(llama):
    prompt = random_tokens(10, seed=6)
    want = planner(llama).generate([prompt], 4, Sampling(logprobs=0))[0]
    plans = planner(llama)
    row = plans.admit(prompt, Sampling(logprobs=0))
    plans.prefill([row])
    outcome = plans.step([Part(row, 1, [want[1], (want[2] + 1) % 131, 0], samples=True)])
    assert [e.token_id for e in outcome.logprobs[row.slot].drawn] == want[1:3]
    assert all(e.top == () and e.rank == 1 for e in outcome.logprobs[row.slot].drawn)


@pytest.mark.parametrize("chunk", [1, 7, 16, 200])
def test_prompt_logprobs_cover_each_position_once(llama, llama_dir, chunk):
    prompt = random_tokens(150, seed=7)
    plans = planner(llama)
    row = plans.admit(prompt, Sampling(prompt_logprobs=2, logprobs=1))
    entries = []
    while row.computed < len(prompt):
        count = min(chunk, len(prompt) - row.computed)
        outcome = plans.step([Part(row, count, samples=row.computed + count == len(prompt))])
        entries += (outcome.logprobs or {}).get(row.slot).prompt if outcome.logprobs else ()
    assert plans.step([Part(row, 1, samples=True)]).logprobs[row.slot].prompt == ()
    want = logits_of(llama_dir, prompt).log_softmax(-1)
    assert [e.token_id for e in entries] == prompt[1:]
    assert [e.logprob for e in entries] == pytest.approx(
        [want[i, t].item() for i, t in enumerate(prompt[1:])], abs=1e-3
    )
    assert all(len(e.top) == 2 for e in entries)


@pytest.mark.parametrize("interrupted_at", [20, 31, 60])
def test_prompt_logprobs_of_a_row_that_starts_over(llama, interrupted_at):
    """Preempted in the middle of its prompt or after it: no position is reported twice or left out."""
    prompt = random_tokens(60, seed=7)
    sampling = Sampling(prompt_logprobs=0)
    plans = planner(llama)
    row = plans.admit(prompt, sampling)
    first = plans.step([Part(row, interrupted_at, samples=interrupted_at == len(prompt))])
    plans.release(row)
    again = plans.admit(row.tokens, sampling, prompt=len(prompt), slot=row.slot)
    second = plans.step([Part(again, len(row.tokens), samples=True)])
    reported = [o.logprobs[row.slot].prompt if o.logprobs else () for o in (first, second)]
    assert [e.token_id for entries in reported for e in entries] == prompt[1:]


def poison(model: Model, token: int) -> None:
    model.weights.embedding[token] = float("nan")


@pytest.mark.parametrize("count", [3, 20])
def test_a_row_that_is_not_finite_fails_alone(model, count):
    """Others in its step go on, and so do those that later use its blocks."""
    bad = 77
    prompts = [[t for t in random_tokens(n, seed=n) if t != bad] for n in (20, 21)]
    want = planner(model).generate(prompts, 5)
    with torch.inference_mode():
        before = model.executor._model.weights.embedding[bad].clone()
        poison(model.executor._model, bad)
    try:
        plans = planner(model)
        rows = [plans.admit(p) for p in prompts]
        spoilt = plans.admit([bad] * count)
        outcome = plans.step(
            [
                Part(rows[0], len(prompts[0])),
                Part(spoilt, count, samples=True),
                Part(rows[1], len(prompts[1]), samples=True),
            ]
        )
        assert outcome.failed.tolist() == [spoilt.slot]
        assert len(outcome.token_ids) == 2
        rows[0].computed -= 1
        plans.release(spoilt)
        plans.step([Part(rows[0], 1, samples=True)])
        plans.decode(rows, 4)
        assert [row.tokens[len(p) :] for row, p in zip(rows, prompts, strict=True)] == want
        # Every block is used once more, with only its first places written.
        plans = planner(model)
        assert [plans.generate([p], 5)[0] for p in prompts for _ in range(3)] == [w for w in want for _ in range(3)]
        for layer in model.executor._model.cache.layers:
            assert layer._k.isfinite().all()
            assert layer._v.isfinite().all()
    finally:
        with torch.inference_mode():
            model.executor._model.weights.embedding[bad] = before


def test_a_prompt_chunk_that_is_not_finite_fails_before_it_samples(llama):
    with torch.inference_mode():
        poison(llama.executor._model, 3)
    plans = planner(llama)
    row = plans.admit([3, 4, 5])
    assert plans.step([Part(row, 2)]).failed.tolist() == [row.slot]


@pytest.mark.parametrize("bias", [((131, 1.0),), ((-1, 1.0),)])
def test_a_bias_on_an_unknown_token_fails_its_row(llama, bias):
    plans = planner(llama)
    rows = [plans.admit([1, 2]), plans.admit([1, 2], Sampling(logit_bias=bias))]
    outcome = plans.step([Part(row, 2, samples=True) for row in rows])
    assert outcome.failed.tolist() == [rows[1].slot]


@pytest.mark.parametrize("token", [131, -7, 10**12])
def test_an_unknown_token_fails_its_row(llama, token):
    plans = planner(llama)
    rows = [plans.admit([1, token], Sampling(repetition_penalty=1.1)), plans.admit([1, 2])]
    outcome = plans.step([Part(row, 2, samples=True) for row in rows])
    assert outcome.failed.tolist() == [rows[0].slot]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_running_out_of_memory_fails_the_step_only(llama, monkeypatch, error):
    prompt = random_tokens(8, seed=1)
    want = planner(llama).generate([prompt], 3)
    plans = planner(llama)
    row = plans.admit(prompt)

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Model, "forward", fail)
        outcome = plans.step([Part(row, 8, samples=True)])
    assert "out of memory" in outcome.error
    assert outcome.token_ids.tolist() == []
    plans.release(row)
    assert plans.generate([prompt], 3) == want


def test_a_real_allocation_failure(llama, monkeypatch):
    monkeypatch.setattr(Model, "forward", lambda *_: torch.empty(2**60))
    plans = planner(llama)
    assert plans.step([Part(plans.admit([1]), 1, samples=True)]).error


def test_other_errors_are_raised_by_collect(llama, monkeypatch):
    monkeypatch.setattr(Model, "forward", lambda *_: np.zeros(3)[5])
    plans = planner(llama)
    llama.executor.submit(plans.plan([Part(plans.admit([1]), 1, samples=True)]))
    with pytest.raises(IndexError):
        llama.executor.collect()


def test_entries_behind_the_window_are_never_read(windowed_dir):
    model = loaded(windowed_dir)
    window_group = next(g for g, group in enumerate(model.groups) if group.kind == "window")
    prompt = random_tokens(100, seed=2)
    want = planner(model).generate([prompt], 10)[0]
    plans = planner(model)
    row = plans.admit(prompt)
    plans.prefill([row], chunk=30)
    for _ in range(9):
        behind = max(0, row.computed - model.groups[window_group].window + 1) // model.block_size
        model.executor._tables.tables[window_group][row.slot, :behind] = 10**9
        plans.decode([row], 1)
    assert row.tokens[100:] == want
    model.executor.close()


def test_many_rows_are_gathered_in_several_bites(model, monkeypatch):
    prompts = [random_tokens(n, seed=n) for n in (30, 31, 29, 33, 64, 5)]
    want = planner(model).generate(prompts, 8)
    for limit in (1, 20_000):
        monkeypatch.setattr("headway.engine.batch.MAX_GATHERED_BYTES", limit)
        assert planner(model, seed=limit).generate(prompts, 8) == want
