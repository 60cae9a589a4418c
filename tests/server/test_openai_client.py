"""The official client against the server: answers, streams, options."""

from __future__ import annotations

import openai
import pytest

from tests.server.live import MODEL, Live, events
from tests.server.model_files import STOP
from tests.server.scripted_engine import prompt_of

HI = [{"role": "user", "content": "Hi"}]


def test_a_chat_answer(live: Live) -> None:
    with live.openai() as client:
        answer = client.chat.completions.create(model=MODEL, messages=HI, temperature=0)
    assert answer.choices[0].message.content == "Hello world"
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    drawn = len(live.text.tokens.encode("Hello world")) + 1
    assert answer.usage.completion_tokens == drawn
    assert answer.usage.prompt_tokens == live.engine.submits[0].num_prompt_tokens
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + drawn
    expected = "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert prompt_of(live.engine.submits[0]) == live.text.tokens.encode(expected)


def test_metrics_usage_06_the_receipt_is_in_usage(live: Live) -> None:
    live.engine.reused = 4
    usage = live.chat(seed=1).json()["usage"]
    assert usage["prompt_tokens_details"] == {"cached_tokens": 4}
    receipt = usage["headway"]
    assert receipt["queue_s"] == pytest.approx(0.001)
    assert receipt["prefill_s"] == pytest.approx(0.002)
    assert receipt["ttft_s"] == pytest.approx(0.003)
    assert receipt["tpot_s"] == pytest.approx(0.003)
    assert receipt["device_share_s"] == pytest.approx(0.004)
    assert receipt["host_share_s"] == pytest.approx(0.0005)
    assert receipt["tokens_generated"] == usage["completion_tokens"]
    assert receipt["tokens_reused"] == 4


def test_api_compat_01_and_02_a_chat_stream(live: Live) -> None:
    with live.openai() as client:
        chunks = list(client.chat.completions.create(model=MODEL, messages=HI, stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert deltas[0].role == "assistant"
    assert all(delta.role is None for delta in deltas[1:])
    assert "".join(delta.content or "" for delta in deltas) == "Hello world"
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons[:-1] == [None] * (len(reasons) - 1)
    assert reasons[-1] == "stop"
    assert all("usage" not in chunk.model_fields_set for chunk in chunks)
    assert len({chunk.id for chunk in chunks}) == 1


@pytest.mark.parametrize("max_tokens", [1, 64])
def test_metrics_usage_07_usage_in_a_last_chunk(live: Live, max_tokens: int) -> None:
    options = {"include_usage": True}
    with live.openai() as client:
        stream = client.chat.completions.create(
            model=MODEL, messages=HI, stream=True, stream_options=options, max_tokens=max_tokens
        )
        chunks = list(stream)
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == min(max_tokens, len(live.text.tokens.encode("Hello world")) + 1)
    assert all(chunk.usage is None and chunk.choices for chunk in chunks[:-1])
    assert all("usage" in chunk.model_fields_set for chunk in chunks)


def test_completions_and_their_stream_agree(live: Live) -> None:
    with live.openai() as client:
        whole = client.completions.create(model=MODEL, prompt="Say", max_tokens=50)
        stream = client.completions.create(model=MODEL, prompt="Say", max_tokens=50, stream=True)
        text = "".join(chunk.choices[0].text for chunk in stream)
    assert whole.choices[0].text == text == "Hello world"
    assert whole.object == "text_completion"


def test_bad_parameters_06_without_max_tokens_chat_gets_what_the_context_leaves(live: Live) -> None:
    live.chat()
    submit = live.engine.submits[0]
    assert submit.max_tokens == live.engine.info.max_context - submit.num_prompt_tokens
    live.complete()
    assert live.engine.submits[1].max_tokens == 16


def test_several_prompts_times_n(live: Live) -> None:
    with live.openai() as client:
        answer = client.completions.create(model=MODEL, prompt=["Hello", "world"], n=2, seed=5)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    submits = live.engine.submits
    assert submits[0].token_ids == submits[1].token_ids != submits[2].token_ids
    assert [submit.sampling.seed for submit in submits[:2]] == [submit.sampling.seed for submit in submits[2:]]
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == submits[0].num_prompt_tokens + submits[2].num_prompt_tokens


def test_logprobs_n_seed_06_each_choice_has_its_own_seed_and_repeats(live: Live) -> None:
    for _ in range(2):
        live.chat(n=4, seed=1)
    seeds = [submit.sampling.seed for submit in live.engine.submits]
    assert seeds[0] == 1
    assert len(set(seeds[:4])) == 4
    assert seeds[:4] == seeds[4:]


def test_without_a_seed_each_request_has_another(live: Live) -> None:
    live.chat()
    live.chat()
    first, second = live.engine.submits
    assert first.sampling.seed != second.sampling.seed


def test_n_choices_in_one_stream(live: Live) -> None:
    with live.openai() as client:
        texts = {0: "", 1: "", 2: ""}
        ends = []
        for chunk in client.chat.completions.create(model=MODEL, messages=HI, n=3, stream=True):
            choice = chunk.choices[0]
            texts[choice.index] += choice.delta.content or ""
            ends += [choice.index] if choice.finish_reason else []
    assert set(texts.values()) == {"Hello world"}
    assert sorted(ends) == [0, 1, 2]


def test_sampling_options_arrive(live: Live) -> None:
    options = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.1,
        "repetition_penalty": 1.2,
        "presence_penalty": 0.3,
        "frequency_penalty": -0.4,
        "logit_bias": {"5": -100, "3": 1.5},
        "seed": -1,
        "priority": 3,
        "session_id": "s",
        "stop_token_ids": [9],
    }
    assert live.chat(**options).status_code == 200
    submit = live.engine.submits[0]
    sampling = submit.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.5, 0.9, 7, 0.1)
    assert (sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty) == (1.2, 0.3, -0.4)
    assert sampling.logit_bias == ((3, 1.5), (5, -100.0))
    assert sampling.seed == 2**63 - 1
    assert (submit.priority, submit.session, submit.stop_token_ids) == (3, "s", (0, 2, 9))


