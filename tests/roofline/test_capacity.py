"""What fits on a chip."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.formats import Precision, precision
from headway.arithmetic.parallelism import Parallelism
from headway.roofline import memory_plan
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


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.integers(1, 100_000))
@settings(max_examples=40, deadline=None)
def test_the_largest_batch_fits_and_one_more_a_group_does_not(tensor: int, data: int, length: int) -> None:
    shape, chip, cut = model("llama-3.1-8b"), catalog().chip("h100-sxm"), Parallelism(tensor=tensor, data=data)
    most = memory_plan(shape, chip, length, 1, Precision(), cut).max_batch
    if most:
        assert memory_plan(shape, chip, length, most, Precision(), cut).fits
    assert not memory_plan(shape, chip, length, most + data, Precision(), cut).fits


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
