"""A submitted message becomes a request of the brain's."""

from __future__ import annotations

import numpy as np

from headway.engine.messages import Submit
from headway.scheduler.refusal import Invalid
from headway.scheduler.request import Request


def to_request(submit: Submit, vocab: int, now_ns: int) -> Request:
    """Raises Invalid when the message contradicts itself or names a token that the model does not have."""
    if len(submit.token_ids) % 4:
        raise Invalid("token_ids: the length is not a multiple of 4 bytes")
    tokens = np.frombuffer(submit.token_ids, "<i4").astype(np.int64)
    if not 1 <= submit.num_prompt_tokens <= len(tokens):
        raise Invalid(f"num_prompt_tokens must be from 1 to {len(tokens)}, not {submit.num_prompt_tokens}")
    if submit.max_tokens < 0:
        raise Invalid(f"max_tokens must be 0 or more, not {submit.max_tokens}")
    for name, ids in (("token_ids", tokens), ("stop_token_ids", np.asarray(submit.stop_token_ids, np.int64))):
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < vocab:
            raise Invalid(f"{name} must be from 0 to {vocab - 1}")
    return Request(
        id=submit.id,
        num_prompt_tokens=submit.num_prompt_tokens,
        max_tokens=submit.max_tokens,
        tokens=tokens,
        sampling=submit.sampling,
        stop_token_ids=submit.stop_token_ids,
        priority=submit.priority,
        session=submit.session,
        salt=submit.salt,
        deadline_ns=None if submit.timeout_ns is None else now_ns + submit.timeout_ns,
    )
