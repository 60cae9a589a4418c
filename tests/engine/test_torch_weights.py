"""Checkpoints, whole and broken: every fault is one ModelError that names the tensor, file or key."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from random_models import loaded, planner, random_tokens
from safetensors.torch import load_file, save_file

from headway.arithmetic.hf_config import shape_from_config
from headway.engine.errors import ModelError
from headway.engine.linear import Linear, can_pack
from headway.engine.model_files import read_shape
from headway.engine.weights import load_weights

CPU = torch.device("cpu")


@pytest.fixture
def copy(llama_dir, tmp_path):
    return shutil.copytree(llama_dir, tmp_path / "copy")


def edit(path, **changes):
    config = json.loads(path.read_text())
    config.update(changes)
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def change_tensors(directory, change):
    path = directory / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def refused(directory, *words):
    with pytest.raises(ModelError) as caught:
        loaded(directory)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_missing_tensor(copy):
    change_tensors(copy, lambda t: t.pop("model.layers.1.mlp.up_proj.weight"))
    refused(copy, "model.layers.1.mlp.up_proj.weight", "missing")


def test_a_missing_head_is_not_taken_for_a_tied_one(copy):
    change_tensors(copy, lambda t: t.pop("lm_head.weight"))
    refused(copy, "lm_head.weight", "missing")


def test_a_tensor_of_another_shape(copy):
    change_tensors(copy, lambda t: t.update({"model.norm.weight": torch.ones(47)}))
    refused(copy, "model.norm.weight", "[47]", "[48]")


def test_an_integer_tensor(copy):
    change_tensors(copy, lambda t: t.update({"model.norm.weight": torch.ones(48, dtype=torch.int8)}))
    refused(copy, "model.norm.weight", "I8", "BF16")


def test_a_vocabulary_bigger_than_the_embedding(copy):
    edit(copy / "config.json", vocab_size=140)
    refused(copy, "model.embed_tokens.weight", "140")


def test_a_tokenizer_bigger_than_the_embedding(copy):
    vocab = {f"t{i}": i for i in range(140)}
    tokenizer = {"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": vocab, "merges": []}}
    (copy / "tokenizer.json").write_text(json.dumps(tokenizer))
    refused(copy, "tokenizer.json", "139", "131")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"model": 3}', '{"version": "1.0", "model": {"type": "nope"}}'])
def test_a_tokenizer_that_is_none(copy, text):
    (copy / "tokenizer.json").write_text(text)
    refused(copy, "tokenizer.json")


def test_a_tokenizer_that_is_too_large(copy, monkeypatch):
    monkeypatch.setattr("headway.engine.model_files.MAX_TOKENIZER_BYTES", 100)
    (copy / "tokenizer.json").write_text(" " * 101)
    refused(copy, "tokenizer.json", "101", "100")


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"model_type": "gpt2"}, "gpt2"),
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_attention_heads": "six"}, "num_attention_heads"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}, "rope"),
    ],
)
def test_a_config_that_cannot_be_run(copy, changes, word):
    edit(copy / "config.json", **changes)
    refused(copy, word)


def test_a_family_that_can_only_be_priced(copy):
    edit(copy / "config.json", model_type="gemma3_text")
    refused(copy, "gemma3_text")


@pytest.mark.parametrize("content", [b"", b"garbage" * 10, b"\xff" * 64])
def test_a_broken_weight_file(copy, content):
    (copy / "model.safetensors").write_bytes(content)
    refused(copy, "model.safetensors")


def test_a_truncated_weight_file(copy):
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    refused(copy, "model.safetensors")


def test_no_files(tmp_path):
    refused(tmp_path, "config.json")


def split(directory) -> None:
    tensors = load_file(directory / "model.safetensors")
    names = sorted(tensors)
    (directory / "model.safetensors").unlink()
    weight_map = {name: f"model-{i % 2}.safetensors" for i, name in enumerate(names)}
    for file in set(weight_map.values()):
        save_file({n: tensors[n] for n in names if weight_map[n] == file}, directory / file)
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_sharded_weights(copy, llama):
    prompt = random_tokens(20, seed=1)
    want = planner(llama).generate([prompt], 5)
    split(copy)
    model = loaded(copy)
    assert planner(model).generate([prompt], 5) == want
    model.executor.close()


def test_a_missing_shard(copy):
    split(copy)
    (copy / "model-1.safetensors").unlink()
    refused(copy, "model-1.safetensors")


def test_a_shard_outside_of_the_directory(copy):
    split(copy)
    edit(copy / "model.safetensors.index.json", weight_map={"model.norm.weight": "../elsewhere.safetensors"})
    refused(copy, "../elsewhere.safetensors")


def test_files_may_change_and_vanish_after_loading(copy, llama):
    prompt = random_tokens(20, seed=1)
    want = planner(llama).generate([prompt], 5)
    model = loaded(copy)
    path = copy / "model.safetensors"
    path.write_bytes(b"\0" * path.stat().st_size)
    path.write_bytes(b"")
    shutil.rmtree(copy)
    assert planner(model).generate([prompt], 5) == want
    model.executor.close()


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_fused_matrices(llama_dir, pack, dtype):
    if pack and not can_pack(CPU, dtype):
        pytest.skip("this build of torch has no packed products")
    shape = read_shape(llama_dir)
    weights = load_weights(llama_dir, shape, dtype, CPU, pack=pack)
    tensors = load_file(llama_dir / "model.safetensors")
    x = torch.randn(3, 48, generator=torch.Generator().manual_seed(0)).to(dtype)
    prefix = "model.layers.2.self_attn."
    parts = [x @ tensors[f"{prefix}{n}_proj.weight"].to(dtype).T for n in "qkv"]
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    with torch.inference_mode():
        torch.testing.assert_close(weights.layers[2].qkv(x), torch.cat(parts, 1), atol=tolerance, rtol=tolerance)
        head = x @ tensors["lm_head.weight"].to(dtype).T
        torch.testing.assert_close(weights.head(x), head, atol=tolerance, rtol=tolerance)


def test_packed_and_plain_products_agree():
    if not can_pack(CPU, torch.float32):
        pytest.skip("this build of torch has no packed products")
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(70, 33, generator=generator), torch.randn(70, generator=generator)
    for rows in (1, 2, 5, 64):
        x = torch.randn(rows, 33, generator=generator)
        plain = Linear(weight, bias, packed=False)(x)
        torch.testing.assert_close(Linear(weight, bias, packed=True)(x), plain, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"dtype": "int4"}, "dtype"),
        ({"device": "abacus"}, "abacus"),
        ({"max_context": 10**6}, "max_context"),
        ({"max_context": 0}, "max_context"),
        ({"block_size": 0}, "block_size"),
        ({"max_running": 0}, "max_running"),
        ({"kv_bytes": 10}, "kv_bytes"),
        ({"kv_bytes": 2**60}, "kv_bytes"),
    ],
)
def test_options_that_cannot_be_met(llama_dir, options, word):
    with pytest.raises(ModelError, match=word):
        loaded(llama_dir, **options)


def test_a_config_without_a_context_limit_needs_one_named(copy):
    edit(copy / "config.json", max_position_embeddings=None)
    refused(copy, "config.json has no max_position_embeddings: give max_context")
    model = loaded(copy, max_context=100)
    assert model.max_context == 100
    model.executor.close()


def test_end_of_text_ids(copy):
    edit(copy / "config.json", eos_token_id=5)
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": [9, 7]}))
    model = loaded(copy)
    assert model.eos_token_ids == (5, 7, 9)
    model.executor.close()


def test_the_shape_of_the_config_is_the_one_that_runs(llama_dir, llama):
    assert llama.shape == shape_from_config(json.loads((llama_dir / "config.json").read_text()))


@pytest.mark.parametrize(
    "failure", [MemoryError("x"), RuntimeError("DefaultCPUAllocator: can't allocate memory"), OSError(12, "x")]
)
def test_a_model_that_does_not_fit(llama_dir, monkeypatch, failure):
    def fail(*_args, **_kwargs):
        raise failure

    monkeypatch.setattr("headway.engine.loading.load_weights", fail)
    with pytest.raises(ModelError, match="not enough memory"):
        loaded(llama_dir)
