"""Files of runs say what published results leave out, and nothing that two runs which a row can be differ in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headway.planner.truth.evidence import evidence
from headway.planner.truth.measurement import DataError, Layout, Measurement
from headway.planner.truth.readers import read_data
from headway.planner.truth.runs import described, read_runs
from tests.arithmetic.models import catalog
from tests.planner.truth.test_readers import SAMPLE

APART = """
apart:
  image: somewhere:0.8.1.post1
  model: deepseek-ai/DeepSeek-R1-0528
  runner: h200-multinode
  precision: fp8
  framework: dynamo-trt
  seq-len-configs:
  - isl: 1024
    osl: 1024
    search-space:
    - spec-decoding: mtp
      conc-list: [16, 64]
      prefill: {num-worker: 1, tp: 8, ep: 8, dp-attn: true, additional-settings: ["CONFIG_FILE=c16_mtp2.yaml"]}
      decode: {num-worker: 9, tp: 8, ep: 8, dp-attn: false}
    - conc-list: [64]
      prefill: {num-worker: 1, tp: 8, ep: 8, dp-attn: true}
      decode: {num-worker: 9, tp: 8, ep: 8, dp-attn: false}
"""
TOGETHER = """
together:
  image: somewhere:v0.5.9
  model: deepseek-ai/DeepSeek-R1-0528
  runner: b200
  precision: fp8
  framework: sglang
  seq-len-configs:
  - isl: 1024
    osl: 8192
    search-space:
    - {tp: 8, conc-start: 4, conc-end: 48, spec-decoding: mtp}
"""
ROW = Measurement(
    source="InferenceX",
    system="hgx-h200",
    engine="trtllm",
    release="trtllm 0.8.1.post1 disagg",
    model="deepseek-v3",
    weights="fp8",
    prefill=Layout(8, 8),
    decode=Layout(8, 8),
    apart=True,
    prompt_tokens=1024,
    output_tokens=1024,
    concurrency=16,
    metric="tpot",
    value_s=0.008,
    where="",
)
OTHER = replace(
    ROW, system="hgx-b200", engine="sglang", release="sglang 0.5.9", output_tokens=8192, apart=False, concurrency=32
)


def file_of(tmp_path: Path, text: str = APART + TOGETHER) -> Path:
    path = tmp_path / "runs.yaml"
    path.write_text(text)
    return path


def test_a_run_says_how_much_was_drafted_and_on_how_many_replicas(tmp_path: Path) -> None:
    runs = read_runs([file_of(tmp_path)])
    row = described(ROW, runs)
    assert (row.drafts, row.prompt_replicas, row.decode_replicas) == (2, 1, 9)
    assert (row.prefill, row.decode) == (Layout(1, 8, 8), Layout(8, 8))
    assert (described(OTHER, runs).drafts, described(OTHER, runs).decode_replicas) == (3, None)
    last = replace(OTHER, concurrency=48)
    assert described(last, runs).drafts == 3


def test_what_two_runs_differ_in_is_not_said(tmp_path: Path) -> None:
    row = described(replace(ROW, concurrency=64), read_runs([file_of(tmp_path)]))
    assert (row.drafts, row.decode_replicas) == (None, 9)


@pytest.mark.parametrize(
    "other",
    [
        replace(ROW, source="NVIDIA-AIC-gap-analysis"),
        replace(ROW, concurrency=17),
        replace(ROW, weights="fp4"),
        replace(ROW, system="hgx-b200"),
    ],
)
def test_other_rows_stay_as_they_are(tmp_path: Path, other: Measurement) -> None:
    assert described(other, read_runs([file_of(tmp_path)])) == other


def test_another_cut_is_not_taken_over(tmp_path: Path) -> None:
    row = described(replace(ROW, decode=Layout(4, 4)), read_runs([file_of(tmp_path)]))
    assert (row.drafts, row.decode_replicas, row.decode) == (2, None, Layout(4, 4))


def test_drafts_and_replicas_reach_the_cost_model(tmp_path: Path) -> None:
    data = replace(read_data(SAMPLE), measurements=(ROW,))
    plain, told = evidence([data], catalog()), evidence([data], catalog(), read_runs([file_of(tmp_path)]))
    assert plain.tags[0]["drafts"] == "unstated"
    assert told.tags[0]["drafts"] == "2"
    assert plain.served.in_flight[0] == 4  # 16 requests on four replicas: an assumption.
    assert told.served.in_flight[0] == 2
    verified = told.served.decode.rows[0] / told.served.in_flight[0]
    assert verified == pytest.approx(3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [1", "runs.yaml: "),
        ("- 1\n", "runs.yaml: Expected `object`"),
        ("mine: {runner: b200}\n", "mine is no configuration of InferenceX: KeyError"),
    ],
)
def test_a_wrong_file_gets_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_runs([file_of(tmp_path, text)])
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(DataError, match=r"nowhere\.yaml: No such file"):
        read_runs([Path("nowhere.yaml")])
