"""The parity benchmark's trace, verdict and simulated side; its real side needs a quiet machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.parity import compared, simulated_run
from benchmarks.serving.trace_runs import BLOCK, SHARED_TOKENS, make_trace

from headway.simulator.results import Quantiles
from tests.machines import machine

TRACE = make_trace(list(range(50, 400)), 30, 2.0, seed=3)


def test_ids_of_blocks_say_what_prompts_have_in_common() -> None:
    assert make_trace(list(range(50, 400)), 30, 2.0, seed=3) == TRACE
    content: dict[int, list[int]] = {}
    for call in TRACE.calls:
        tokens = TRACE.prompts[call.id]
        assert (len(tokens), len(call.hash_ids)) == (call.num_input_tokens, call.num_input_tokens // BLOCK)
        for i, block in enumerate(call.hash_ids):
            assert content.setdefault(block, tokens[i * BLOCK : (i + 1) * BLOCK]) == tokens[i * BLOCK : (i + 1) * BLOCK]
    sharing = [call for call in TRACE.calls if 1 in call.hash_ids]
    assert 5 < len(sharing) < 25
    assert all(call.num_input_tokens > SHARED_TOKENS for call in sharing)


def test_the_simulated_side_depends_on_the_machine_file_alone() -> None:
    found = simulated_run(machine(), TRACE)
    assert found == simulated_run(machine(date="2020-01-01"), TRACE)
    slower = simulated_run(machine(fit=machine().fit | {"layer_s": 1e-3}), TRACE)
    assert (slower["tpot_s"].mean or 0) > (found["tpot_s"].mean or 0) > 0


@pytest.mark.parametrize(
    ("second", "ours", "agrees"), [(1.0, 1.14, True), (1.0, 1.16, False), (2.0, 1.9, True), (2.0, 2.6, False)]
)
def test_within_15_percent_or_the_spread(second: float, ours: float, agrees: bool) -> None:
    one = Quantiles(1.0, 1.0, 1.0, 1.0, 1.0)
    alike = {"ttft_s": one, "tpot_s": one}
    other = {name: replace(q, mean=second) for name, q in alike.items()}
    rows = compared([alike, other], {name: replace(q, mean=ours) for name, q in alike.items()})
    assert [row["agrees"] for row in rows if row["which"] == "mean"] == [agrees, agrees]
    assert all(row["agrees"] for row in rows if row["which"] != "mean")
