"""Measured steps are the real executor's, of the shapes that were asked for; what leads up to them is skipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from tests.process.tiny_model import write_tiny_model

from headway.engine.errors import ModelError
from headway.engine.kv_tiers import block_bytes
from headway.engine.loading import LoadedModel, load
from headway.engine.measured_machine import MAX_ROUNDS, MIN_ROUNDS, longer, machine_words, measure_machine
from headway.engine.measuring import DECODE_STEPS, MARGIN, Measuring, Scenario, scenarios
from headway.engine.settings import EngineSettings, scheduler_config
from headway.scheduler.config import SchedulerConfig
from headway.scheduler.contract import Executor, StepOutcome, StepPlan


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedModel]:
    torch.set_num_threads(1)
    directory = write_tiny_model(tmp_path_factory.mktemp("tiny"))
    loaded = load(directory, device="cpu", kv_bytes=1 << 24)
    yield loaded
    loaded.executor.close()


def config_of(model: LoadedModel) -> SchedulerConfig:
    size = block_bytes(model.executor.cache)
    return scheduler_config(EngineSettings(model_dir="", name=""), model.groups, model.max_context, True, size)


@dataclass
class Watched:
    """Counts the tokens that the body was really given to compute."""

    executor: Executor
    tokens: list[int] = field(default_factory=list)
    error: str | None = None

    def submit(self, plan: StepPlan) -> None:
        self.tokens.append(len(plan.token_ids))
        self.executor.submit(plan)

    def collect(self) -> StepOutcome:
        return msgspec.structs.replace(self.executor.collect(), error=self.error)


@pytest.mark.parametrize("depth", [1, 2])
def test_decodes_at_their_context(model: LoadedModel, depth: int) -> None:
    body = Watched(model.executor)
    bench = Measuring(body, config_of(model), model.shape.vocab, depth)
    for rows, context in ((1, 30), (5, 700), (2, 16)):
        body.tokens.clear()
        steps = bench.run(Scenario(rows, context))
        assert len(steps) == DECODE_STEPS
        assert all(len(s.starts) == s.sampled == rows and (s.counts == 1).all() for s in steps)
        assert all(context <= s.starts.min() <= s.starts.max() <= context + 2 * DECODE_STEPS + rows for s in steps)
        assert all(s.device_ns > 0 and s.gap_ns >= 0 for s in steps)
        assert sum(body.tokens) == rows * DECODE_STEPS


def test_prompts_in_chunks_and_beside_decodes(model: LoadedModel) -> None:
    bench = Measuring(model.executor, config_of(model), model.shape.vocab)
    chunks = bench.run(Scenario(0, 0, 700))
    assert [(int(s.starts[0]), int(s.counts[0]), s.sampled) for s in chunks] == [(0, 512, 0), (512, 188, 1)]
    beside = bench.run(Scenario(3, 40, 600))
    assert [s.counts.tolist() for s in beside] == [[1, 1, 1, 509], [1, 1, 1, 91]]
    assert [s.sampled for s in beside] == [3, 4]


def test_scenarios_fit_the_engine(model: LoadedModel) -> None:
    config = config_of(model)
    room = config.groups[0].num_blocks * config.block_size
    for asked in scenarios(config):
        assert asked.tokens <= room
        assert asked.context + asked.prompt < config.max_context
    small = replace(config, groups=(replace(config.groups[0], num_blocks=20),))
    assert max(s.tokens for s in scenarios(small)) <= 160


def test_prompts_are_of_a_new_length_each_time() -> None:
    assert longer(Scenario(2, 10, 30), 4) == Scenario(2, 10, 34)
    assert longer(Scenario(2, 10), 4) == Scenario(2, 10)
    assert MAX_ROUNDS < MARGIN


def test_a_step_that_fails_is_an_error(model: LoadedModel) -> None:
    bench = Measuring(Watched(model.executor, error="out of memory in step 1"), config_of(model), model.shape.vocab)
    with pytest.raises(ModelError, match="out of memory"):
        bench.run(Scenario(1, 20))


def test_a_whole_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a budget in which nothing counts as slow, however busy the machine, and no more rounds than needed."""
    monkeypatch.setattr("headway.engine.measured_machine.MAX_ROUNDS", MIN_ROUNDS)
    reports: list[tuple[str, int, int]] = []
    measured = measure_machine(
        write_tiny_model(tmp_path), device="cpu", budget_s=600, report=lambda *told: reports.append(told)
    )
    assert len(measured.steps) == len(measured.group) <= measured.num_measured
    assert np.unique(measured.group).size > 10
    assert {13, 14, 15} & {int(s.counts[-1]) for s in measured.steps}
    assert measured.disturbance > 0.5
    assert min(measured.flops_per_s, measured.bytes_per_s, measured.memory_bytes) > 1e6
    assert measured.config.max_step_tokens == 512
    assert reports
    assert all(0 <= done <= total for _, done, total in reports)


def test_words_for_a_machine_name_no_host() -> None:
    import socket

    words = machine_words(torch.device("cpu"))
    assert "thread" in words
    assert socket.gethostname() not in words
