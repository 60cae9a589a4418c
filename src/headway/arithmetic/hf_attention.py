"""The attention of each layer from a `config.json`."""

from __future__ import annotations

from headway.arithmetic.hf_keys import Config, count, entries, flag, named, number, positive, section
from headway.arithmetic.hf_layer_types import (
    CHUNKED,
    COMPRESSED,
    COMPRESSED_SPARSE,
    INDEXED_FAMILIES,
    LINEAR,
    MAMBA,
    WINDOW,
)
from headway.arithmetic.layers import Attention, AttentionKind, Latent, Rope, ShapeError, Sparse, State

_LATENT = ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "kimi_linear", "glm_moe_dsa")
_QK_NORM = (
    "qwen3",
    "qwen3_moe",
    "qwen3_next",
    "qwen3_5_text",
    "qwen3_5_moe_text",
    "gemma3_text",
    "gemma4_text",
)
_OUTPUT_GATE = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
_QKV_BIAS = ("qwen2", "qwen2_moe")
_QKV_BIAS_ONLY = (*_QKV_BIAS, "glm4_moe")
_GLOBAL_HEAD_DIM = 512
"""Of Gemma 4, where the file says nothing of it."""
_SCALINGS = ("default", "linear", "llama3", "yarn", "proportional", "dynamic", "longrope")
_SAME_SCALINGS = {"su": "longrope", "mrope": "default"}
"""`mrope` differs only for what is not text."""


def attention(config: Config, family: str, layer_type: str, index: int) -> Attention:
    """Raises ShapeError naming the key."""
    rope = _rope(config, layer_type)
    if layer_type == MAMBA or (layer_type == LINEAR and "mamba_num_heads" in config):
        return _linear(_mamba(config), rope)
    if layer_type == LINEAR:
        return _linear(_state(config, family), rope)
    if family in _LATENT:
        return _latent(config, family, index, rope)
    if family == "deepseek_v4":
        return _compressed(config, layer_type, index, rope)
    return _grouped(config, family, layer_type, index, rope)


def absent(config: Config) -> Attention:
    return Attention("none", 0, 0, 0, _rope(config, ""))


def _grouped(config: Config, family: str, layer_type: str, index: int, rope: Rope) -> Attention:
    """MHA, GQA and MQA, over all tokens, a window or a chunk."""
    global_layer = family == "gemma4_text" and layer_type != WINDOW
    heads = positive(config, "num_attention_heads")
    kv_heads = count(config, "num_key_value_heads") or heads
    head_dim = count(config, "head_dim") or _even_share(positive(config, "hidden_size"), heads)
    if global_layer and "per_layer_config" not in config:
        if flag(config, "attention_k_eq_v"):
            kv_heads = count(config, "num_global_key_value_heads") or kv_heads
        head_dim = count(config, "global_head_dim") or _GLOBAL_HEAD_DIM
    if family == "mimo_v2_flash" and layer_type == WINDOW:
        kv_heads = count(config, "swa_num_key_value_heads") or 2 * kv_heads
    if heads % kv_heads:
        raise ShapeError(f"num_attention_heads {heads} is not a multiple of num_key_value_heads {kv_heads}")
    kind, window = _reach(config, layer_type)
    bias = flag(config, "attention_bias")
    wide = config.get("qk_norm_type") == "per_layer"
    return Attention(
        kind=kind,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        rope=rope,
        window=window,
        qkv_bias=bias or flag(config, "qkv_bias", family in _QKV_BIAS),
        output_bias=flag(config, "attention_out_bias", bias and family not in _QKV_BIAS_ONLY),
        qk_norm=family in _QK_NORM or (family != "llama4_text" and flag(config, "use_qk_norm")),
        wide_qk_norm=wide,
        shared_kv=global_layer and flag(config, "attention_k_eq_v"),
        output_gate=flag(config, "attn_output_gate", family in _OUTPUT_GATE),
        sinks=family == "gpt_oss" or (family == "mimo_v2_flash" and kind == "window"),
        own_value_dim=count(config, "v_head_dim") if family == "mimo_v2_flash" else 0,
        sparse=_block_sparse(config, index),
    )


def _even_share(hidden: int, heads: int) -> int:
    if hidden % heads:
        raise ShapeError(f"hidden_size {hidden} is not a multiple of num_attention_heads {heads}: give head_dim")
    return hidden // heads


def _latent(config: Config, family: str, index: int, rope: Rope) -> Attention:
    heads = positive(config, "num_attention_heads")
    rope_dim, nope_dim = positive(config, "qk_rope_head_dim"), positive(config, "qk_nope_head_dim")
    bias = flag(config, "attention_bias")
    return Attention(
        kind="latent",
        num_heads=heads,
        num_kv_heads=1,
        head_dim=rope_dim + nope_dim,
        rope=rope,
        output_bias=bias,
        output_gate=family == "kimi_linear" and flag(config, "mla_use_output_gate"),
        query_rank=count(config, "q_lora_rank"),
        latent=Latent(positive(config, "kv_lora_rank"), rope_dim, nope_dim, positive(config, "v_head_dim")),
        sparse=_indexed(config, index) if family in INDEXED_FAMILIES else None,
    )


