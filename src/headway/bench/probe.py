"""What has to be known of a server before it can be measured."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from headway.bench.client import NEEDS_KEY, Client
from headway.bench.connection import reason
from headway.bench.endpoint import EndpointError
from headway.bench.prompts import Prompts
from headway.workload.call import Call

_SHORT, _LONG = 32, 160


async def only_model(client: Client) -> dict[str, Any]:
    """The entry of /v1/models for the endpoint's model, or the only one there is. Raises EndpointError."""
    try:
        answer = msgspec.json.decode(await client.fetch("GET", "/models"))
        cards = [card for card in answer["data"] if isinstance(card, dict) and isinstance(card.get("id"), str)]
    except (OSError, TimeoutError, msgspec.DecodeError, LookupError, TypeError) as error:
        raise EndpointError(f"{client.endpoint.url}/models: {reason(error)}") from None
    wanted = client.endpoint.model
    if not wanted and len(cards) == 1:
        return cards[0]
    names = ", ".join(card["id"] for card in cards[:10]) or "none"
    for card in cards:
        if card["id"] == wanted:
            return card
    raise EndpointError(f"--model: the server has {names}" + (f", not {wanted!r}" if wanted else "; choose one"))


async def overhead(client: Client, words: list[str], seed: int) -> tuple[int, str | None]:
    """(tokens that the server adds to a prompt, what is not exact about it). Two prompts tell: words, and more words.

    Raises EndpointError when the server doesn't answer.
    """
    prompts = Prompts(words, f"{seed}/probe", 0)
    start_s = asyncio.get_running_loop().time()
    lengths: list[int] = []
    for size in (_SHORT, _LONG):
        call = Call(f"probe {size}", size, 1)
        record = await client.ask(call, client.endpoint.body(prompts.text(call), 1), start_s, 0.0)
        if record.outcome not in ("ok", "empty"):
            key = NEEDS_KEY if record.status == 401 else ""
            why = f"{record.outcome}: {record.error}{key}"
            raise EndpointError(f"{client.endpoint.url}: a first request came back {why}")
        if record.usage_prompt_tokens is None:
            return 0, "the server tells no usage, so prompts are longer by its template"
        lengths.append(record.usage_prompt_tokens)
    short, long = lengths
    if long - short != _LONG - _SHORT:
        return max(
            0, short - _SHORT
        ), f"{_LONG - _SHORT} words more are {long - short} tokens more by the server's count"
    return max(0, short - _SHORT), None
