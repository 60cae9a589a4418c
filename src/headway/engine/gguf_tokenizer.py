"""The tokenizer in a GGUF file's metadata as a `tokenizers.Tokenizer`."""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors

from headway.engine.errors import ModelError
from headway.engine.gguf_metadata import Metadata

MAX_MERGES = 2_000_000

_CONTROL, _USER_DEFINED = 3, 4
_LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def build_tokenizer(metadata: Metadata, vocab: int) -> Tokenizer:
    """Raises ModelError for a kind that is not byte-level BPE, and when it has more tokens than the embedding rows."""
    kind = metadata.require("tokenizer.ggml.model", str)
    if kind != "gpt2":
        raise ModelError(
            f"{metadata.path}: tokenizer {kind!r} is not supported in GGUF; supported: gpt2 (byte-level BPE)"
        )
    tokens: list[str] = metadata.require("tokenizer.ggml.tokens", list)
    if len(tokens) > vocab:
        raise ModelError(f"{metadata.path}: tokenizer.ggml.tokens has {len(tokens)}, token_embd.weight {vocab} rows")
    if len(set(tokens)) != len(tokens):
        raise ModelError(f"{metadata.path}: tokenizer.ggml.tokens names a token twice")
    name = metadata.get("tokenizer.ggml.pre", str, "default")
    tokenizer = Tokenizer(_bpe(metadata, tokens, ignore_merges=name == "llama-bpe"))
    tokenizer.pre_tokenizer = _pre_tokenizer(metadata, name)
    tokenizer.decoder = decoders.ByteLevel()
    _add_special(tokenizer, tokens, metadata.get("tokenizer.ggml.token_type", list, []))
    bos = metadata.get("tokenizer.ggml.bos_token_id", int)
    if _adds_bos(metadata) and bos is not None:
        text = _token(metadata, tokens, "bos")
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{text} $A", pair=f"{text} $A {text} $B", special_tokens=[(text, bos)]
        )
    return tokenizer


def tokenizer_config(metadata: Metadata, max_context: int) -> dict[str, dict[str, Any]]:
    """`tokenizer_config.json` and `generation_config.json`."""
    tokens: list[str] = metadata.require("tokenizer.ggml.tokens", list)
    names = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": max_context,
        "clean_up_tokenization_spaces": False,
        "add_bos_token": _adds_bos(metadata),
        **{f"{short}_token": _token(metadata, tokens, long) for long, short in names.items()},
    }
    template = metadata.get("tokenizer.chat_template", str)
    if template is not None:
        config["chat_template"] = template
    ids = {f"{name}_token_id": metadata.get(f"tokenizer.ggml.{name}_token_id", int) for name in ("bos", "eos")}
    return {"tokenizer_config.json": config, "generation_config.json": {k: v for k, v in ids.items() if v is not None}}


def _bpe(metadata: Metadata, tokens: list[str], ignore_merges: bool) -> models.BPE:
    lines: list[str] = metadata.require("tokenizer.ggml.merges", list)
    if len(lines) > MAX_MERGES:
        raise ModelError(f"{metadata.path}: tokenizer.ggml.merges has {len(lines)} entries; the limit is {MAX_MERGES}")
    merges: list[tuple[str, str]] = []
    for line in lines:
        left, space, right = str(line).partition(" ")
        if not space:
            raise ModelError(f"{metadata.path}: tokenizer.ggml.merges has {line!r}, which is not two tokens")
        merges.append((left, right))
    vocabulary = {token: index for index, token in enumerate(tokens)}
    try:
        return models.BPE(vocab=vocabulary, merges=merges, ignore_merges=ignore_merges)
    except Exception as error:  # The library raises bare Exception, for one when a merge names no token.
        raise ModelError(f"{metadata.path}: tokenizer.ggml.merges: {error}") from None


def _pre_tokenizer(metadata: Metadata, name: str) -> pre_tokenizers.PreTokenizer:
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    if name in ("gpt-2", "default"):
        return byte_level
    if name == "llama-bpe":
        split = pre_tokenizers.Split(Regex(_LLAMA3_PATTERN), behavior="isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    raise ModelError(
        f"{metadata.path}: tokenizer.ggml.pre {name!r} is not supported; supported: smollm, gpt-2, default, llama-bpe"
    )


def _add_special(tokenizer: Tokenizer, tokens: list[str], types: list[int]) -> None:
    control = [tokens[i] for i, kind in enumerate(types[: len(tokens)]) if kind == _CONTROL]
    defined = [tokens[i] for i, kind in enumerate(types[: len(tokens)]) if kind == _USER_DEFINED]
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in defined])


def _adds_bos(metadata: Metadata) -> bool:
    adds: bool = metadata.get(
        "tokenizer.ggml.add_bos_token", bool, metadata.get("tokenizer.ggml.pre", str) == "llama-bpe"
    )
    return adds


def _token(metadata: Metadata, tokens: list[str], name: str) -> str | None:
    key = f"tokenizer.ggml.{name}_token_id"
    index: int | None = metadata.get(key, int)
    if index is None:
        return None
    if not 0 <= index < len(tokens):
        raise ModelError(f"{metadata.path}: {key} is {index}, but there are {len(tokens)} tokens")
    return str(tokens[index])
