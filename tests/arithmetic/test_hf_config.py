"""Configs that lack a key, contradict themselves or are of no known family: one line that says what, and what fits."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.arithmetic.attends import spans
from headway.arithmetic.cache import kv_bytes_constant, kv_bytes_per_token
from headway.arithmetic.formats import Precision
from headway.arithmetic.hf_config import FAMILIES, shape_from_config
from headway.arithmetic.hf_kin import KIN
from headway.arithmetic.parameters import parameters
from headway.arithmetic.shape import ShapeError
from headway.arithmetic.step_shape import decode
from headway.arithmetic.work import step_work
from tests.arithmetic.models import all_names, catalog, model

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "vocab_size": 100,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "max_position_embeddings": 256,
}


def test_a_llama() -> None:
    shape = shape_from_config(LLAMA)
    assert shape.num_params == 2 * 100 * 64 + 64 + 2 * (64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 128 + 2 * 64)
    assert shape.kv_values_per_token == 2 * 2 * 2 * 16


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hidden_size": 65}, "hidden_size 65 is not a multiple of num_attention_heads 4: give head_dim"),
        ({"max_position_embeddings": -1}, "max_position_embeddings must be a positive integer, not -1"),
        ({"text_config": {"model_type": "gemma4_text"}}, "hidden_size_per_layer_input 256 is not supported"),
        ({"per_layer_config": {"full_attention": {}}}, "per_layer_config must have layers' numbers for keys"),
        ({"per_layer_config": {"01": {"head_dim": "x"}}}, "head_dim must be a positive integer, not 'x'"),
        ({"layer_types": ["indexed_attention"] * 2}, "layer_types 'indexed_attention' is not supported"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings must be true or false, not 'false'"),
        ({"attention_bias": 1}, "attention_bias must be true or false, not 1"),
        ({"model_type": "gpt5"}, "model_type 'gpt5' is not supported; supported: llama"),
        ({"hidden_size": None}, "hidden_size must be a positive integer, not None"),
        ({"hidden_size": "64"}, "hidden_size must be a positive integer"),
        ({"vocab_size": -1}, "vocab_size must be a positive integer, not -1"),
        ({"vocab_size": True}, "vocab_size must be a positive integer"),
        ({"num_attention_heads": 0}, "num_attention_heads must be a positive integer"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 is not a multiple of num_key_value_heads 3"),
        ({"num_key_value_heads": "2"}, "num_key_value_heads must be a positive integer"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be at most 10000"),
        ({"hidden_act": "tanh"}, "hidden_act 'tanh' is not supported; supported: silu"),
        ({"rope_scaling": {"rope_type": "ntk"}}, "rope type 'ntk' is not supported"),
        ({"rope_scaling": [1]}, "rope_scaling must be an object"),
        ({"rope_theta": -1}, "rope_theta must be a number from 0"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps must be a number"),
        ({"layer_types": ["full_attention"]}, "layer_types must be a list with an entry for each of the 2 layers"),
        ({"layer_types": ["full_attention", "ring"]}, "layer_types 'ring' is not supported"),
        ({"model_type": "mixtral"}, "num_local_experts must be a positive integer"),
        (
            {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 5},
            "5 experts for each token are more than the 4",
        ),
        (
            {"model_type": "deepseek_v3", "first_k_dense_replace": 0},
            "num_experts or n_routed_experts or num_local_experts must be a positive",
        ),
        (
            {"model_type": "deepseek_v3", "n_routed_experts": 4, "num_experts_per_tok": 2},
            "qk_rope_head_dim must be a positive integer",
        ),
        ({"model_type": "gemma4_text", "num_kv_shared_layers": 10}, "num_kv_shared_layers 10 is not supported"),
        ({"model_type": "hunyuan_v1_dense", "use_cla": True}, "use_cla True is not supported; only 0 or false is"),
        (
            {"model_type": "hunyuan_v1_moe", "num_experts": 9, "moe_topk": [1, 2]},
            "num_experts_per_tok must be the same in every layer, not [1, 2]",
        ),
        ({"model_type": "minimax_m1"}, "attn_type_list must be a list"),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "MXM"}, "block"),
        (
            {"model_type": "nemotron_h", "hybrid_override_pattern": "-E-"},
            "no block reads other tokens; M or * is needed",
        ),
        ({"model_type": "deepseek_v4", "compress_ratios": [4, 7]}, "compress_ratios must hold 0, 4 or 128, not 7"),
    ],
)
def test_refusals(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ShapeError) as caught:
        shape_from_config({**LLAMA, **change})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


GEMMA_3_12B = {
    "model_type": "gemma3",
    "text_config": {
        "hidden_size": 3840,
        "intermediate_size": 15360,
        "model_type": "gemma3_text",
        "num_attention_heads": 16,
        "num_hidden_layers": 48,
        "num_key_value_heads": 8,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
}
"""As published: what equals the class's default is left out."""


