"""Parameter counts against the modules that transformers builds from the same config (on no device: shapes only)."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM

from headway.arithmetic.cache import kv_bytes
from headway.arithmetic.formats import Precision
from headway.arithmetic.hf_config import FAMILIES, shape_from_config
from headway.arithmetic.hf_defaults import DEFAULTS, NESTED
from headway.arithmetic.hf_kin import KIN
from headway.arithmetic.shape import ModelShape
from tests.arithmetic.models import all_names, catalog

EXACT = [
    "llama-3.1-8b",
    "qwen3-30b-a3b",
    "mixtral-8x7b",
    "qwen3.5-27b",
    "qwen3.5-35b-a3b",
    "gpt-oss-20b",
    "gemma-3-27b",
]
# What differs: biases that are buffers (the router's correction), position biases of compressors, per-layer scalars.
NEARLY = ["deepseek-v3", "glm-5.3", "deepseek-v4-flash", "gemma-4-26b-a4b", "glm-4.5", "nemotron-3-super-120b-a12b"]


def counted_by_transformers(config: dict[str, Any]) -> int:
    text = {**config, **config.get("text_config", {})}
    kind = text.pop("model_type")
    text.pop("text_config", None)
    text.pop("quantization_config", None)
    theirs = CONFIG_MAPPING[kind](**text)
    whole = type(theirs) in AutoModelForCausalLM._model_mapping
    with torch.device("meta"):
        built = (AutoModelForCausalLM if whole else AutoModel).from_config(theirs)
    head = 0 if whole or text.get("tie_word_embeddings") else text["vocab_size"] * text["hidden_size"]
    return head + sum(p.numel() for p in built.parameters())


@pytest.mark.parametrize("name", EXACT)
def test_every_parameter(name: str) -> None:
    config = catalog().config(name)
    assert shape_from_config(config).num_params == counted_by_transformers(config)


@pytest.mark.parametrize("name", NEARLY)
def test_every_parameter_but_a_few_vectors(name: str) -> None:
    config = catalog().config(name)
    assert shape_from_config(config).num_params == pytest.approx(counted_by_transformers(config), rel=1e-5)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"kimi_k2", "minimax_m1", "minimax_m3"} - set(KIN)))
def test_defaults_are_those_of_the_classes(family: str) -> None:
    known = CONFIG_MAPPING[family]
    theirs = {field.name: field.default for field in fields(known)} | {"rope_theta": known.default_theta}
    ours = {**NESTED.get(family, {}), **DEFAULTS.get(family, {})}
    assert {key: theirs[key] for key in ours} == ours
    if isinstance(theirs.get("rms_norm_eps"), float):
        assert ours.get("rms_norm_eps", 1e-6) == theirs["rms_norm_eps"]
    if family not in ("deepseek_v32", "glm_moe_dsa"):  # Latent: no use is made of it.
        assert ours.get("head_dim") == theirs.get("head_dim")


@pytest.mark.parametrize("family", sorted(set(NESTED) - {"gemma4_text"}))
def test_an_empty_text_config_is_the_classs_own_model(family: str) -> None:
    config = {"text_config": {"model_type": family}}
    assert shape_from_config(config).num_params == counted_by_transformers(config)


SAVED = [name for name in all_names() if catalog().config(name)["model_type"] in CONFIG_MAPPING]
SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 100,
    "max_position_embeddings": 40_000,
}
_EXPERTS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LATENT = {"kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
_INDEX = {"index_n_heads": 2, "index_head_dim": 8, "index_topk": 4}
_DELTA = {"num_local_experts": 4, "linear_num_heads": 2, "linear_head_dim": 16, "linear_conv_kernel_dim": 4}
_NO_TOKENS = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0}
_SCOUT = {"head_dim": 16, "intermediate_size_mlp": 32, "num_local_experts": 4, "num_experts_per_tok": 1}
LEFT_OUT = [
    ("qwen2", {"use_sliding_window": True}),
    ("qwen3", {"use_sliding_window": True, "max_window_layers": 2}),
    ("llama4_text", {**_SCOUT, "moe_layers": [0]}),
    ("llama4_text", {**_SCOUT, "interleave_moe_layer_step": 2, "no_rope_layer_interval": 2}),
    ("llama4_text", {**_SCOUT, "no_rope_layers": [1, 0, 0, 1]}),
    ("llama4_text", {**_SCOUT, "attention_chunk_size": None}),
    ("gemma4_text", {"hidden_size_per_layer_input": 0}),
    ("gemma4_text", {"hidden_size_per_layer_input": 0, "num_global_key_value_heads": 1}),
    ("gemma4_text", {"hidden_size_per_layer_input": 0, "num_global_key_value_heads": 1, "attention_k_eq_v": True}),
    ("deepseek_v2", {**_EXPERTS, **_LATENT, "first_k_dense_replace": 1}),
    ("deepseek_v3", {**_EXPERTS, **_LATENT, "n_group": 2, "topk_group": 1}),
    ("mimo_v2_flash", {**_EXPERTS}),
    ("qwen2_moe", {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}),
    ("glm4_moe", {**_EXPERTS}),
    ("glm_moe_dsa", {**_EXPERTS, **_LATENT, **_INDEX, "index_topk_freq": 2}),
    ("glm_moe_dsa", {**_EXPERTS, **_LATENT, **_INDEX, "index_topk_pattern": "FSFS", "mlp_layer_types": ["dense"] * 4}),
    ("kimi_linear", {**_EXPERTS, **_LATENT, **_DELTA, **_NO_TOKENS, "first_k_dense_replace": 1, "n_shared_experts": 1}),
]
"""Files that say little of their layers: what the class makes of it."""


def of_layers(shape: ModelShape) -> list[tuple[str, int, bool, int]]:
    return [
        (a.kind, a.window, layer.feed_forward.experts is None, a.sparse.index_heads if a.sparse else 0)
        for layer in shape.layers
        for a in [layer.attention]
    ]


@pytest.mark.parametrize("name", SAVED)
def test_a_config_as_transformers_saves_it_is_the_same_model(name: str) -> None:
    """Layers by other names, what differs by layer in a section of its own, defaults left out."""
    config = catalog().config(name)
    kind, given = config["model_type"], {key: value for key, value in config.items() if key != "model_type"}
    saved = shape_from_config(json.loads(CONFIG_MAPPING[kind](**given).to_json_string()))
    shape = shape_from_config(config)
    assert saved.num_params == shape.num_params
    assert of_layers(saved) == of_layers(shape)
    assert [kv_bytes(saved, n, Precision()) for n in (1, 700, 100_000)] == [
        kv_bytes(shape, n, Precision()) for n in (1, 700, 100_000)
    ]


@pytest.mark.parametrize(("family", "given"), LEFT_OUT)
def test_layers_that_a_file_says_little_of_are_its_classs(family: str, given: dict[str, Any]) -> None:
    config = {**SMALL, **given}
    saved = json.loads(CONFIG_MAPPING[family](**config).to_json_string())
    shape = shape_from_config({"model_type": family, **config})
    assert of_layers(shape) == of_layers(shape_from_config(saved))
    theirs = saved.get("layer_types") or []
    names = {"full_attention": ("full", "latent"), "indexed_attention": ("latent",), "sliding_attention": ("window",)}
    names |= {"chunked_attention": ("chunked",), "linear_attention": ("linear",)}
    assert all(layer.attention.kind in names[kind] for layer, kind in zip(shape.layers, theirs, strict=False))
    assert shape.num_params == pytest.approx(counted_by_transformers({"model_type": family, **config}), rel=5e-3)


_NO_KIN = {"baichuan", "exaone", "internlm2", "minimax_text_01"}
"""Code of these comes with the checkpoint."""
_OUTER = {"qwen2_vl", "qwen2_5_vl", "qwen2_5_omni_text", "qwen3_omni_moe_text"}
"""Of what holds a text model (and once was all in one section), or only built as a part of it."""
_MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_TOKENS = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
_MAMBA = {"mamba_n_heads": 8, "mamba_d_state": 16, "mamba_n_groups": 2, "layer_types": ["mamba", "attention"] * 2}
_LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
KIN_GIVES: dict[str, dict[str, Any]] = {
    "afmoe": {**_MOE, "num_dense_layers": 2},
    "cohere": {"use_qk_norm": True},
    "dots1": {**_EXPERTS, "n_shared_experts": 2, "first_k_dense_replace": 1},
    "ernie4_5_moe": {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 16},
    "exaone4": {"sliding_window_pattern": 2},
    "exaone_moe": _MOE,
    "glm4_moe_lite": {**_EXPERTS, **_LATENT, "num_key_value_heads": 4},
    "glm4v_moe_text": _EXPERTS,
    "granite": {"attention_bias": True, "mlp_bias": True},
    "granitemoe": _LOCAL,
    "granitemoehybrid": {**_LOCAL, **_MAMBA, "shared_intermediate_size": 32},
    "granitemoeshared": {**_LOCAL, "shared_intermediate_size": 32},
    "hunyuan_v1_moe": {"num_experts": 4, "moe_topk": 2, "head_dim": 16, **_TOKENS},
    "hunyuan_v1_dense": {"head_dim": 16, **_TOKENS},
    "hy_v3": _MOE,
    "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 2, "expand": 2},
    "minimax": {**_LOCAL, "head_dim": 16, "layer_types": ["linear_attention", "full_attention"] * 2},
    "ministral": {"sliding_window": 512, "head_dim": 16},
    "mistral4": {**_EXPERTS, **_LATENT, "num_key_value_heads": 4},
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "phimoe": {**_LOCAL, "attention_bias": True},
    "qwen3_vl_moe_text": {**_MOE, "head_dim": 16, "tie_word_embeddings": False},
    "solar_open": _EXPERTS,
}
LAYER_NORMS = {"nemotron", "phimoe", "starcoder2", "granitemoehybrid", "mamba2"}
"""The last norm's bias, one of the head, and Mamba's own are not counted."""


@pytest.mark.parametrize("family", sorted(set(KIN) - _NO_KIN - _OUTER))
def test_a_family_like_another_has_its_own_classs_parameters(family: str) -> None:
    config = {**SMALL, **_TOKENS, **KIN_GIVES.get(family, {})}
    shape = shape_from_config({"model_type": family, **config})
    theirs = counted_by_transformers({"model_type": family, **config})
    assert shape.num_params == pytest.approx(theirs, rel=0.02 if family in LAYER_NORMS else 5e-4)
    saved = json.loads(CONFIG_MAPPING[family](**config).to_json_string())
    assert of_layers(shape_from_config(saved)) == of_layers(shape)
    assert shape_from_config(saved).num_params == shape.num_params


@pytest.mark.parametrize("family", sorted(_NO_KIN | _OUTER))
def test_a_family_without_a_class_is_as_its_kin(family: str) -> None:
    names = {ours: theirs for theirs, own in KIN[family].renamed.items() for ours in own}
    more = {"minimax_text_01": {**_LOCAL, "head_dim": 16, "attn_type_list": [0, 1, 0, 1]}, "qwen3_omni_moe_text": _MOE}
    config = {**SMALL, **more.get(family, {})}
    own = shape_from_config({"model_type": family, **{names.get(key, key): value for key, value in config.items()}})
    assert own.layers == shape_from_config({"model_type": KIN[family].like, **config}).layers
