"""Parameters and cache bytes of every model in the catalog: an independent calculation, and the makers' counts."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from headway.arithmetic.cache import (
    cache_terms,
    kv_bytes,
    kv_bytes_constant,
    kv_bytes_per_layer,
    kv_bytes_per_token,
)
from headway.arithmetic.formats import Precision
from headway.arithmetic.parameters import parameters
from tests.arithmetic.models import all_names, catalog, model

FACTS = list(csv.DictReader((Path(__file__).parents[1] / "data/facts/models.csv").read_text().splitlines()))
TITLES = {published.title: name for name, published in catalog().published.items()}
# The calculation leaves out the compressors of DeepSeek V4, and gives every layer of GLM-5.3 an indexer although the
# config shares them. Test against transformers' own modules below.
CALC_DIFFERS_ACTIVE = {"deepseek-v4-pro", "deepseek-v4-flash", "glm-5.3"}


@pytest.mark.parametrize("row", FACTS, ids=lambda row: row["model"])
def test_parameters_within_one_percent_of_the_calculation(row: dict[str, str]) -> None:
    name = TITLES[row["model"]]
    counted = parameters(model(name))
    assert counted.total == model(name).num_params
    rounding = 0.005  # The calculation is written with two decimals.
    if row["params_total_B_calc"]:
        assert counted.total / 1e9 == pytest.approx(float(row["params_total_B_calc"]), rel=0.01, abs=rounding)
    if row["params_active_B_calc"] and name not in CALC_DIFFERS_ACTIVE:
        assert counted.active / 1e9 == pytest.approx(float(row["params_active_B_calc"]), rel=0.01, abs=rounding)


@pytest.mark.parametrize("name", all_names())
def test_parameters_near_what_the_maker_publishes(name: str) -> None:
    published, counted = catalog().published[name], parameters(model(name))
    if published.total_params:
        assert counted.total == pytest.approx(published.total_params, rel=0.035)
    if published.active_params and name not in ("gpt-oss-20b", "gpt-oss-120b", "qwen3.5-35b-a3b", "qwen3-next-80b-a3b"):
        # Those four leave the embedding, or the embedding and the head, out of "active".
        assert counted.active == pytest.approx(published.active_params, rel=0.125)


@pytest.mark.parametrize("row", FACTS, ids=lambda row: row["model"])
def test_cache_bytes(row: dict[str, str]) -> None:
    shape = model(TITLES[row["model"]])
    bf16 = Precision()
    index = sum(
        t.layers * t.values * 2 / t.every for t in cache_terms(shape, bf16) if t.name == "index" and t.every == 1
    )
    assert kv_bytes_per_token(shape, bf16) - index == float(row["kv_bytes_per_token_bf16"])
    conv = sum(t.size_bytes(0) for t in cache_terms(shape, bf16) if t.name == "convolution")
    written = float(row["kv_const_bytes_per_seq_bf16"])
    # That calculation leaves out the tail of Mamba's convolution; elsewhere it has it.
    assert kv_bytes_constant(shape, bf16) == written + (conv if "Nemotron" in row["model"] else 0)


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [("deepseek-v3.2", 15616), ("glm-5", 19968), ("glm-5.3", 5376), ("minimax-m3", 57 * 256)],
)
def test_index_keys_are_cached_too(name: str, bytes_per_token: int) -> None:
    terms = [t for t in cache_terms(model(name), Precision()) if t.name == "index"]
    assert sum(t.layers * t.values * 2 for t in terms) == bytes_per_token


@pytest.mark.parametrize("name", all_names())
def test_cache_grows_by_the_token_and_then_only_by_what_grows(name: str) -> None:
    shape, bf16 = model(name), Precision()
    sizes = [kv_bytes(shape, n, bf16) for n in (0, 128, 1024, 8192, 16384, 32768)]
    assert sizes == sorted(sizes)
    assert sizes[5] - sizes[4] == kv_bytes_per_token(shape, bf16) * 16384
    assert sizes[5] == kv_bytes_constant(shape, bf16) + kv_bytes_per_token(shape, bf16) * 32768


@pytest.mark.parametrize("name", all_names())
def test_a_sequences_cache_is_that_of_its_layers(name: str) -> None:
    shape, bf16 = model(name), Precision()
    lengths = np.array([[0, 100], [5000, 200_000]])
    by_layer = kv_bytes_per_layer(shape, lengths, bf16)
    assert by_layer.shape == (len(shape.layers), 2, 2)
    assert by_layer.sum(0).ravel().tolist() == [kv_bytes(shape, n, bf16) for n in lengths.ravel().tolist()]


def test_parts_of_llama_70b() -> None:
    counted = parameters(model("llama-3.1-70b"))
    assert counted.attention == 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024)
    assert counted.feed_forward == 80 * 3 * 8192 * 28672
    assert counted.embedding == counted.head == 128256 * 8192
    assert counted.norms == 161 * 8192
    assert (counted.experts, counted.router, counted.shared_experts) == (0, 0, 0)