def test_what_a_published_text_config_leaves_out_is_its_classs_default() -> None:
    shape = shape_from_config(GEMMA_3_12B)
    assert {layer.attention.head_dim for layer in shape.layers} == {256}  # And not 3840 / 16 = 240.
    assert (shape.vocab, shape.max_context, shape.tied_embeddings) == (262_208, 131_072, True)
    assert shape.kv_values_per_token == 48 * 2 * 8 * 256
    layer = 3840 * 256 * (16 + 2 * 8 + 16) + 3 * 3840 * 15_360 + 4 * 3840 + 2 * 256
    assert shape.num_params == 262_208 * 3840 + 48 * layer + 3840


def test_a_files_own_sizes_have_no_default_but_its_heads_do() -> None:
    alone = {**GEMMA_3_12B["text_config"], "vocab_size": 262_208}  # type: ignore[dict-item]
    shape = shape_from_config(alone)
    assert ({layer.attention.head_dim for layer in shape.layers}, shape.max_context) == ({256}, None)
    for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"):
        with pytest.raises(ShapeError, match=f"{key} must be a positive integer, not None"):
            shape_from_config({k: v for k, v in alone.items() if k != key})


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config"])
def test_the_text_model_of_a_larger_file_goes_by_several_names(key: str) -> None:
    outer = {"model_type": "internvl_chat", "hidden_size": 8}
    assert shape_from_config({**outer, key: LLAMA}) == shape_from_config(LLAMA)
    assert shape_from_config({**outer, "thinker_config": {**outer, key: LLAMA}}) == shape_from_config(LLAMA)


@pytest.mark.parametrize(("window", "kind"), [(255, "window"), (256, "full"), (131_072, "full")])
def test_a_window_as_long_as_the_longest_sequence_is_none(window: int, kind: str) -> None:
    shape = shape_from_config({**LLAMA, "model_type": "phi3", "sliding_window": window})
    assert {layer.attention.kind for layer in shape.layers} == {kind}
    assert kv_bytes_per_token(shape, Precision()) == (0 if kind == "window" else 2 * shape.kv_values_per_token)


def test_layers_of_a_pattern_of_letters() -> None:
    pattern = {"model_type": "exaone4", "sliding_window": 64, "num_hidden_layers": 6, "sliding_window_pattern": "LLG"}
    kinds = [layer.attention.kind for layer in shape_from_config({**LLAMA, **pattern}).layers]
    assert kinds == ["window", "window", "full"] * 2
    for wrong in ("LLX", 0.5, -1, True, [1]):
        with pytest.raises(ShapeError, match="sliding_window_pattern must be"):
            shape_from_config({**LLAMA, **pattern, "sliding_window_pattern": wrong})