def _compressed(config: Config, layer_type: str, index: int, rope: Rope) -> Attention:
    heads, groups = positive(config, "num_attention_heads"), positive(config, "o_groups")
    if heads % groups:
        raise ShapeError(f"num_attention_heads {heads} is not a multiple of o_groups {groups}")
    rates = {COMPRESSED_SPARSE: 4, COMPRESSED: 128, **section(config, "compress_rates")}
    compress = 0 if layer_type == WINDOW else positive(rates, layer_type)
    return Attention(
        kind="compressed" if compress else "window",
        num_heads=heads,
        num_kv_heads=1,
        head_dim=positive(config, "head_dim"),
        rope=rope,
        window=positive(config, "sliding_window"),
        shared_kv=True,
        sinks=True,
        query_rank=positive(config, "q_lora_rank"),
        output_rank=positive(config, "o_lora_rank"),
        output_groups=groups,
        compress=compress,
        sparse=_indexed(config, index) if layer_type == COMPRESSED_SPARSE else None,
    )


def _reach(config: Config, layer_type: str) -> tuple[AttentionKind, int]:
    """A window as long as the longest sequence is none."""
    kind, window = _named_reach(config, layer_type)
    longest = count(config, "max_position_embeddings")
    return ("full", 0) if longest and window >= longest else (kind, window)


def _named_reach(config: Config, layer_type: str) -> tuple[AttentionKind, int]:
    if layer_type == WINDOW and config.get("sliding_window"):
        return "window", positive(config, "sliding_window")
    if layer_type == CHUNKED:
        return "chunked", positive(config, "attention_chunk_size")
    return "full", 0


def _indexed(config: Config, index: int) -> Sparse:
    shared = _is_choice_shared(config, index)
    heads = 0 if shared else positive(config, "index_n_heads")
    return Sparse(positive(config, "index_topk"), heads, 0 if shared else positive(config, "index_head_dim"))


def _is_choice_shared(config: Config, index: int) -> bool:
    """GLM 5.2: said layer by layer, or by every how many layers one chooses anew."""
    kinds = entries(config, "indexer_types")
    if kinds:
        return kinds[index : index + 1] == ["shared"]
    pattern = config.get("index_topk_pattern")
    if isinstance(pattern, str | list):
        return pattern[index : index + 1] in ("S", ["shared"])
    since = index + 1 - int(number(config, "index_skip_topk_offset", 2))
    return max(since, 0) % (count(config, "index_topk_freq") or 1) != 0


def _block_sparse(config: Config, index: int) -> Sparse | None:
    """MiniMax-M3: a few blocks of the cache are read, chosen by scores of small index keys."""
    sparse = section(config, "sparse_attention_config")
    layers = entries(sparse, "sparse_attention_freq")
    if not flag(sparse, "use_sparse_attention") or (index < len(layers) and not layers[index]):
        return None
    topk = positive(sparse, "sparse_topk_blocks") * positive(sparse, "sparse_block_size")
    return Sparse(topk, positive(sparse, "sparse_num_index_heads"), positive(sparse, "sparse_index_dim"))


def _linear(state: State, rope: Rope) -> Attention:
    return Attention("linear", state.value_heads, state.key_heads, state.key_dim, rope, state=state)


def _state(config: Config, family: str) -> State:
    if family == "kimi_linear":
        linear = section(config, "linear_attn_config")
        keys = ("num_heads", "head_dim", "short_conv_kernel_size")
        if not linear and "linear_num_heads" in config:
            linear, keys = config, ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")
        heads, dim, conv = (positive(linear, key) for key in keys)
        rank = 0 if flag(linear, "use_full_rank_gate") else dim
        return State(heads, heads, dim, dim, conv, gates=1, decay_rank=dim, gate_rank=rank, delta=True)
    if family.startswith("minimax"):
        heads, dim = positive(config, "num_attention_heads"), positive(config, "head_dim")
        return State(heads, heads, dim, dim)
    return State(
        key_heads=positive(config, "linear_num_key_heads"),
        value_heads=positive(config, "linear_num_value_heads"),
        key_dim=positive(config, "linear_key_head_dim"),
        value_dim=positive(config, "linear_value_head_dim"),
        conv=positive(config, "linear_conv_kernel_dim"),
        gates=2,
        delta=True,
    )


def _mamba(config: Config) -> State:
    heads = positive(config, "mamba_num_heads")
    if config.get("mamba_head_dim") == "auto":
        value_dim = _even_share(positive(config, "mamba_expand") * positive(config, "hidden_size"), heads)
    else:
        value_dim = positive(config, "mamba_head_dim")
    return State(
        key_heads=positive(config, "n_groups"),
        value_heads=heads,
        key_dim=positive(config, "ssm_state_size"),
        value_dim=value_dim,
        conv=positive(config, "conv_kernel"),
        gates=1,
    )


def _rope(config: Config, layer_type: str) -> Rope:
    """Reads `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling` (before)."""
    parameters = section(config, "rope_parameters") or section(config, "rope_scaling")
    if layer_type in parameters:
        parameters = section(parameters, layer_type)
    kind = named(parameters, "rope_type", named(parameters, "type", "default"))
    kind = _SAME_SCALINGS.get(kind, kind)
    if kind not in _SCALINGS:
        raise ShapeError(f"rope type {kind!r} is not supported; supported: {', '.join(_SCALINGS)}")
    theta = number(parameters, "rope_theta", number(config, "rope_theta", 10000.0))
    return Rope(
        theta=theta,
        scaling=kind,  # type: ignore[arg-type]
        factor=number(parameters, "factor", 1.0),
        low_freq_factor=number(parameters, "low_freq_factor", 1.0),
        high_freq_factor=number(parameters, "high_freq_factor", 4.0),
        original_max_context=int(number(parameters, "original_max_position_embeddings", 0)),
        partial=number(parameters, "partial_rotary_factor", number(config, "partial_rotary_factor", 1.0)),
    )
