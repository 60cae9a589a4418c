"""From a checked request to the sequences that are submitted: lengths, seeds, sampling, salt."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from headway.engine.messages import Submit
from headway.scheduler.request import Sampling
from headway.server.auth import Caller
from headway.server.choices import Choice, Ending
from headway.server.errors import invalid
from headway.server.limits import SCHEMA
from headway.server.prompt import Prompt, PromptReader, context_exceeded
from headway.server.protocol import GenerationRequest
from headway.server.text import TokenText

SEED_MASK = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What completions and chat say differently."""

    max_tokens: int | None
    default_max_tokens: int | None
    """None: what the context leaves."""
    logprobs: int | None
    echo: bool = False
    max_tokens_param: str = "max_tokens"


@dataclass(frozen=True, slots=True)
class Model:
    """What admission needs to know of the model."""

    text: TokenText
    prompts: PromptReader
    eos_token_ids: tuple[int, ...]
    max_context: int
    vocab: int


def choices_of(
    request: GenerationRequest, wanted: Wanted, prompts: Sequence[Prompt], model: Model, caller: Caller, id: str
) -> list[Choice]:
    """n choices for each prompt, prompt by prompt. Raises ApiError (400) for what the model can't do."""
    n = request.n or 1
    if n * len(prompts) > SCHEMA.sequences:
        raise invalid(f"`n`: prompts times n is {n * len(prompts)}, more than the limit of {SCHEMA.sequences}", "n")
    sampling = _sampling(request, wanted, model.vocab)
    model.prompts.check_token_ids(request.stop_token_ids or (), "stop_token_ids")
    named = tuple(request.stop_token_ids or ())
    ending = Ending(request.stop_strings, named, bool(request.include_stop_str_in_output))
    eos = () if request.ignore_eos else model.eos_token_ids
    choices: list[Choice] = []
    for prompt in prompts:
        max_tokens = _max_tokens(wanted, len(prompt.token_ids), model.max_context)
        token_ids = np.array(prompt.token_ids, "<i4").tobytes()
        for j in range(n):
            index = len(choices)
            submit = Submit(
                id=f"{id}-{index}",
                token_ids=token_ids,
                num_prompt_tokens=len(prompt.token_ids),
                max_tokens=max_tokens,
                sampling=replace(sampling, seed=_derived_seed(sampling.seed, j)),
                stop_token_ids=tuple(dict.fromkeys(eos + named)),
                priority=request.priority or 0,
                session=caller.session(request.session_id or request.prompt_cache_key),
                salt=caller.salt(request.cache_salt),
                timeout_ns=caller.timeout_ns(),
            )
            choices.append(Choice(index, submit, prompt, model.text, ending, wanted.echo))
    return choices


def _max_tokens(wanted: Wanted, prompt_tokens: int, max_context: int) -> int:
    left = max_context - prompt_tokens
    if prompt_tokens == 0:
        raise invalid("the prompt has no tokens", "prompt")
    if wanted.max_tokens is None:
        # A prompt that fills the context leaves room for nothing, which can only be asked for by name.
        if left < 1:
            raise context_exceeded(max_context, f"the prompt alone has {prompt_tokens}", "messages")
        return min(left, wanted.default_max_tokens or left)
    if wanted.max_tokens > left:
        asked = f"{prompt_tokens + wanted.max_tokens} tokens were asked for"
        parts = f"{prompt_tokens} in the prompt and {wanted.max_tokens} in the completion"
        raise context_exceeded(max_context, f"{asked}: {parts}", wanted.max_tokens_param)
    return wanted.max_tokens


def _sampling(request: GenerationRequest, wanted: Wanted, vocab: int) -> Sampling:
    seed = secrets.randbits(63) if request.seed is None else request.seed & SEED_MASK
    return Sampling(
        temperature=_or(request.temperature, 1.0),
        top_k=max(request.top_k or 0, 0),
        top_p=_or(request.top_p, 1.0),
        min_p=request.min_p or 0.0,
        repetition_penalty=_or(request.repetition_penalty, 1.0),
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        logit_bias=_logit_bias(request.logit_bias or {}, vocab),
        seed=seed,
        logprobs=wanted.logprobs,
        prompt_logprobs=wanted.logprobs if wanted.echo else None,
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _logit_bias(biases: Mapping[str, float], vocab: int) -> tuple[tuple[int, float], ...]:
    if len(biases) > SCHEMA.logit_bias:
        raise invalid(f"`logit_bias`: at most {SCHEMA.logit_bias} entries, not {len(biases)}", "logit_bias")
    return tuple(sorted((_biased_id(key, vocab), bias) for key, bias in biases.items()))


def _biased_id(key: str, vocab: int) -> int:
    if not (key.isascii() and key.isdigit() and len(key) < 20 and int(key) < vocab):
        raise invalid(f"`logit_bias`: keys must be token ids from 0 to {vocab - 1}", "logit_bias")
    return int(key)


def _derived_seed(seed: int, index: int) -> int:
    """Choice 0 keeps the seed, so that n = 1 and the first of many are the same."""
    if index == 0:
        return seed
    digest = blake2b(seed.to_bytes(8, "little") + index.to_bytes(8, "little"), digest_size=8).digest()
    return int.from_bytes(digest, "little") & SEED_MASK