def test_mimo_v2_flash_as_it_is_published() -> None:
    """309B, 15B of them active; 9 of 48 layers are full, with 4 KV heads of 192 and 128 values."""
    config = {
        "model_type": "mimo_v2_flash",
        "hidden_size": 4096,
        "num_hidden_layers": 48,
        "num_attention_heads": 64,
        "num_key_value_heads": 4,
        "swa_num_key_value_heads": 8,
        "head_dim": 192,
        "v_head_dim": 128,
        "hybrid_layer_pattern": [0, 1, 1, 1, 1, *([0, 1, 1, 1, 1, 1] * 7), 0],
        "sliding_window": 128,
        "intermediate_size": 16_384,
        "moe_intermediate_size": 2048,
        "moe_layer_freq": [0, *([1] * 47)],
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "vocab_size": 152_576,
        "max_position_embeddings": 262_144,
        "tie_word_embeddings": False,
    }
    shape = shape_from_config(config)
    assert parameters(shape).total == pytest.approx(309e9, rel=0.01)
    assert parameters(shape).active == pytest.approx(15e9, rel=0.05)
    assert kv_bytes_per_token(shape, Precision()) == 9 * 4 * (192 + 128) * 2
    assert kv_bytes_constant(shape, Precision()) == 39 * 8 * (192 + 128) * 2 * 128


def test_null_is_not_absent() -> None:
    mistral = {**LLAMA, "model_type": "mistral", "num_attention_heads": 8, "max_position_embeddings": 8192}
    del mistral["num_key_value_heads"]
    assert {(a.attention.num_kv_heads, a.attention.window) for a in shape_from_config(mistral).layers} == {(8, 4096)}
    null = shape_from_config({**mistral, "num_attention_heads": 4, "num_key_value_heads": None, "sliding_window": None})
    assert {(layer.attention.num_kv_heads, layer.attention.window) for layer in null.layers} == {(4, 0)}


def test_a_family_is_in_the_catalog_or_compared_with_transformers() -> None:
    types = {model(name).family for name in catalog().configs}
    assert types | set(KIN) | {"qwen2_moe", "deepseek_v2", "mimo_v2_flash"} == set(FAMILIES)


def test_hybrids_alternate_as_their_configs_say() -> None:
    def kinds(name: str) -> list[str]:
        return [layer.attention.kind for layer in model(name).layers]

    assert kinds("gemma-3-27b").count("full") == 10
    assert kinds("gemma-2-9b")[:4] == ["window", "full", "window", "full"]
    assert kinds("llama-4-scout")[:4] == ["chunked", "chunked", "chunked", "full"]
    assert kinds("qwen3-next-80b-a3b")[:4] == ["linear", "linear", "linear", "full"]
    assert kinds("kimi-k3").count("latent") == 24
    assert kinds("deepseek-v4-flash").count("compressed") == 41
    assert kinds("nemotron-3-super-120b-a12b").count("none") == 40
    assert kinds("minimax-m1")[7] == "full"


def test_first_layers_are_dense_where_the_config_says() -> None:
    v3, maverick = model("deepseek-v3"), model("llama-4-maverick")
    assert [layer.feed_forward.experts is None for layer in v3.layers[:4]] == [True, True, True, False]
    assert [layer.feed_forward.experts is None for layer in maverick.layers[:4]] == [True, False, True, False]
    assert v3.layers[3].feed_forward.inner == 2048


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, 2, 3, 7, 10**9, 10**30, -1])
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["full_attention", "sliding_attention", "linear_attention", "MEM*E", "yarn"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(all_names()), st.data())
@settings(max_examples=300, deadline=None)
def test_no_config_is_met_with_anything_but_a_shape_or_a_refusal(name: str, data: st.DataObject) -> None:
    config = json.loads(json.dumps(catalog().config(name)))
    text = config.get("text_config", config)
    for _ in range(data.draw(st.integers(1, 3))):
        where = data.draw(st.sampled_from([text, *(v for v in text.values() if isinstance(v, dict) and v)]))
        key = data.draw(st.sampled_from(sorted(where)))
        if data.draw(st.booleans()):
            where[key] = data.draw(JSON_VALUES)
        else:
            where.pop(key)
            if where is not text and not where:
                break
    try:
        shape = shape_from_config(config)
    except ShapeError:
        return
    assert shape.num_params > 0
    work = step_work(shape, decode(spans(shape), 3, 1000))
    assert np.isfinite(work.total("flops"))
    assert work.memory_bytes > 0