def test_defaults_are_openai_s(live: Live) -> None:
    nothing = {"temperature": None, "top_p": None, "n": None, "stop": None, "max_tokens": None, "top_k": -1}
    assert live.chat(**nothing).status_code == 200
    sampling = live.engine.submits[0].sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.logprobs) == (1.0, 1.0, 0, None)


def test_ignore_eos(live: Live) -> None:
    live.says("Hello<|im_end|> world", end=False)
    assert live.chat().json()["choices"][0]["message"]["content"] == "Hello"
    assert live.chat(ignore_eos=True).json()["choices"][0]["message"]["content"] == "Hello world"
    assert live.engine.submits[1].stop_token_ids == ()


def test_chat_logprobs(live: Live) -> None:
    with live.openai() as client:
        answer = client.chat.completions.create(model=MODEL, messages=HI, logprobs=True, top_logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert "".join(entry.token for entry in logprobs.content) == "Hello world"
    assert b"".join(bytes(entry.bytes or []) for entry in logprobs.content) == b"Hello world"
    assert all(len(entry.top_logprobs) == 2 for entry in logprobs.content)
    assert {entry.logprob for entry in logprobs.content} <= {-0.5, -9999.0}


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs_stop_where_the_text_does(live: Live, stream: bool) -> None:
    live.says("one two three four")
    with live.openai() as client:
        answer = client.chat.completions.create(model=MODEL, messages=HI, logprobs=True, stop=" three", stream=stream)
        if stream:
            scored = [entry for chunk in answer for entry in (chunk.choices[0].logprobs or _NONE).content]
        else:
            scored = answer.choices[0].logprobs.content
    assert "".join(entry.token for entry in scored) == "one two"


class _NONE:
    content = ()


def test_bad_parameters_04_echo_scores_the_prompt_and_draws_nothing(live: Live) -> None:
    with live.openai() as client:
        answer = client.completions.create(model=MODEL, prompt="Hello world", echo=True, logprobs=1, max_tokens=0)
    choice = answer.choices[0]
    assert choice.text == "Hello world"
    assert choice.finish_reason == "length"
    logprobs = choice.logprobs
    assert logprobs is not None
    ids = live.text.tokens.encode("Hello world")
    assert len(logprobs.tokens or []) == len(ids) == answer.usage.prompt_tokens
    assert logprobs.token_logprobs[0] is None
    assert all(value is not None for value in logprobs.token_logprobs[1:])
    assert logprobs.top_logprobs[0] is None
    assert "".join(logprobs.tokens) == "Hello world"
    for token, offset in zip(logprobs.tokens, logprobs.text_offset, strict=True):
        assert "Hello world".startswith(token, offset)
    assert answer.usage.completion_tokens == 0
    assert live.engine.submits[0].sampling.prompt_logprobs == 1


def test_echo_goes_before_the_text(live: Live) -> None:
    assert live.complete(prompt="Say: ", echo=True, max_tokens=30).json()["choices"][0]["text"] == "Say: Hello world"
    ids = live.text.tokens.encode("Say: ")
    answer = live.complete(prompt=ids, echo=True, max_tokens=30, logprobs=0).json()["choices"][0]
    assert answer["text"] == "Say: Hello world" == "".join(answer["logprobs"]["tokens"])
    assert answer["logprobs"]["top_logprobs"] is None
    assert answer["logprobs"]["text_offset"][len(ids)] == len("Say: ")


@pytest.mark.parametrize("logprobs", [None, 0])
@pytest.mark.parametrize("stream", [False, True])
def test_echo_joins_a_character_that_the_prompt_begins(live: Live, logprobs: int | None, stream: bool) -> None:
    byte_tokens = {live.text.tokens.raw_bytes_of(id): id for id in range(live.text.tokens.vocab)}
    first, *rest = ([byte_tokens[bytes([byte])]] for byte in "👋".encode())
    live.draws([*rest, [STOP]])
    answer = live.complete(prompt=[byte_tokens[b"a"], *first], echo=True, logprobs=logprobs, stream=stream)
    chunks = [item for item in events(answer.text) if item != "[DONE]"] if stream else [answer.json()]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "a👋"


def test_detokenize_takes_as_much_as_a_context(live: Live) -> None:
    most = live.engine.info.max_context
    assert live.post("/detokenize", {"tokens": [5] * most}).status_code == 200
    assert live.post("/detokenize", {"tokens": [5] * (most + 1)}).json()["error"]["param"] == "tokens"


def test_models(live: Live) -> None:
    with live.openai() as client:
        assert [model.id for model in client.models.list()] == [MODEL]
        assert client.models.retrieve(MODEL).owned_by == "headway"
        with pytest.raises(openai.NotFoundError) as caught:
            client.models.retrieve("other")
    assert caught.value.code == "model_not_found"


def test_tokenize_and_back(live: Live) -> None:
    tokens = live.post("/tokenize", {"prompt": "Hello 한글"}).json()
    assert tokens["count"] == len(tokens["tokens"])
    assert live.post("/detokenize", {"tokens": tokens["tokens"]}).json() == {"prompt": "Hello 한글"}
    rendered = live.post("/tokenize", {"messages": HI}).json()["tokens"]
    live.chat()
    assert rendered == prompt_of(live.engine.submits[0])
    assert live.post("/tokenize", {"prompt": "x", "messages": HI}).status_code == 400


def test_content_parts_and_developer(live: Live) -> None:
    parts = [{"type": "text", "text": "He"}, {"type": "text", "text": "llo"}]
    live.chat(messages=[{"role": "developer", "content": "Rule"}, {"role": "user", "content": parts}])
    expected = "<|im_start|>system\nRule<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert prompt_of(live.engine.submits[0]) == live.text.tokens.encode(expected)
