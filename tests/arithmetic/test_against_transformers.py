"""Parameter counts against the modules that transformers builds from the same config (on no device: shapes only)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from headway.arithmetic.hf_config import FAMILIES, shape_from_config
from headway.arithmetic.hf_defaults import DEFAULTS, NESTED
from tests.arithmetic.models import catalog

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
    with torch.device("meta"):
        built = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**text))
    return sum(p.numel() for p in built.parameters())


@pytest.mark.parametrize("name", EXACT)
def test_every_parameter(name: str) -> None:
    config = catalog().config(name)
    assert shape_from_config(config).num_params == counted_by_transformers(config)


@pytest.mark.parametrize("name", NEARLY)
def test_every_parameter_but_a_few_vectors(name: str) -> None:
    config = catalog().config(name)
    assert shape_from_config(config).num_params == pytest.approx(counted_by_transformers(config), rel=1e-5)


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"kimi_k2", "minimax_m1", "minimax_m3"}))
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
