"""Data files are read, named in the catalog's words, and refused in one line where they are wrong."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from headway.catalog import load_catalog
from headway.planner.truth.aliases import model_name, system_name
from headway.planner.truth.evidence import evidence
from headway.planner.truth.layout import layouts, replicas
from headway.planner.truth.measurement import DataError, Layout
from headway.planner.truth.readers import DataFile
from headway.planner.truth.readers import read_data as read_named
from tests.arithmetic.models import catalog

SAMPLE = Path(__file__).parents[2] / "data" / "measured" / "points.csv"
ROW = "InferenceX,{0},{1},vllm 0.19.0,{2},{3},{4},1,1,1024,1024,16,tpot,9.5,ms,here"
RUNS = "model,task,gpu,tp,ep,dp,weights,avg_batch,avg_out_len,median_itl_ms"


def read_data(path: Path) -> DataFile:
    return read_named(path, catalog())


def test_the_sample_is_read() -> None:
    data = read_data(SAMPLE)
    assert data.rows == len(SAMPLE.read_text().splitlines()) - 1
    assert 0 < data.answered <= data.asked < data.rows
    models = Counter(m.model for m in data.measurements)
    assert {"llama-3.1-8b", "qwen3-32b", "gpt-oss-120b", "minimax-m2.5", "deepseek-v3", "glm-5"} <= set(models)
    assert all(1e-4 < m.value_s < 1000 for m in data.measurements)
    assert [m.stated for m in data.measurements if m.model == "glm-5"] == [False]
    assert {m.apart for m in data.measurements if m.model == "deepseek-v3"} == {True}
    assert all(m.batch == m.source.startswith("Splitwise") for m in data.measurements)


def test_milliseconds_and_seconds_are_told_apart() -> None:
    by_source = {m.source.split()[0]: m.value_s for m in read_data(SAMPLE).measurements if m.metric == "tpot"}
    assert all(0.001 < seconds < 0.2 for seconds in by_source.values())


def test_a_compressed_file_says_the_same(tmp_path: Path) -> None:
    packed = tmp_path / "points.csv.gz"
    packed.write_bytes(gzip.compress(SAMPLE.read_bytes()))
    plain, unpacked = read_data(SAMPLE), read_data(packed)
    assert unpacked.sha256 == plain.sha256
    assert len(unpacked.measurements) == len(plain.measurements)


def test_what_is_said_twice_counts_once(tmp_path: Path) -> None:
    lines = SAMPLE.read_text().splitlines()
    twice = tmp_path / "twice.csv"
    twice.write_text("\n".join([*lines, *lines[1:]]) + "\n")
    assert len(read_data(twice).measurements) == len(read_data(SAMPLE).measurements)
    assert read_data(twice).answered == 2 * read_data(SAMPLE).answered


def test_a_run_is_known_again_when_another_source_rounds_it(tmp_path: Path) -> None:
    """NVIDIA's gap analysis repeats runs of InferenceX in hundredths of a millisecond, with shorter names."""
    exact = ROW.format("b200_sxm", 4, "Qwen/Qwen3.5-397B-A17B", "fp8", 4).replace(
        "vllm 0.19.0", "sglang nightly-dev-2026"
    )
    exact = exact.replace(",9.5,", ",9.504321,")
    rounded = (
        exact.replace("InferenceX", "NVIDIA-AIC-gap-analysis").replace("-dev-2026", "-dev").replace("9.504321", "9.5")
    )
    other = rounded.replace(",9.5,", ",9.52,")
    path = tmp_path / "points.csv"
    path.write_text("\n".join([SAMPLE.read_text().splitlines()[0], rounded, exact, other]) + "\n")
    kept = read_data(path).measurements
    assert [(m.source, m.value_s) for m in kept] == [
        ("InferenceX", 0.009504321),
        ("NVIDIA-AIC-gap-analysis", pytest.approx(0.00952)),
    ]


