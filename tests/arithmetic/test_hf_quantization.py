"""The formats of a checkpoint's weights and cache, as its `quantization_config` says it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.arithmetic.formats import number_format
from headway.arithmetic.hf_config import shape_from_config
from headway.arithmetic.hf_quantization import chosen_precision, stored, stored_kv
from headway.arithmetic.parallelism import weight_bytes
from headway.arithmetic.shape import ShapeError
from tests.arithmetic.models import catalog

LLAMA_8B, QWEN_8B, V3, K2 = "llama-3.1-8b", "qwen3-8b", "deepseek-v3", "kimi-k2"
BLOCKS = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
INT4 = {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group", "symmetric": True}
INT8 = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
FP4 = {"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group"}
K2_THINKING = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"]


def groups(*weights: dict[str, Any], ignore: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """As compressed-tensors writes it; `more` goes into every group."""
    each = {f"group_{i}": {"targets": ["Linear"], "weights": w, **more} for i, w in enumerate(weights)}
    return {"quant_method": "compressed-tensors", "config_groups": each, "ignore": ignore or ["lm_head"]}


def config_of(name: str, section: object) -> dict[str, Any]:
    return {**catalog().config(name), "quantization_config": section}


@pytest.mark.parametrize(
    ("name", "section", "weights", "experts"),
    [
        (QWEN_8B, BLOCKS, "fp8_block128", None),
        (QWEN_8B, {"quant_method": "fp8"}, "fp8", None),
        (LLAMA_8B, {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]}, "fp8", None),
        (QWEN_8B, AWQ, "int4_zero", None),
        (QWEN_8B, {**AWQ, "zero_point": False, "group_size": 64}, "int4_group64", None),
        (LLAMA_8B, GPTQ, "int4", None),
        (LLAMA_8B, {**GPTQ, "bits": 3, "group_size": 32, "sym": False}, "int3_group32_zero", None),
        (LLAMA_8B, {**GPTQ, "bits": 8, "group_size": -1}, "int8_group4096", None),
        (LLAMA_8B, {**GPTQ, "quant_method": "auto-round"}, "int4", None),
        (LLAMA_8B, {"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", None),
        (LLAMA_8B, {"quant_method": "bitsandbytes", "load_in_4bit": True}, "nf4", None),
        (LLAMA_8B, {"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8", None),
        (LLAMA_8B, {"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4"}}}, "mxfp4", None),
        (LLAMA_8B, groups(INT8, input_activations={"num_bits": 8, "type": "int"}), "int8", None),
        (LLAMA_8B, groups(INT8, input_activations=None), "int8_group4096", None),
        (LLAMA_8B, groups(FP8), "fp8", None),
        (LLAMA_8B, groups(FP4), "nvfp4", None),
        ("gpt-oss-120b", {"quant_method": "mxfp4"}, "bf16", "mxfp4"),
        (K2, groups(INT4, ignore=K2_THINKING), "bf16", "int4_group32"),
        (V3, groups(FP4, ignore=["lm_head", "model.layers.*.self_attn*"]), "bf16", "nvfp4"),
        (V3, groups(FP4, ignore=[f"model.layers.{i}.self_attn.o_proj" for i in range(61)]), "bf16", "nvfp4"),
        ("llama-4-maverick", groups(FP8, ignore=["re:.*self_attn", "re:.*shared_expert"]), "bf16", "fp8"),
        (V3, {**groups(FP8, FP4, ignore=[]), "ignore": ["lm_head"]}, "fp8", None),
        ("deepseek-v4-flash", BLOCKS, "fp8_block128", "mxfp4"),
    ],
)
def test_formats(name: str, section: dict[str, Any], weights: str, experts: str | None) -> None:
    config = config_of(name, section)
    found = stored(config, shape_from_config(config))
    assert found is not None
    assert (found.weights, found.experts) == (weights, experts)
    number_format(weights)


def test_groups_of_modules_are_told_apart() -> None:
    section = groups(FP4, FP8)
    section["config_groups"]["group_0"]["targets"] = ["re:.*mlp\\.experts\\..*"]
    found = stored(config_of(V3, section), shape_from_config(catalog().config(V3)))
    assert found is not None
    assert (found.weights, found.experts, found.others) == ("fp8", "nvfp4", {})


@pytest.mark.parametrize(
    ("name", "section", "published_bytes"),
    [
        ("gpt-oss-120b", {"quant_method": "mxfp4"}, 65.25e9),
        ("gpt-oss-20b", {"quant_method": "mxfp4"}, 13.76e9),
        (K2, groups(INT4, ignore=K2_THINKING), 594e9),
        (QWEN_8B, BLOCKS, 9.45e9),
        (QWEN_8B, AWQ, 6.1e9),
        (LLAMA_8B, GPTQ, 5.74e9),
    ],
)
def test_bytes_are_those_of_published_checkpoints(name: str, section: object, published_bytes: float) -> None:
    """The sizes of the repositories that they are published in, without modules that only predict further tokens."""
    config = config_of(name, section)
    shape = shape_from_config(config)
    counted = weight_bytes(shape, chosen_precision(config, shape, None, "bf16", None))
    assert counted == pytest.approx(published_bytes, rel=0.01)


@pytest.mark.parametrize(
    "section",
    [
        None,
        {},
        [],
        "awq",
        {"quant_method": "hqq"},
        {"quant_method": "compressed-tensors"},
        {"quant_method": "gptq", "bits": "4"},
        {"quant_method": "gptq", "bits": 4, "group_size": 0},
        groups({"num_bits": 4, "type": "float", "group_size": 7}),
        groups(FP8, {}),
        {"config_groups": {"group_0": None}},
        groups(FP4, ignore=["re:(unclosed"]),
        groups(FP4, ignore=[r"re:(\w+\.?)+!"]),
        groups(FP4, ignore=["re:" + ".*" * 20 + "!"]),
    ],
)
def test_what_is_not_known_is_no_format(section: object) -> None:
    config = config_of(LLAMA_8B, section)
    shape = shape_from_config(config)
    assert stored(config, shape) is None
    assert chosen_precision(config, shape, None, "fp8", None).named == "bf16"


KV_FP8 = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
MODELOPT = {"quant_method": "modelopt", "quant_algo": "FP8"}


@pytest.mark.parametrize(
    ("section", "kv"),
    [
        ({**groups(FP8), "kv_cache_scheme": KV_FP8}, "fp8"),
        ({"quant_method": "compressed-tensors", "kv_cache_scheme": KV_FP8}, "fp8"),
        ({**MODELOPT, "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"}}, "fp8"),
        ({**MODELOPT, "kv_cache_quant_algo": "FP8"}, "fp8"),
        ({**MODELOPT, "kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
        ({**MODELOPT, "kv_cache_quant_algo": None}, None),
        ({**groups(FP8), "kv_cache_scheme": None}, None),
        ({**groups(FP8), "kv_cache_scheme": "fp8"}, None),
        ({**groups(FP8), "kv_cache_scheme": {"num_bits": 8, "type": "int"}}, None),
        (BLOCKS, None),
        (None, None),
    ],
)
def test_the_cache_is_in_the_format_that_the_file_has_scales_for(section: object, kv: str | None) -> None:
    """Whatever the weights are in, unless another is named."""
    config = config_of(LLAMA_8B, section)
    shape = shape_from_config(config)
    assert stored_kv(config) == kv
    assert chosen_precision(config, shape, None, None, None).kv == number_format(kv or "bf16")
    assert chosen_precision(config, shape, "bf16", None, None).kv == number_format(kv or "bf16")
    assert chosen_precision(config, shape, None, "fp32", None).kv == number_format("fp32")


@pytest.mark.parametrize("key", ["text_config", "llm_config"])
def test_a_quantised_text_model_of_a_larger_file(key: str) -> None:
    config = {"model_type": "larger", key: config_of(LLAMA_8B, GPTQ)}
    found = stored(config, shape_from_config(config))
    assert found is not None
    assert found.weights == "int4"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 200) | st.floats() | st.sampled_from(["re:(", "re:.*", "*", "", "int"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
KEYS = ["quant_method", "bits", "group_size", "config_groups", "ignore", "modules_to_not_convert", "quant_algo", "sym"]
KEYS += ["kv_cache_scheme", "kv_cache_quant_algo"]


@given(st.sampled_from([BLOCKS, AWQ, GPTQ, groups(INT4), groups(FP4)]), st.sampled_from(KEYS), JSON_VALUES)
def test_no_section_is_met_with_anything_but_a_format_or_none(section: dict[str, Any], key: str, value: object) -> None:
    config = config_of("mixtral-8x7b", {**section, key: value})
    shape = shape_from_config(config)
    assert weight_bytes(shape, chosen_precision(config, shape, None, None, None)) > 0


@pytest.mark.parametrize(("name", "bits"), [("int4_group32", 4.5), ("int8_group64_zero", 8.375), ("nf4_double", 4.127)])
def test_bits_of_a_value_with_its_groups_scale(name: str, bits: float) -> None:
    assert number_format(name).bits_per_value == pytest.approx(bits, rel=1e-4)


@pytest.mark.parametrize("name", ["int1_group32", "int4_group0", "int4_group", "fp4", ""])
def test_formats_that_are_not_known(name: str) -> None:
    with pytest.raises(ShapeError, match=r"is not known; known: .* and as int4_group32"):
        number_format(name)
