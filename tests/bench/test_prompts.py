"""Prompts have exactly the tokens that were asked for, and share what their block ids say."""

from __future__ import annotations

from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from headway.bench.prompts import Prompts, whole_words
from headway.bench.tokens import LocalTokenizer, TokenizerError
from headway.bench.words import WORDS
from headway.workload.call import Call
from tests.bench.virtual import run

BLOCK = 8
SPLIT = ("people", "government", "technology")
"""Words of which the tokenizer below makes two tokens."""


def tokenizer_file(directory: Path) -> Path:
    """Word pieces: whole words, but for those of SPLIT."""
    vocabulary = {word: i for i, word in enumerate(word for word in WORDS if word not in SPLIT)}
    for word in SPLIT:
        for piece in (word[:3], "##" + word[3:]):
            vocabulary.setdefault(piece, len(vocabulary))
    vocabulary["[UNK]"] = len(vocabulary)
    made = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.enable_truncation(5)
    made.enable_padding(length=5)
    made.save(str(directory / "tokenizer.json"))
    return directory / "tokenizer.json"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> LocalTokenizer:
    return LocalTokenizer(tokenizer_file(tmp_path_factory.mktemp("tokenizer")))


@pytest.fixture(scope="module")
def words(tokenizer: LocalTokenizer) -> list[str]:
    return run(whole_words(tokenizer))


def test_only_words_of_one_token_are_used(words: list[str]) -> None:
    assert set(words) == set(WORDS) - set(SPLIT)


def test_truncation_and_padding_of_the_file_do_not_count(tokenizer: LocalTokenizer) -> None:
    assert run(tokenizer.count(["time " * 40, "time"])) == [40, 1]


CALLS = st.builds(
    Call,
    id=st.text(max_size=4),
    num_input_tokens=st.integers(1, 60),
    num_output_tokens=st.just(1),
    hash_ids=st.lists(st.integers(0, 5), max_size=8).map(tuple),
)


@given(CALLS, st.integers(0, 5))
def test_lengths_are_exact(tokenizer: LocalTokenizer, words: list[str], call: Call, overhead: int) -> None:
    text = Prompts(words, "seed", BLOCK, overhead).text(call)
    assert run(tokenizer.count([text])) == [max(1, call.num_input_tokens - overhead)]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.integers(0, 4), st.integers(0, 4), st.integers(0, 5))
def test_equal_ids_are_equal_text(words: list[str], shared: list[int], own_a: int, own_b: int, overhead: int) -> None:
    prompts = Prompts(words, "seed", BLOCK, overhead)
    length = BLOCK * len(shared)
    a = Call("a", length + own_a, 1, hash_ids=(*shared, 100))
    b = Call("b", length + own_b, 1, hash_ids=(*shared, 200))
    common = length - overhead
    assert prompts.text(a).split()[:common] == prompts.text(b).split()[:common]


def test_texts_differ_by_call_seed_and_block_and_repeat_with_them(words: list[str]) -> None:
    def text(name: str, seed: str = "1", ids: tuple[int, ...] = ()) -> str:
        return Prompts(words, seed, BLOCK).text(Call(name, 32, 1, hash_ids=ids))

    assert text("a") == text("a")
    assert len({text("a"), text("b"), text("a", "2"), text("a", ids=(1,)), text("a", ids=(2,))}) == 5


def test_a_tokenizer_that_splits_everything_is_refused(tmp_path: Path) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    vocabulary = {piece: i for i, piece in enumerate(("[UNK]", *letters, *(f"##{letter}" for letter in letters)))}
    made = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    coarse = LocalTokenizer(tmp_path)
    with pytest.raises(TokenizerError, match="words are one token"):
        run(whole_words(coarse))


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff"])
def test_a_bad_tokenizer_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(TokenizerError, match="--tokenizer") as caught:
        LocalTokenizer(tmp_path)
    assert "\n" not in str(caught.value)