def test_all_chips_of_a_run_with_prompts_apart_are_no_tensor_parallelism(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    row = ROW.format("gb200", 36, "deepseek-ai/DeepSeek-R1", "fp4", 36)
    path.write_text(f"{SAMPLE.read_text().splitlines()[0]}\n{row}\n")
    (found,) = read_data(path).measurements
    assert found.apart
    assert (found.prefill, found.decode) == (Layout(4), Layout(1, 32, 32))
    assert (found.prompt_replicas, found.decode_replicas) == (1, 1)
    path.write_text(path.read_text().replace("InferenceX", "ours"))
    (own,) = read_data(path).measurements
    assert (own.apart, own.decode) == (False, Layout(36))


def test_runs_of_the_other_kind(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(f"{RUNS}\nQwen/Qwen3-8B,gpqa,H100,1,1,1,bfloat16,8.4,900,7.5\n")
    (run,) = read_data(path).measurements
    assert (run.model, run.system, run.engine, run.weights) == ("qwen3-8b", "hgx-h100", "vllm", "bf16")
    assert (run.concurrency, run.output_tokens, run.value_s) == (8, 900, 0.0075)
    assert run.median_gap


def test_experts_dealt_out_are_behind_attention_that_is_cut_too(tmp_path: Path) -> None:
    """At 235 GB of experts beside whole attention weights, eight H100 would hold no 228 sequences."""
    path = tmp_path / "runs.csv"
    path.write_text(f"{RUNS}\nQwen/Qwen3-235B-A22B-Instruct-2507,gpqa,H100,1,8,1,bfloat16,228,900,55.5\n")
    (run,) = read_data(path).measurements
    assert run.decode == Layout(8, 8)


def test_of_rows_that_describe_one_run_the_one_that_says_more_is_kept(tmp_path: Path) -> None:
    lines = SAMPLE.read_text().splitlines()
    row = next(line.split(",") for line in lines if "disagg" in line and ",tpot," in line)
    said = [*row]
    said[2], said[6], said[7] = "72", "P8xD8", "P8xD8"
    bare = [*said]
    bare[2], bare[7] = "", "P1xD1"
    path = tmp_path / "points.csv"
    path.write_text("\n".join([lines[0], ",".join(bare), ",".join(said), ",".join(bare)]) + "\n")
    (kept,) = read_data(path).measurements
    assert (kept.prompt_replicas, kept.decode_replicas, kept.decode) == (1, 8, Layout(8, 8))


@pytest.mark.parametrize(
    ("chips", "prompts", "decodes", "found"),
    [
        ("44", Layout(1, 4, 4), Layout(8, 8), (1, 5)),
        ("40", Layout(8), Layout(1, 16, 16), (1, 2)),
        ("16", Layout(8), Layout(8), (1, 1)),
        ("13", Layout(4), Layout(4), None),
        ("8", Layout(8), Layout(8), None),
        ("", Layout(8), Layout(8), None),
    ],
)
def test_replicas(chips: str, prompts: Layout, decodes: Layout, found: tuple[int, int] | None) -> None:
    assert replicas(chips, prompts, decodes) == found


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda text: text.replace("metric,", "metrics,", 1), "column .* is missing"),
        (lambda text: text + "one,two\n", "line 61: 16 cells are needed"),
        (lambda text: text.replace(",ms,", ",weeks,", 1), r"line 2: unit 'weeks' of .* must be one of s, ms"),
        (lambda text: text.replace(",tpot,", ",tpot,-", 1), r"line 2: value '-[0-9.]+' must be a number above 0"),
        (lambda text: text.replace(",tpot,", ",tpot,nan", 1), "line 2: value 'nan.*' must be a number above 0"),
    ],
)
def test_a_wrong_file_gets_one_line_with_file_and_row(tmp_path: Path, spoil: object, message: str) -> None:
    path = tmp_path / "wrong.csv"
    assert callable(spoil)
    path.write_text(spoil(SAMPLE.read_text()))
    with pytest.raises(DataError, match=message) as caught:
        read_data(path)
    assert "wrong.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("points.csv.gz", b"not compressed"),
        ("points.csv", b"\xff\xfe\x00"),
        ("points.csv.gz", gzip.compress(b"x")[:-5]),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=name.replace(".", r"\.")):
        read_data(tmp_path / name)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(DataError, match=r"nowhere\.csv: No such file"):
        read_data(Path("nowhere.csv"))


