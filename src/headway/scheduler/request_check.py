"""Whether a request is one that this brain could ever serve."""

from __future__ import annotations

from headway.scheduler.config import SchedulerConfig
from headway.scheduler.kv_cache import KVCache
from headway.scheduler.refusal import Invalid, NeverFits
from headway.scheduler.request import Request


def check_request(request: Request, config: SchedulerConfig, cache: KVCache) -> None:
    """Raises Refusal: Invalid or NeverFits."""
    if not 1 <= request.num_prompt_tokens <= request.num_tokens:
        raise Invalid(f"prompt: at least 1 token is needed, not {request.num_prompt_tokens}")
    if request.max_tokens < 0:
        raise Invalid(f"max_tokens: at least 0, not {request.max_tokens}")
    if request.num_tokens >= request.limit and request.max_tokens:
        raise Invalid(f"max_tokens: all {request.max_tokens} tokens were generated already")
    if config.token_ids and request.tokens is None:
        raise Invalid("prompt: token ids are needed")
    needed = f"{request.limit} tokens (prompt and output)"
    if request.limit > config.max_context:
        raise NeverFits(f"{needed} are over the context of {config.max_context}")
    for group, need in zip(config.groups, cache.worst_case(request.limit), strict=True):
        if need > group.num_blocks:
            raise NeverFits(
                f"{needed} need {need} blocks of the {group.kind} cache group, which has {group.num_blocks}"
            )
