"""What measurements are in the cost model's terms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.planner.truth.evidence import Evidence, evidence
from headway.planner.truth.measurement import Layout, Measurement
from tests.arithmetic.models import catalog
from tests.planner.truth.test_readers import SAMPLE, read_data

APART = Measurement(
    source="InferenceX",
    system="hgx-h200",
    engine="trtllm",
    release="trtllm 0.8.1.post1 disagg",
    model="deepseek-v3",
    weights="fp8",
    prefill=Layout(1, 8, 8),
    decode=Layout(8, 8),
    apart=True,
    prompt_tokens=1024,
    output_tokens=1024,
    concurrency=32,
    metric="tpot",
    value_s=0.008,
    where="",
)


def priced(*found: Measurement) -> Evidence:
    return evidence([replace(read_data(SAMPLE), measurements=found)], catalog())


def test_requests_are_spread_over_replicas() -> None:
    told = replace(APART, prompt_replicas=2, decode_replicas=8)
    wide = replace(APART, decode=Layout(1, 32, 32))
    together = replace(APART, apart=False)
    e = priced(APART, told, wide, together)
    assert e.served.in_flight.tolist() == [8, 4, 32, 32]  # Unstated: four replicas of eight chips, or one of more.
    groups = 8  # That attend to prompts of their own on a replica.
    assert e.served.prompts_each == pytest.approx([groups / 4, groups * 2 / 8, groups, groups])


def test_tags_say_how_a_run_differs_from_others() -> None:
    splitwise = replace(APART, source="Splitwise", engine="other", model="llama-2-70b", batch=True, apart=False)
    trial = "InferenceX experimental x"
    experiments = [replace(APART, source=trial, apart=False, model=name) for name in ("glm-5", "minimax-m2.5")]
    drafted, alone, *others = priced(APART, splitwise, *experiments).tags
    assert (drafted["mode"], drafted["drafts"]) == ("apart", "unstated")
    assert (alone["mode"], alone["launching"]) == ("alone", "one by one")
    assert "drafts" not in alone
    assert len({tag["client"] for tag in others}) == 2
    assert {tag["protocol"] for tag in others} == {trial}


def test_each_group_has_a_host_for_its_own_sequences() -> None:
    dealt = replace(APART, apart=False, decode=Layout(1, 8, 8), prefill=Layout(1, 8, 8))
    sequences = priced(dealt, replace(dealt, decode=Layout(8, 8))).served.decode.sequences
    assert np.allclose(sequences, [4, 32])
