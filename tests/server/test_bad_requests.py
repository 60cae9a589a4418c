"""What clients get wrong, each with the error it gets: an object that names the field, and a server that lives on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.server.live import MODEL, Live

HI = [{"role": "user", "content": "Hi"}]
DEEP = b"[" * 100_000 + b"]" * 100_000


def chat_with(raw: bytes) -> bytes:
    return b'{"model":"tiny","messages":[{"role":"user","content":"Hi"}],' + raw + b"}"


def assert_error(response: Any, status: int, param: str | None = None, code: str | None = None) -> str:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert len(response.content) < 1000
    if param is not None:
        assert error["param"] == param, error
    if code is not None:
        assert error["code"] == code, error
    return str(error["message"])


CHAT = [
    ("A018-nan", b'"temperature":NaN', None),
    ("A018-infinity", b'"max_tokens":Infinity', None),
    ("A018-1e400-float", b'"temperature":1e400', "temperature"),
    ("A018-1e400-int", b'"max_tokens":1e400', "max_tokens"),
    ("A017-nested-unknown", b'"x":' + DEEP, None),
    ("A017-nested-known", b'"stop":' + DEEP, None),
    ("A051-nested-schema", b'"response_format":{"type":"json_schema","json_schema":' + DEEP + b"}", None),
    ("A020-last-value-counts", b'"temperature":1,"temperature":9', "temperature"),
    ("A023-n", b'"n":1000000', "n"),
    ("A023-n-0", b'"n":0', "n"),
    ("A024-best-of", b'"n":1,"best_of":100000', "best_of"),
    ("A026-max-tokens-0", b'"max_tokens":0', "max_tokens"),
    ("A026-max-tokens-minus-1", b'"max_tokens":-1', "max_tokens"),
    ("A026-max-tokens-2**63", b'"max_tokens":9223372036854775808', "max_tokens"),
    ("A026-max-completion-tokens", b'"max_completion_tokens":100000', "max_completion_tokens"),
    ("A026-fraction", b'"max_tokens":1.5', "max_tokens"),
    ("A026-bool", b'"max_tokens":true', "max_tokens"),
    ("A026-both", b'"max_tokens":5,"max_completion_tokens":6', "max_completion_tokens"),
    ("A030-top-logprobs", b'"logprobs":true,"top_logprobs":100000', "top_logprobs"),
    ("A030-top-logprobs-alone", b'"top_logprobs":1', "top_logprobs"),
    ("A031-bad-parameters-01-outside", b'"logit_bias":{"191222":-100}', "logit_bias"),
    ("A031-negative", b'"logit_bias":{"-1":1}', "logit_bias"),
    ("A031-bad-parameters-02-word", b'"logit_bias":{"AI":-100}', "logit_bias"),
    ("A031-unicode-digit", '"logit_bias":{"٣":1}'.encode(), "logit_bias"),
    ("A031-many", b'"logit_bias":{' + b",".join(b'"%d":1' % i for i in range(2000)) + b"}", "logit_bias"),
    ("A032-empty-stop", b'"stop":[""]', "stop[0]"),
    ("A032-empty-stop-alone", b'"stop":""', "stop"),
    ("A032-many", b'"stop":[' + b",".join([b'"x"'] * 10_000) + b"]", "stop"),
    ("A032-long", b'"stop":"' + b"x" * 1_000_000 + b'"', "stop"),
    ("A033-stop-token-ids", b'"stop_token_ids":[99999]', "stop_token_ids"),
    ("A033-stop-token-ids-negative", b'"stop_token_ids":[-1]', "stop_token_ids[0]"),
    ("A033-bad-words", b'"bad_words":["\xed\x95\x9c"]', "bad_words"),
    ("A046-chat-template", b'"chat_template":"{% for i in range(10**9) %}x{% endfor %}"', "chat_template"),
    ("A047-template-arguments", b'"chat_template_kwargs":{"tokenize":true}', "chat_template_kwargs"),
    ("A053-regex", b'"guided_regex":"(?<=a)*"', "guided_regex"),
    ("A056-grammar", b'"guided_grammar":"root ::= "', "guided_grammar"),
    ("A057-tools", b'"tools":[{"type":7}]', "tools"),
    ("A057-tools-object", b'"tools":{"type":7}', "tools"),
    ("tool-calls-tool-choice", b'"tool_choice":"required"', "tool_choice"),
    ("structured-output-01", b'"response_format":{"type":"json_object"}', "response_format"),
    ("structured-output-04", b'"response_format":{"type":"json_schema","json_schema":{}}', "response_format"),
    ("A055-schema", b'"structured_outputs":{"json":{}}', "structured_outputs"),
    ("suffix", b'"suffix":"x"', "suffix"),
    ("audio", b'"modalities":["text","audio"]', "modalities"),
    ("functions", b'"functions":[{"name":"f"}]', "functions"),
    ("continue", b'"continue_final_message":true', "continue_final_message"),
    ("min-tokens", b'"min_tokens":3', "min_tokens"),
    ("store", b'"store":true', "store"),
    ("echo", b'"echo":true', "echo"),
    ("prompt", b'"prompt":"x"', "prompt"),
    (
        "usage-stats",
        b'"stream":true,"stream_options":{"continuous_usage_stats":true}',
        "stream_options.continuous_usage_stats",
    ),
    ("prefix-cache-12-empty-salt", b'"cache_salt":""', "cache_salt"),
    ("prefix-cache-12-long-salt", b'"cache_salt":"' + b"x" * 1025 + b'"', "cache_salt"),
    ("temperature", b'"temperature":2.5', "temperature"),
    ("top-p-0", b'"top_p":0', "top_p"),
    ("top-k", b'"top_k":-2', "top_k"),
    ("repetition-penalty", b'"repetition_penalty":0', "repetition_penalty"),
    ("priority", b'"priority":100000', "priority"),
    ("stream-options-without-stream", b'"stream_options":{"include_usage":true}', "stream_options"),
    ("surrogate", b'"stop":"\\ud800"', None),
    ("utf8", b'"stop":"\xff"', None),
]


@pytest.mark.parametrize(("raw", "param"), [row[1:] for row in CHAT], ids=[row[0] for row in CHAT])
def test_chat_fields(live: Live, raw: bytes, param: str | None) -> None:
    message = assert_error(live.post("/v1/chat/completions", chat_with(raw)), 400, param)
    assert param is None or param in message
    assert not live.engine.submits
    assert live.chat().status_code == 200


MESSAGES: list[tuple[str, Any, str]] = [
    ("A039-bad-parameters-11-none", [], "messages"),
    ("A022-a-million", [{"role": "user", "content": "x"}] * 100_000, "messages"),
    ("role", [{"role": "root", "content": "x"}], "messages[0].role"),
    ("role-with-special", [{"role": "user<|im_end|>", "content": "x"}], "messages[0].role"),
    ("no-content", [{"role": "user"}], "messages[0].content"),
    ("null-content", [{"role": "user", "content": None}], "messages[0].content"),
    ("no-role", [{"content": "x"}], "messages[0].role"),
    ("number", [{"role": "user", "content": 5}], "messages[0].content"),
    ("string", "Hi", "messages"),
    ("part-without-text", [{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
    ("cancel-hang-09-tool-first", [{"role": "tool", "content": "x", "tool_call_id": "1"}], "messages[0].role"),
    ("cancel-hang-09-template", [{"role": "assistant", "content": "x"}], "messages"),
    (
        "tool-calls-10-history",
        [*HI, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}],
        "messages[1].tool_calls",
    ),
]
for url in (
    "http://127.0.0.1/x",
    "http://[::1]/",
    "http://169.254.169.254/latest",
    "file:///etc/passwd",
    "gopher://x",
    "data:image/png;base64,AAAA",
):
    part = {"type": "image_url", "image_url": {"url": url}}
    MESSAGES.append((f"A060-A062-{url}", [{"role": "user", "content": [part]}], "messages[0].content[0]"))
_AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
MESSAGES.append(("A062-audio", [{"role": "user", "content": [_AUDIO]}], "messages[0].content[0]"))


@pytest.mark.parametrize(("messages", "param"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_chat_messages(live: Live, messages: Any, param: str) -> None:
    assert_error(live.chat(messages=messages), 400, param)
    assert not live.engine.submits
    assert live.chat().status_code == 200


PROMPTS: list[tuple[str, Any, str]] = [
    ("A039-empty", "", "prompt"),
    ("A039-none", [], "prompt"),
    ("A039-empty-ids", [[]], "prompt"),
    ("A039-one-of-two-empty", ["a", ""], "prompt"),
    ("A025-many", ["x"] * 100_000, "prompt"),
    ("A040-outside", [1, 99999], "prompt"),
    ("A040-2**40", [2**40], "prompt[0]"),
    ("A040-2**70", [2**70], "prompt[0]"),
    ("A040-negative", [1, -1], "prompt[1]"),
    ("A040-floats", [1.5], "prompt[0]"),
    ("A040-bools", [True], "prompt[0]"),
    ("A040-list-outside", [[1], [99999]], "prompt"),
    ("mixed", ["a", 1], "prompt"),
    ("mixed-lists", ["a", [1]], "prompt"),
    ("null", None, "prompt"),
    ("object", {"a": 1}, "prompt"),
]


@pytest.mark.parametrize(("prompt", "param"), [row[1:] for row in PROMPTS], ids=[row[0] for row in PROMPTS])
def test_prompts(live: Live, prompt: Any, param: str) -> None:
    assert_error(live.complete(prompt=prompt), 400, param)
    assert not live.engine.submits


COMPLETIONS = [
    ("A026-max-tokens-0-without-echo", {"max_tokens": 0}, "max_tokens"),
    ("A030-logprobs", {"logprobs": 100_000}, "logprobs"),
    ("A030-logprobs-bool", {"logprobs": True}, "logprobs"),
    ("A024-best-of", {"best_of": 2}, "best_of"),
    ("A024-best-of-not-a-number", {"best_of": "x"}, "best_of"),
    ("messages", {"messages": HI}, "messages"),
    ("max-completion-tokens", {"max_completion_tokens": 5}, "max_completion_tokens"),
    ("top-logprobs", {"top_logprobs": 5}, "top_logprobs"),
    ("A023-times-prompts", {"prompt": ["x"] * 100, "n": 100}, "n"),
]


@pytest.mark.parametrize(("fields", "param"), [row[1:] for row in COMPLETIONS], ids=[row[0] for row in COMPLETIONS])
def test_completion_fields(live: Live, fields: dict[str, Any], param: str) -> None:
    assert_error(live.complete(**fields), 400, param)
    assert not live.engine.submits


@pytest.mark.parametrize("spaces", [" ", "    \n"])
def test_a039_spaces_are_a_prompt(live: Live, spaces: str) -> None:
    assert live.complete(prompt=spaces).status_code == 200


@pytest.mark.parametrize(
    "body", [b"[]", b"1", b"null", b'"x"', b"", b"{", b'{"model":"tiny"', b'{"model":"tiny"} x', b"\xef\xbb\xbf{}"]
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"])
def test_bad_parameters_15_bodies_that_are_no_object(live: Live, path: str, body: bytes) -> None:
    assert_error(live.post(path, body), 400)


def test_a020_the_same_key_many_times(live: Live) -> None:
    body = chat_with(b",".join([b'"seed":1'] * 100_000) + b',"seed":7')
    assert live.post("/v1/chat/completions", body).status_code == 200
    assert live.engine.submits[0].sampling.seed == 7


def test_a021_unknown_fields_are_ignored(live: Live) -> None:
    assert live.chat(max_token=1, user="u", metadata={"a": "b"}).status_code == 200
    assert live.engine.submits[0].max_tokens > 1


HARMLESS = {
    "logit_bias": {},
    "tools": [],
    "tool_choice": "none",
    "response_format": {"type": "text"},
    "modalities": ["text"],
    "store": False,
    "service_tier": "auto",
    "best_of": 1,
    "skip_special_tokens": True,
    "parallel_tool_calls": True,
    "audio": None,
    "stop": [],
}


@pytest.mark.parametrize("name", HARMLESS)
def test_bad_parameters_03_values_that_change_nothing(live: Live, name: str) -> None:
    assert live.chat(**{name: HARMLESS[name]}).status_code == 200


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "x" * 1_000_000, "a\nb\x1b[31m", "../x\x00", "/etc/passwd"])
def test_a038_a069_a071_other_models(live: Live, name: str) -> None:
    message = assert_error(live.chat(model=name), 404, "model", "model_not_found")
    assert "\n" not in message
    assert "\x1b" not in message


def test_a063_a_message_never_holds_a_path(live: Live) -> None:
    live.draws([RuntimeError("/secret/path at 0x7f00")])
    response = live.chat()
    message = assert_error(response, 500)
    assert "secret" not in message
    assert response.headers["x-request-id"] in message


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/JSON", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("", 415),
    ],
)
def test_a011_content_types(live: Live, content_type: str, status: int) -> None:
    body = json.dumps({"model": MODEL, "messages": HI}).encode()
    response = live.post("/v1/chat/completions", body, headers={"content-type": content_type})
    assert response.status_code == status
    if status != 200:
        assert_error(response, status)


def test_a009_compressed_bodies(live: Live) -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert_error(live.post("/v1/chat/completions", b"\x1f\x8b" + b"\0" * 1000, headers=headers), 415)


def test_a027_exactly_the_context_is_served_and_one_more_is_not(live: Live) -> None:
    ids = live.text.tokens.encode("Hello world")
    left = live.engine.info.max_context - len(ids)
    assert live.complete(prompt=ids, max_tokens=left).status_code == 200
    assert live.engine.submits[0].max_tokens == left
    response = live.complete(prompt=ids, max_tokens=left + 1)
    message = assert_error(response, 400, "max_tokens", "context_length_exceeded")
    assert str(live.engine.info.max_context) in message
    assert str(live.engine.info.max_context + 1) in message


def test_a027_bad_parameters_09_a_prompt_that_fills_the_context(live: Live) -> None:
    full = [5] * live.engine.info.max_context
    for _ in range(5):
        assert_error(live.complete(prompt=full), 400, code="context_length_exceeded")
        assert_error(live.complete(prompt=[*full, 5], max_tokens=1), 400, code="context_length_exceeded")
    assert live.complete(prompt=full[1:]).status_code == 200
    assert live.engine.submits[0].max_tokens == 1
    assert live.complete(prompt=full, max_tokens=0, echo=True).status_code == 200


def test_a042_text_far_beyond_the_context_is_refused_before_it_is_tokenised(live: Live) -> None:
    assert_error(live.complete(prompt="a" * 3_000_000), 400, "prompt", "context_length_exceeded")
    assert_error(live.chat(messages=[{"role": "user", "content": "a" * 3_000_000}]), 400, "messages")


def test_not_found_and_not_allowed(live: Live) -> None:
    assert_error(live.get("/v2/nothing"), 404)
    assert_error(live.get("/v1/models/"), 404)
    response = live.get("/v1/chat/completions")
    assert_error(response, 405)
    assert response.headers["allow"] == "POST"


def test_detokenize_checks_ids(live: Live) -> None:
    assert_error(live.post("/detokenize", {"tokens": [99999]}), 400, "tokens")
    assert_error(live.post("/detokenize", {"tokens": [-1]}), 400, "tokens[0]")


@pytest.mark.parametrize(
    "field", ["max_tokens", "n", "seed", "top_k", "priority", "top_logprobs", "max_completion_tokens"]
)
def test_integers_of_any_length(live: Live, field: str) -> None:
    for digits in (25, 6000):
        assert_error(live.post("/v1/chat/completions", chat_with(b'"%s":%s' % (field.encode(), b"9" * digits))), 400)
        assert_error(live.post("/v1/completions", b'{"model":"tiny","prompt":[%s]}' % (b"9" * digits)), 400)
