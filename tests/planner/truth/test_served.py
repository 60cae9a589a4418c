"""What measurements are in the cost model's terms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from headway.planner.truth.configuration import formats
from headway.planner.truth.evidence import Evidence, evidence
from headway.planner.truth.measurement import Layout, Measurement
from headway.planner.truth.models import measured_shape
from headway.roofline.pooled import unfitted
from headway.roofline.serving import served_s
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


def test_beside_weights_that_fill_a_chip_some_room_is_found_for_the_cache() -> None:
    """DeepSeek in fp8 takes 168 of 180 GB on each of four B200, and served 32 requests of 1,024 and 1,024 tokens."""
    full = replace(APART, system="hgx-b200", apart=False, prefill=Layout(4), decode=Layout(4))
    assert priced(full).served.in_flight.tolist() == [32]


SGLANG = replace(APART, system="hgx-b200", engine="sglang", release="sglang 0.5.9", apart=False, decode=Layout(8))


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, 15),
        ({"concurrency": 8}, 5),
        ({"system": "hgx-h200"}, 0),
        ({"source": "ours"}, 0),
        ({"apart": True}, 0),
        ({"engine": "trtllm", "release": "trtllm 1.2", "decode": Layout(1, 8, 8)}, 30),
        ({"engine": "trtllm", "release": "trtllm 1.2"}, 0),
        ({"engine": "vllm", "release": "vllm 0.19.0"}, 0),
    ],
)
def test_requests_wait_until_an_engine_looks_at_them(changes: dict[str, object], steps: float) -> None:
    one = replace(SGLANG, **changes)  # type: ignore[arg-type]
    assert priced(one).served.unseen_steps.tolist() == [steps]


@pytest.mark.parametrize(
    ("changes", "cache"),
    [
        ({}, "fp8"),
        ({"weights": "bf16"}, "bf16"),
        ({"weights": "int4"}, "bf16"),
        ({"system": "hgx-h200"}, "bf16"),
        ({"source": "ours"}, "bf16"),
        ({"source": "ours", "engine": "trtllm", "system": "hgx-h200"}, "fp8"),
        ({"engine": "trtllm", "system": "hgx-h200", "model": "gpt-oss-120b", "weights": "fp4"}, "bf16"),
    ],
)
def test_the_cache_is_as_narrow_as_it_was_launched(changes: dict[str, object], cache: str) -> None:
    one = replace(SGLANG, **changes)  # type: ignore[arg-type]
    found = formats(one, measured_shape(catalog(), one.model), catalog().system(one.system))
    assert found.kv.name == cache


def test_mixtures_in_four_bits_keep_all_but_the_experts_wide() -> None:
    def named(model: str, weights: str) -> tuple[str, str]:
        one = replace(SGLANG, model=model, weights=weights)
        found = formats(one, measured_shape(catalog(), model), catalog().system(one.system))
        return found.weights.name, found.of("experts").name

    assert named("deepseek-v3", "fp4") == ("bf16", "nvfp4")
    assert named("kimi-k2", "int4") == ("bf16", "int4")
    assert named("deepseek-v3", "fp8") == ("fp8", "fp8")
    assert named("llama-3.1-70b", "fp4") == ("nvfp4", "nvfp4")


def test_old_vllm_waits_for_its_host_and_reads_all_experts() -> None:
    old = replace(SGLANG, engine="vllm", release="vllm 0.12.0", model="qwen3-235b-a22b", decode=Layout(4))
    new, wide = replace(old, release="vllm 0.19.0"), replace(old, weights="bf16")
    served = priced(old, new, wide).served
    assert served.waits_for_host.tolist() == [True, False, True]
    assert (served.decode.missed < 0).tolist() == [False, True, True]
    one = {name: value[:1] for name, value in unfitted().resolved([{}]).items()}
    before, after = (served_s(served.take(np.array([i])), one)[0] for i in (0, 1))
    assert before > after


def test_each_group_has_a_host_for_its_own_sequences() -> None:
    dealt = replace(APART, apart=False, decode=Layout(1, 8, 8), prefill=Layout(1, 8, 8))
    sequences = priced(dealt, replace(dealt, decode=Layout(8, 8))).served.decode.sequences
    assert np.allclose(sequences, [4, 32])
