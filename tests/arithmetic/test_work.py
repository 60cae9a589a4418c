"""Laws of StepWork: it counts every weight and every pair once, and cutting a model neither loses nor invents work."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.arithmetic.attends import spans
from headway.arithmetic.cache import kv_bytes, kv_bytes_per_token
from headway.arithmetic.experts import experts_touched
from headway.arithmetic.formats import FORMATS, Precision, precision
from headway.arithmetic.layers import ShapeError
from headway.arithmetic.parallelism import Parallelism, kv_bytes_per_chip, weight_bytes, weight_bytes_per_chip
from headway.arithmetic.parameters import parameters, params_touched
from headway.arithmetic.step_shape import decode, prefill, rows
from headway.arithmetic.work import step_work
from tests.arithmetic.models import all_names, model

LLAMA = "llama-3.1-8b"
every_model = pytest.mark.parametrize("name", all_names())


@every_model
def test_flops_of_one_token_are_two_a_weight_it_passes(name: str) -> None:
    """The embedding is looked up, not multiplied; vectors are left out; attention over one token is left out here."""
    shape, counted = model(name), parameters(model(name))
    work = step_work(shape, decode(spans(shape), 1, 1))
    head = counted.head or counted.embedding
    multiplied = counted.active - counted.embedding - counted.head - counted.norms + head
    matrices = sum(op.flops for op in work.ops if op.weight_bytes > 0)
    assert matrices == pytest.approx(2 * multiplied, rel=0.003)


@every_model
def test_a_large_step_reads_every_weight_once(name: str) -> None:
    shape = model(name)
    work = step_work(shape, prefill(spans(shape), 2_000_000))
    counted = parameters(shape)
    table = counted.head or counted.embedding
    matrices = counted.total - counted.embedding - counted.head - counted.norms + table
    looked_up = 2_000_000 * shape.hidden * 2
    assert work.total("weight_bytes") - looked_up == pytest.approx(2 * matrices, rel=2e-3)


@every_model
def test_decode_reads_the_whole_cache_unless_it_chooses(name: str) -> None:
    shape, length = model(name), 1024
    work = step_work(shape, decode(spans(shape), 1, length))
    state = sum(op.kv_read_bytes for op in work.ops if op.name == "state")
    stored = kv_bytes(shape, length, Precision())
    assert work.total("kv_read_bytes") == pytest.approx(stored, rel=1e-9)
    grown = work.total("kv_write_bytes") - state
    assert grown <= 4 * shape.kv_values_per_token + 2 * 128 * len(shape.layers)


def test_attention_flops_of_llama_in_full() -> None:
    """4 x heads x head_dim for every (query, key) pair and layer: scores and values."""
    shape = model(LLAMA)
    work = step_work(shape, prefill(spans(shape), 1000, cached=500))
    pairs = sum(range(501, 1501))
    attend = next(op for op in work.ops if op.name == "attend full")
    assert attend.flops == 32 * 4 * 32 * 128 * pairs
    assert attend.kv_read_bytes == 1500 * kv_bytes_per_token(shape, Precision())
    assert attend.kv_write_bytes == 1000 * kv_bytes_per_token(shape, Precision())


@given(
    st.sampled_from([LLAMA, "gemma-3-27b", "deepseek-v3", "qwen3-next-80b-a3b", "llama-4-scout"]),
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(1, 3000)), min_size=1, max_size=6),
)
@settings(max_examples=30, deadline=None)
def test_work_of_a_mixed_step_is_that_of_its_rows_with_weights_read_once(name: str, mix: list[tuple[int, int]]) -> None:
    shape = model(name)
    start, count = (np.array(x) for x in zip(*mix, strict=True))
    each = rows(spans(shape), start, count)
    together, apart = step_work(shape, each.total()), step_work(shape, each)
    for kv in ("kv_read_bytes", "kv_write_bytes"):
        assert together.total(kv) == pytest.approx(apart.total(kv).sum())
    assert together.total("flops", "feed_forward") == pytest.approx(apart.total("flops", "feed_forward").sum())
    # Latent attention takes the cheaper of two ways for the step as a whole, so rows alone can only be cheaper.
    assert together.total("flops") >= apart.total("flops").sum() * (1 - 1e-12)
    assert together.total("weight_bytes") <= apart.total("weight_bytes").sum() * (1 + 1e-12)


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.sampled_from(["mixtral-8x7b", LLAMA]))
@settings(deadline=None)
def test_tensor_and_data_parallelism_conserve_flops(tensor: int, data: int, name: str) -> None:
    shape = model(name)
    step = decode(spans(shape), 64, 4096)
    cut = Parallelism(tensor=tensor, data=data)
    whole, part = step_work(shape, step), step_work(shape, step, cut=cut)
    router = whole.total("flops", "router")
    rest = part.total("flops") - part.total("flops", "router")
    assert rest * cut.chips == pytest.approx(whole.total("flops") - router)
    assert part.total("kv_read_bytes") * cut.chips == pytest.approx(whole.total("kv_read_bytes"))


def test_kv_heads_beyond_what_there_is_are_copied() -> None:
    shape = model("qwen3-235b-a22b")  # 4 KV heads.
    step = decode(spans(shape), 8, 1000)
    by4, by8 = (step_work(shape, step, cut=Parallelism(tensor=t)).total("kv_read_bytes") for t in (4, 8))
    assert by4 == by8
    v3 = model("deepseek-v3")  # One latent: tensor parallelism saves no cache, data parallelism does.
    args = (v3, 1000, 8, Precision())
    assert kv_bytes_per_chip(*args, Parallelism(tensor=8)) == kv_bytes_per_chip(*args, Parallelism())
    assert kv_bytes_per_chip(*args, Parallelism(data=8)) == kv_bytes_per_chip(*args, Parallelism()) / 8
    assert kv_bytes_per_chip(*args, Parallelism(context=8)) == kv_bytes_per_chip(*args, Parallelism()) / 8


def test_experts_are_dealt_out_or_cut_but_held_once() -> None:
    shape = model("mixtral-8x7b")
    ways = [Parallelism(data=8), Parallelism(data=8, expert=8), Parallelism(tensor=8), Parallelism(tensor=2, data=4)]
    experts = 2 * parameters(shape).experts / 8
    for cut in ways:
        assert weight_bytes_per_chip(shape, Precision(), cut) >= experts
    by_data = weight_bytes_per_chip(shape, Precision(), ways[0]) - experts
    by_tensor = weight_bytes_per_chip(shape, Precision(), ways[2]) - experts
    assert by_data > 7 * by_tensor


@every_model
def test_weight_bytes_are_two_a_parameter(name: str) -> None:
    shape = model(name)
    assert weight_bytes(shape, Precision()) == 2 * shape.num_params
    assert weight_bytes_per_chip(shape, Precision(), Parallelism()) == pytest.approx(2 * shape.num_params)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        (LLAMA, {"tensor": 3}, "tensor parallelism 3 does not divide 32 heads; possible: 1, 2, 4, 8, 16, 32"),
        (LLAMA, {"pipeline": 33}, "pipeline parallelism 33 is more than the 32 layers"),
        ("mixtral-8x7b", {"expert": 16, "data": 16}, "expert parallelism 16 does not divide 8 experts"),
        (LLAMA, {"expert": 3, "data": 4}, "expert parallelism 3 does not divide the 4 chips of a stage"),
        (LLAMA, {"data": 1000, "context": 1000}, "a replica of 1000000 chips is more than 100000"),
        (LLAMA, {"data": 0}, "data parallelism must be at least 1, not 0"),
    ],
)
def test_cuts_that_do_not_fit(name: str, arguments: dict[str, int], words: str) -> None:
    with pytest.raises(ShapeError) as caught:
        step_work(model(name), decode(spans(model(name)), 1, 10), cut=Parallelism(**arguments))
    assert words in str(caught.value)


def test_more_pairs_than_can_be_counted_are_refused() -> None:
    most = prefill(spans(model("llama-3.1-8b")), 10**9, 0, 18)
    assert int(most.pairs[0]) == 18 * (10**9 * (10**9 + 1) // 2)
    with pytest.raises(ShapeError, match="attend more than 2\\^63 pairs of tokens"):
        prefill(spans(model("llama-3.1-8b")), 10**9, 0, 19)


def test_a_shape_counted_for_another_model_is_refused() -> None:
    with pytest.raises(ValueError, match="another model"):
        step_work(model("gemma-3-27b"), decode(spans(model(LLAMA)), 1, 1))


def test_experts_touched() -> None:
    assert experts_touched(256, 8, np.array([0, 1])).tolist() == pytest.approx([0, 8])
    assert experts_touched(8, 8, np.array([0, 1, 5])).tolist() == [0, 8, 8]
    v3 = model("deepseek-v3")
    assert params_touched(v3, 1.0) == pytest.approx(parameters(v3).active)
    assert params_touched(v3, 1e6) == pytest.approx(parameters(v3).total)


def test_latent_attention_takes_the_cheaper_way() -> None:
    v3 = model("deepseek-v3")

    def attend(step: object) -> float:
        work = step_work(v3, step)  # type: ignore[arg-type]
        return float(sum(op.flops for op in work.ops if op.name == "attend latent"))

    layers_heads = 61 * 128
    assert attend(decode(spans(v3), 1, 10_000)) == 2 * layers_heads * (2 * 512 + 64) * 10_000
    pairs = 10_000 * 10_001 / 2
    assert attend(prefill(spans(v3), 10_000)) == 2 * layers_heads * (128 + 64 + 128) * pairs


def test_formats() -> None:
    sizes = {name: FORMATS[name].size_bytes(1 << 20) / (1 << 20) * 8 for name in FORMATS}
    assert (sizes["bf16"], sizes["fp8"], sizes["int4"]) == (16, 8, 4.125)
    assert (sizes["mxfp4"], sizes["nvfp4"], sizes["q4_0"], sizes["q8_0"]) == (4.25, 4.5, 4.5, 8.5)
    assert FORMATS["mxfp4"].size_bytes(33) == 18
    assert FORMATS["nvfp4"].array_bytes(np.array([16.0])) == 9
    with pytest.raises(ShapeError, match="number format 'fp3' is not known; known: fp32"):
        precision("fp3")


@pytest.mark.parametrize(("weights", "published_bytes"), [("q8_0", 8.54e9), ("q4_0", 4.66e9), ("bf16", 16.07e9)])
def test_files_of_llama_cpp_quantise_embedding_and_head_too(weights: str, published_bytes: float) -> None:
    """Llama 3.1 8B; its Q4_0 has a head of 6 bits."""
    shape, stored = model(LLAMA), precision(weights)
    assert weight_bytes(shape, stored) == pytest.approx(published_bytes, rel=0.035)
    assert weight_bytes_per_chip(shape, stored, Parallelism()) == pytest.approx(weight_bytes(shape, stored))
    head = step_work(shape, decode(spans(shape), 1, 1), stored).total("weight_bytes", "head")
    assert head == stored.weights.size_bytes(shape.vocab * shape.hidden)
    assert ("embedding" in stored.kept) == (weights == "bf16")


def test_quantised_cache_and_weights_move_fewer_bytes() -> None:
    shape = model(LLAMA)
    step = decode(spans(shape), 16, 8192)
    bf16, fp8 = step_work(shape, step), step_work(shape, step, precision("fp8", "fp8"))
    assert fp8.total("kv_read_bytes") * 2 == bf16.total("kv_read_bytes")
    assert fp8.total("weight_bytes", "feed_forward") * 2 == bf16.total("weight_bytes", "feed_forward")
    assert fp8.total("weight_bytes", "head") == bf16.total("weight_bytes", "head")


def test_one_sequence_is_not_split_over_data_groups() -> None:
    shape = model(LLAMA)
    alone, cut = prefill(spans(shape), 4096), Parallelism(data=4)
    assert step_work(shape, alone, cut=cut).total("flops") == step_work(shape, alone).total("flops")
    five = step_work(shape, prefill(spans(shape), 4096, batch=5), cut=cut).total("flops", "feed_forward")
    assert five == 2 * step_work(shape, alone).total("flops", "feed_forward")
