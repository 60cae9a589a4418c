"""A small model directory: byte-level BPE trained on a few lines, with ChatML special tokens and template."""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

END, START, STOP = 0, 1, 2
"""<|endoftext|>, <|im_start|>, <|im_end|>"""

TEMPLATE = """\
{%- if messages[0]['role'] == 'assistant' %}{{ raise_exception('a conversation begins with the user') }}{% endif %}
{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""

_LINES = [
    "Hello world, the quick brown fox jumps over the lazy dog.",
    "One two three four five six seven eight nine ten; the end of the answer. STOP here.",
    "system user assistant says: you are a helpful assistant.",
    "한글 텍스트와 이모지 👋🏽 그리고 ďábelské ódy.",
]


def build_tokenizer() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_LINES * 4, trainer)
    return tokenizer


def build_metaspace_tokenizer() -> Tokenizer:
    """The other kind in use: pieces with U+2581 for a space, and bytes as <0xNN> where no piece fits."""
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{byte:02X}>": byte + 3 for byte in range(256)}
    for piece in ("\u2581", "\u2581Hello", "\u2581world", "a", "b", "c", "!"):
        vocabulary[piece] = len(vocabulary)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<s>", "</s>"])
    return tokenizer


def write_model(directory: Path, template: str | None = TEMPLATE) -> Path:
    build_tokenizer().save(str(directory / "tokenizer.json"))
    config = {"eos_token": "<|im_end|>", "bos_token": {"content": "<|im_start|>"}}
    if template is not None:
        config["chat_template"] = template
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": [STOP, END]}))
    return directory
