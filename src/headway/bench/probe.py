"""What has to be known of a server before it can be measured."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from headway.bench.answer import NO_DONE
from headway.bench.client import NEEDS_KEY, Client, StatusError
from headway.bench.connection import reason
from headway.bench.endpoint import EndpointError
from headway.bench.prompts import Prompts
from headway.workload.call import Call

_SHORT, _LONG = 32, 160
_NO_LIST = (404, 405, 501)
"""Statuses of a server that does not list its models."""
_HINTS = {NO_DONE: " (--no-done, where that is the server's way)"}


async def only_model(client: Client) -> dict[str, Any]:
    """The entry of /v1/models for the endpoint's model, or the only one there is; without such a list only the name
    asked for. Raises EndpointError.
    """
    wanted = client.endpoint.model
    url = f"{client.endpoint.url}/models"
    try:
        cards = _cards(await client.fetch("GET", "/models"))
    except OSError as error:
        has_no_list = isinstance(error, StatusError) and error.status in _NO_LIST
        if wanted and has_no_list:
            return {"id": wanted}
        hint = "; --model NAME asks for one without" if has_no_list else ""
        raise EndpointError(f"{url}: {reason(error)}{hint}") from None
    except (msgspec.DecodeError, LookupError, TypeError):
        raise EndpointError(f"{url}: it is no list of models") from None
    if not wanted and len(cards) == 1:
        return cards[0]
    names = ", ".join(card["id"] for card in cards[:10]) or "none"
    for card in cards:
        if card["id"] == wanted:
            return card
    raise EndpointError(f"--model: the server has {names}" + (f", not {wanted!r}" if wanted else "; choose one"))


def _cards(body: bytes) -> list[dict[str, Any]]:
    data = msgspec.json.decode(body)["data"]
    return [card for card in data if isinstance(card, dict) and isinstance(card.get("id"), str)]


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
            why = f"{record.outcome}: {record.error}{key}{_HINTS.get(record.error, '')}"
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