@pytest.mark.parametrize(
    ("columns", "prompts", "decodes"),
    [
        (("8", "1", "1"), Layout(8), Layout(8)),
        (("8", "8", "1"), Layout(8, 8), Layout(8, 8)),
        (("64", "8", "1"), Layout(8, 8), Layout(8, 8)),
        (("16", "4", "1"), Layout(4, 4), Layout(4, 4)),
        (("2", "4", "1"), Layout(2, 2), Layout(2, 2)),
        (("1", "8", "1"), Layout(1, 8, 8), Layout(1, 8, 8)),
        (("DP4", "4", "1"), Layout(1, 4, 4), Layout(1, 4, 4)),
        (("P4xD8", "P1xD1", "P1xD1"), Layout(4), Layout(8)),
        (("1", "1", "1", "4"), Layout(1, 4, 4), Layout(1, 4, 4)),
        (("4", "1", "1", "8"), Layout(4, 1, 2), Layout(4, 1, 2)),
        (("8", "1", "1", "8"), Layout(8), Layout(8)),
        (("24", "1", "1", "24"), Layout(24), Layout(24)),
        (("16", "4", "1", "16"), Layout(4, 4), Layout(4, 4)),
    ],
)
def test_layouts(columns: tuple[str, ...], prompts: Layout, decodes: Layout) -> None:
    assert layouts(*columns) == (prompts, decodes)


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ("meta-llama/Llama-3.1-70B", "llama-3.1-70b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-70b"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3.1-8b"),
        ("llama3.1-405b-fp8", "llama-3.1-405b"),
        ("moonshotai/Kimi-K2.5", "kimi-k2"),
        ("moonshotai/Kimi-K2-Instruct-0905", "kimi-k2"),
        ("zai-org/GLM-5-FP8", "glm-5"),
        ("zai-org/GLM-5.3", "glm-5.3"),
        ("GLM-4.5-Air", "glm-4.5-air"),
        ("deepseek-ai/DeepSeek-V3.2-Exp", "deepseek-v3.2"),
        ("nvidia/DeepSeek-R1-0528-NVFP4", "deepseek-v3"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "qwen3-235b-a22b"),
        ("Qwen_Qwen3_8B", "qwen3-8b"),
        ("google/gemma-3-27b-it", "gemma-3-27b"),
        ("bloom-176b", "bloom-176b"),
        ("zai-org/GLM-5.9", None),
        ("Qwen/Qwen3-80B", None),
        ("Llama-3.1-80B", None),
        ("", None),
    ],
)
def test_models_are_found_by_the_names_of_the_catalog(said: str, known: str | None) -> None:
    assert model_name(said, catalog()) == known


@pytest.mark.parametrize("name", sorted(catalog().configs))
def test_every_model_of_the_catalog_is_found_by_its_own_name(name: str) -> None:
    assert model_name(f"some-maker/{name.upper()}", catalog()) == name


@pytest.mark.parametrize("name", sorted(catalog().systems))
def test_every_system_is_found_by_its_name_and_its_chip(name: str) -> None:
    assert system_name(name, catalog()) == (name, True)
    by_chip = system_name(catalog().systems[name].chip.name, catalog())
    assert by_chip is not None
    assert catalog().system(by_chip[0]).chip == catalog().systems[name].chip


@pytest.mark.parametrize(
    ("hardware", "precision", "system", "weights"),
    [
        ("gb300", "fp4", "gb300-nvl72", "fp4"),
        ("mi355x", "int4", "mi355x-node", "int4"),
        ("L40S", "w8a8", "l40s-node", "int8"),
    ],
)
def test_what_the_catalog_knows_can_be_measured(
    tmp_path: Path, hardware: str, precision: str, system: str, weights: str
) -> None:
    path = tmp_path / "points.csv"
    header = SAMPLE.read_text().splitlines()[0]
    path.write_text(f"{header}\n{ROW.format(hardware, 1, 'Qwen/Qwen3-8B', precision, 1)}\n")
    (found,) = read_data(path).measurements
    assert (found.system, found.weights) == (system, weights)
    assert evidence([read_data(path)], catalog()).served.decode.memory_s.sum() > 0


def test_a_model_and_a_chip_of_ones_own_catalog(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "house-2b.json").write_text(json.dumps(catalog().config("qwen3-8b")))
    path = tmp_path / "points.csv"
    path.write_text(f"{SAMPLE.read_text().splitlines()[0]}\n{ROW.format('b200', 2, 'us/House-2B-fp8', 'fp8', 2)}\n")
    assert read_data(path).answered == 0
    (found,) = read_named(path, load_catalog([tmp_path])).measurements
    assert found.model == "house-2b"


@pytest.mark.parametrize("tensor", ["", "0", "many", "-1", "99999"])
def test_what_is_no_layout_is_not_guessed(tensor: str) -> None:
    assert layouts(tensor, "1", "1") is None
