"""What fits on a chip."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.arithmetic.cache import kv_bytes, kv_bytes_per_token
from headway.arithmetic.formats import Precision, precision
from headway.arithmetic.parallelism import Parallelism, kv_bytes_per_chip
from headway.roofline import MemoryPlan, memory_plan
from headway.roofline.capacity import chips_for_bytes, length_where_kv_reaches
from tests.arithmetic.models import catalog, model


def test_llama_70b_needs_two_h100() -> None:
    h100 = catalog().chip("h100-sxm")
    one = memory_plan(model("llama-3.1-70b"), h100, 4096, 1, Precision(), Parallelism())
    assert not one.fits
    assert one.max_batch == 0
    two = memory_plan(model("llama-3.1-70b"), h100, 4096, 1, Precision(), Parallelism(tensor=2))
    assert two.weights_bytes == pytest.approx(141.1e9 / 2, rel=1e-3)
    assert two.fits
    fp8 = memory_plan(model("llama-3.1-70b"), h100, 4096, 1, precision("fp8"), Parallelism())
    assert not fp8.fits  # 72.6 GB of 72 usable.


@given(
    st.sampled_from(["llama-3.1-8b", "gpt-oss-20b"]),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 100_000),
    st.floats(0, 1),
)
@settings(max_examples=60, deadline=None)
def test_the_largest_batch_fits_and_one_more_a_group_does_not(
    name: str, tensor: int, data: int, length: int, part: float
) -> None:
    shape, chip, cut = model(name), catalog().chip("h100-sxm"), Parallelism(tensor=tensor, data=data)
    shared = int(part * (length - 1))

    def plan(batch: int) -> MemoryPlan:
        return memory_plan(shape, chip, length, batch, Precision(), cut, shared=shared)

    most = plan(1).max_batch
    assert most >= memory_plan(shape, chip, length, 1, Precision(), cut).max_batch
    if most:
        assert plan(most).fits
    assert not plan(most + data).fits


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gemma-3-27b", "qwen3-next-80b-a3b", "deepseek-v4-flash"])
def test_what_sequences_have_in_common_is_kept_once_by_each_group(name: str) -> None:
    """Windows keep none of it once they are past it, and a state is each sequence's own."""
    shape = model(name)

    def held(batch: int, shared: int = 0) -> float:
        return kv_bytes_per_chip(shape, 40_000, batch, Precision(), Parallelism(data=2), shared)

    in_common = kv_bytes_per_token(shape, Precision()) * 20_480
    assert held(8, 20_480) == pytest.approx(4 * held(2) - 3 * in_common)
    assert held(8) == 4 * held(2)
    assert held(2, 20_480) == held(2)


@given(
    st.sampled_from(["llama-3.1-8b", "gemma-3-27b", "qwen3-next-80b-a3b", "deepseek-v4-pro"]), st.integers(1, 10**12)
)
@settings(max_examples=40, deadline=None)
def test_length_is_the_shortest_that_reaches(name: str, size_bytes: int) -> None:
    length = length_where_kv_reaches(model(name), size_bytes, Precision())
    assert length is not None
    assert kv_bytes(model(name), length, Precision()) >= size_bytes
    assert length == 1 or kv_bytes(model(name), length - 1, Precision()) < size_bytes


def test_gb_and_gib_differ_by_seven_percent_in_chips() -> None:
    h100 = catalog().chip("h100-sxm")
    assert chips_for_bytes(80e9, h100) == 1
    assert chips_for_bytes(80 * 2**30, h100) == pytest.approx(1.0737, abs=1e-4)
