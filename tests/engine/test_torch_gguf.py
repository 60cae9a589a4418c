"""GGUF files: a converted model is the one that was written, and broken files are refused by name."""

from __future__ import annotations

import json

import gguf
import numpy as np
import pytest
import torch
from random_models import loaded, planner, random_tokens, save_random
from safetensors.torch import load_file
from tokenizers import Tokenizer

from headway.engine.errors import ModelError
from headway.engine.gguf_conversion import convert_gguf
from headway.engine.model_store import resolve_model
from headway.engine.progress import quiet

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
TOKENS = ["<|end|>", "<|start|>", *dict.fromkeys([*(chr(b) for b in range(33, 127)), "Ġ", "ab"])]
TOKENS += [f"filler{i}" for i in range(131 - len(TOKENS))]
"""131: two special ones, printable bytes, a merge, fillers."""


def pairs(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows as llama.cpp stores them: (2, half) of each head become (half, 2)."""
    return weight.reshape(heads, 2, -1, weight.shape[1]).swapaxes(1, 2).reshape(weight.shape)


@pytest.fixture(scope="module", params=["llama", "llama-tied"])
def original(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(request.param)
    save_random(directory, request.param, initializer_range=0.12)
    return directory


def write_gguf(original, path, *, metadata=(), drop=(), tensors=(), quantise=None):
    """`metadata` and `tensors` replace what is written otherwise; None leaves a key out."""
    writer = gguf.GGUFWriter(path, "llama")
    values = {
        "llama.block_count": 3,
        "llama.context_length": 1024,
        "llama.embedding_length": 48,
        "llama.feed_forward_length": 80,
        "llama.attention.head_count": 6,
        "llama.attention.head_count_kv": 2,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        **dict(metadata),
    }
    strings = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.chat_template": "{{ x }}"}
    strings |= {k: values.pop(k) for k in list(values) if isinstance(values[k], str)}
    tokens = values.pop("tokens", TOKENS)
    merges = values.pop("merges", ["a b"])
    for key, value in values.items():
        if value is not None:
            writer.add_uint32(key, value)
    for key, value in strings.items():
        if key != "general.architecture":
            writer.add_string(key, value)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-6)
    writer.add_float32("llama.rope.freq_base", 10000.0)
    writer.add_bool("tokenizer.ggml.add_bos_token", False)
    writer.add_array("tokenizer.ggml.tokens", tokens)
    writer.add_array("tokenizer.ggml.token_type", [3, 3] + [1] * (len(tokens) - 2))
    writer.add_array("tokenizer.ggml.merges", merges)
    arrays = {gguf_name(n): (n, t.numpy()) for n, t in load_file(original / "model.safetensors").items()}
    for name, (hf_name, array) in arrays.items():
        if name in drop:
            continue
        heads = 6 if "q_proj" in hf_name else 2
        stored = pairs(array, heads) if "q_proj" in hf_name or "k_proj" in hf_name else array
        stored = dict(tensors).get(name, stored)
        if quantise and stored.ndim == 2 and stored.shape[1] % 32 == 0:
            stored = gguf.quants.quantize(np.ascontiguousarray(stored), quantise)
            writer.add_tensor(name, stored, raw_dtype=quantise)
        else:
            writer.add_tensor(name, stored)
    for name, array in dict(tensors).items():
        if name not in arrays:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if "general.architecture" in strings:
        path.write_bytes(
            path.read_bytes().replace(
                b"\x05\0\0\0\0\0\0\0llama", b"\x05\0\0\0\0\0\0\0" + strings["general.architecture"].encode(), 1
            )
        )
    return path


def gguf_name(name: str) -> str:
    outer = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    outer["lm_head.weight"] = "output.weight"
    if name in outer:
        return outer[name]
    _, _, index, rest = name.split(".", 3)
    stem = rest.removesuffix(".weight")
    return f"blk.{index}.{NAMES[stem]}.weight"


def converted(path, out):
    out.mkdir()
    convert_gguf(path, out, quiet)
    return out


def test_weights_and_config_come_back(original, tmp_path):
    out = converted(write_gguf(original, tmp_path / "m.gguf"), tmp_path / "out")
    want, got = load_file(original / "model.safetensors"), load_file(out / "model.safetensors")
    assert set(got) == set(want)
    for name, tensor in want.items():
        assert torch.equal(got[name], tensor), name
    config = json.loads((out / "config.json").read_text())
    assert config["rms_norm_eps"] == 1e-6
    assert config["tie_word_embeddings"] == ("lm_head.weight" not in want)


def test_the_converted_model_says_the_same(original, tmp_path):
    prompt = random_tokens(20, seed=3)
    directories = (original, converted(write_gguf(original, tmp_path / "m.gguf"), tmp_path / "out"))
    outputs = []
    for directory in directories:
        model = loaded(directory)
        outputs.append(planner(model).generate([prompt], 10))
        model.executor.close()
    assert outputs[0] == outputs[1]
    assert model.eos_token_ids == (0,)


def test_shards(original, tmp_path, monkeypatch):
    monkeypatch.setattr("headway.engine.gguf_conversion.SHARD_BYTES", 60_000)
    out = converted(write_gguf(original, tmp_path / "m.gguf"), tmp_path / "out")
    index = json.loads((out / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 2
    loaded(out).executor.close()


@pytest.mark.parametrize("kind", [gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q8_0])
def test_quantised_tensors(tmp_path, kind):
    save_random(tmp_path / "hf", "llama", hidden_size=96, intermediate_size=64)
    sizes = {"llama.embedding_length": 96, "llama.feed_forward_length": 64}
    path = write_gguf(tmp_path / "hf", tmp_path / "m.gguf", metadata=sizes, quantise=kind)
    got = load_file(converted(path, tmp_path / "out") / "model.safetensors")
    for name, tensor in load_file(tmp_path / "hf" / "model.safetensors").items():
        want = tensor.numpy()
        if want.ndim == 2:
            want = gguf.quants.dequantize(gguf.quants.quantize(want, kind), kind)
        np.testing.assert_array_equal(got[name].numpy(), want, err_msg=name)


def test_digits_are_split_one_by_one(original, tmp_path):
    out = converted(write_gguf(original, tmp_path / "m.gguf"), tmp_path / "out")
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    assert tokenizer.encode("a   12 ab<|end|>", add_special_tokens=False).tokens == [*"aĠĠĠ12Ġ", "ab", "<|end|>"]
    assert tokenizer.encode("ab").tokens == ["ab"]
    assert tokenizer.decode(tokenizer.encode("a   12 ab").ids) == "a   12 ab"
    settings = json.loads((out / "tokenizer_config.json").read_text())
    assert (settings["chat_template"], settings["eos_token"]) == ("{{ x }}", "<|end|>")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metadata": {"general.architecture": "bloom"}}, ["bloom", "llama"]),
        ({"metadata": {"tokenizer.ggml.pre": "tekken"}}, ["tekken", "smollm"]),
        ({"metadata": {"tokenizer.ggml.model": "llama"}}, ["tokenizer", "gpt2"]),
        ({"metadata": {"llama.block_count": None}}, ["llama.block_count", "missing"]),
        ({"metadata": {"llama.block_count": 4}}, ["blk.3.", "missing"]),
        ({"metadata": {"llama.block_count": 10**9}}, ["llama.block_count"]),
        ({"metadata": {"llama.attention.head_count": 0}}, ["head_count"]),
        ({"metadata": {"llama.attention.head_count": "six"}}, ["head_count", "str"]),
        ({"metadata": {"llama.rope.dimension_count": 4}}, ["llama.rope.dimension_count"]),
        ({"metadata": {"llama.rope.scaling.type": "yarn"}}, ["yarn"]),
        ({"metadata": {"llama.feed_forward_length": 81}}, ["ffn_gate", "81"]),
        ({"metadata": {"tokens": [*TOKENS, "more"]}}, ["token_embd.weight", "132", "131"]),
        ({"metadata": {"tokens": [*TOKENS[:-1], "a"]}}, ["twice"]),
        ({"metadata": {"merges": ["a b", "nospace"]}}, ["nospace"]),
        ({"metadata": {"merges": ["a 뷁"]}}, ["merges"]),
        ({"metadata": {"tokenizer.ggml.eos_token_id": 500}}, ["eos_token_id", "500"]),
        ({"drop": ["blk.1.attn_k.weight"]}, ["blk.1.attn_k.weight", "missing"]),
        ({"drop": ["token_embd.weight"]}, ["token_embd.weight", "missing"]),
        ({"tensors": {"blk.1.attn_k.weight": np.ones((16, 47), np.float32)}}, ["blk.1.attn_k.weight", "47"]),
        ({"tensors": {"rope_freqs.weight": np.ones(4, np.float32)}}, ["rope_freqs.weight"]),
    ],
)
def test_a_file_that_cannot_be_converted(original, tmp_path, changes, words):
    path = write_gguf(original, tmp_path / "m.gguf", **changes)
    with pytest.raises(ModelError) as caught:
        converted(path, tmp_path / "out")
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("length", [0, 3, 100, 5000])
def test_a_truncated_file(original, tmp_path, length):
    path = write_gguf(original, tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(ModelError, match=r"m\.gguf"):
        converted(path, tmp_path / "out")


def test_a_gguf_file_is_converted_once(original, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    path = write_gguf(original, tmp_path / "m.gguf")
    first = resolve_model(str(path))
    stamp = (first / "model.safetensors").stat().st_mtime_ns
    assert resolve_model(str(path)) == first
    assert (first / "model.safetensors").stat().st_mtime_ns == stamp
    write_gguf(original, path, metadata={"tokenizer.chat_template": "other"})
    assert resolve_model(str(path)) != first
