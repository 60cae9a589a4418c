"""From a request's text to token ids. User text never turns into special tokens of the chat template."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from headway.server.errors import ApiError, invalid, unsupported
from headway.server.limits import SCHEMA, Limits
from headway.server.literals import any_of
from headway.server.model_text import ModelText
from headway.server.protocol_chat import Message
from headway.server.protocol_completions import CompletionRequest

Result = TypeVar("Result")
THREADS = 2


@dataclass(frozen=True, slots=True)
class Prompt:
    token_ids: list[int]
    text: str | None = None
    """As the client wrote it; None if it sent token ids."""


class PromptReader:
    """Renders and tokenises; what is large goes to a thread, so that streams keep flowing."""

    def __init__(self, text: ModelText, limits: Limits, max_context: int, vocab: int) -> None:
        self._text = text
        self._limits = limits
        self._max_context = max_context
        self._vocab = vocab
        self._special = any_of(text.tokens.special)
        self._special_apart = re.compile(f"({self._special.pattern})") if self._special else None
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="headway-prompt")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def chat(self, messages: Sequence[Message], add_generation_prompt: bool) -> Prompt:
        """Raises ApiError (400): what can't be read, a template that refuses, a text beyond any context."""
        dicts = [_template_message(message, i) for i, message in enumerate(messages)]
        size = sum(len(message["content"]) for message in dicts) + 32 * len(dicts)
        return await self._run(size, lambda: self._chat(dicts, add_generation_prompt))

    async def completions(self, request: CompletionRequest) -> list[Prompt]:
        """One for each prompt. Raises ApiError (400)."""
        prompts = _split(request.prompt)
        if len(prompts) > SCHEMA.prompts:
            raise invalid(f"`prompt`: at most {SCHEMA.prompts} prompts a request, not {len(prompts)}", "prompt")
        size = sum(len(prompt) for prompt in prompts if isinstance(prompt, str))
        special = request.add_special_tokens is not False
        return await self._run(size, lambda: [self._completion(prompt, special) for prompt in prompts])

    async def text(self, text: str, add_special_tokens: bool) -> Prompt:
        """For counting: it may be longer than the context."""
        return await self._run(len(text), lambda: self._counted(text, add_special_tokens))

    async def detokenized(self, token_ids: Sequence[int], param: str) -> str:
        self.check_token_ids(token_ids, param)
        return await self._run(len(token_ids), lambda: self._text.tokens.decode(token_ids))

    def check_token_ids(self, token_ids: Sequence[int], param: str) -> None:
        worst = max(token_ids, default=0)
        if worst >= self._vocab:
            raise invalid(f"`{param}`: token id {worst} is not in the vocabulary of {self._vocab}", param)

    async def _run(self, size: int, work: Callable[[], Result]) -> Result:
        if size <= self._limits.inline_bytes:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def _completion(self, prompt: str | list[int], add_special_tokens: bool) -> Prompt:
        if not isinstance(prompt, str):
            self.check_token_ids(prompt, "prompt")
            return Prompt(prompt)
        self._check_size(prompt, "prompt")
        return Prompt(self._text.tokens.encode(prompt, add_special_tokens=add_special_tokens), prompt)

    def _counted(self, text: str, add_special_tokens: bool) -> Prompt:
        self._check_size(text, "prompt", fits_context=False)
        return Prompt(self._text.tokens.encode(text, add_special_tokens=add_special_tokens), text)

    def _chat(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool) -> Prompt:
        template = self._text.template
        if template is None:
            raise ApiError(400, "this model has no chat template; use /v1/completions", param="messages")
        masked, mask = self._mask(messages)
        rendered = template.render(
            masked, add_generation_prompt=add_generation_prompt, max_chars=self._limits.prompt_bytes
        )
        self._check_size(rendered, "messages")
        if not mask:
            return Prompt(self._text.tokens.encode(rendered, add_special_tokens=False))
        return Prompt(self._encode_masked(rendered, mask))

    def _mask(self, messages: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], dict[str, str]]:
        """Special tokens in the messages are replaced by names that nobody can guess: {name: what it stands for}."""
        mask: dict[str, str] = {}
        if self._special is None:
            return messages, mask
        nonce = str(secrets.randbits(64))
        names: dict[str, str] = {}

        def name_of(found: re.Match[str]) -> str:
            name = names.setdefault(found[0], f"\U000f0000{nonce}.{len(names)}\U000f0001")
            mask[name] = found[0]
            return name

        special = self._special
        masked = [{key: special.sub(name_of, value) for key, value in message.items()} for message in messages]
        return masked, mask

    def _encode_masked(self, rendered: str, mask: Mapping[str, str]) -> list[int]:
        """Special tokens still in the text are the template's own; all else is encoded as plain text."""
        tokens = self._text.tokens
        names = any_of(mask)
        ids: list[int] = []
        for piece in self._special_apart.split(rendered) if self._special_apart else [rendered]:
            if piece in tokens.special:
                ids.append(tokens.special[piece])
            elif piece:
                ids += tokens.encode_plain(names.sub(lambda found: mask[found[0]], piece) if names else piece)
        return ids

    def _check_size(self, text: str, param: str, *, fits_context: bool = True) -> None:
        """Refuses what can't fit before time is spent on it: a token stands for so many bytes at most."""
        size = len(text.encode("utf-8", "surrogatepass"))
        if size > self._limits.prompt_bytes:
            raise invalid(f"`{param}`: {size} bytes of text, more than the limit of {self._limits.prompt_bytes}", param)
        least = -(-size // self._text.tokens.longest_token_bytes)
        if fits_context and least > self._max_context:
            raise context_exceeded(self._max_context, f"the prompt has at least {least} tokens", param)


def context_exceeded(max_context: int, what: str, param: str) -> ApiError:
    message = f"`{param}`: this model's maximum context length is {max_context} tokens, but {what}"
    return invalid(message, param, "context_length_exceeded")


def _template_message(message: Message, i: int) -> dict[str, Any]:
    """What the template sees: role, content as one string, and name if there is one."""
    at = f"messages[{i}]"
    if message.role in ("tool", "function"):
        raise unsupported(f"{at}.role", "tool calls are not built")
    for field in ("tool_calls", "function_call", "audio"):
        if getattr(message, field):
            raise unsupported(f"{at}.{field}", "only text is read")
    shown: dict[str, Any] = {
        "role": "system" if message.role == "developer" else message.role,
        "content": _content(message, at),
    }
    if message.name is not None:
        shown["name"] = message.name
    return shown


def _content(message: Message, at: str) -> str:
    if isinstance(message.content, str):
        return message.content
    if message.content is None:
        if message.role == "assistant":
            return message.refusal or ""
        raise invalid(f"`{at}.content`: it is required for the role {message.role}", f"{at}.content")
    for j, part in enumerate(message.content):
        if part.type != "text":
            raise unsupported(f"{at}.content[{j}]", "only parts of type `text` are read")
        if part.text is None:
            raise invalid(f"`{at}.content[{j}].text`: it is required", f"{at}.content[{j}].text")
    return "".join(part.text or "" for part in message.content)


def _split(prompt: str | list[str | int | list[int]]) -> list[str | list[int]]:
    """OpenAI's four forms to a list of prompts. Empty ones and mixtures are refused."""
    if isinstance(prompt, str):
        prompts: list[str | list[int]] = [prompt]
    elif prompt and all(isinstance(item, int) for item in prompt):
        prompts = [[item for item in prompt if isinstance(item, int)]]
    else:
        prompts = [item for item in prompt if not isinstance(item, int)]
        if len(prompts) < len(prompt) or len({type(item) for item in prompts}) > 1:
            raise invalid("`prompt`: strings, token ids and lists of token ids can't be mixed", "prompt")
    if not prompts or not all(prompts):
        raise invalid("`prompt`: it must not be empty", "prompt")
    return prompts
