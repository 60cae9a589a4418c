"""Known fields that this server doesn't honour. Each is refused by name, unless its value would change nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from headway.server.errors import invalid, unsupported

_EMPTY: tuple[Any, ...] = (None, [], {}, "")
_OFF: tuple[Any, ...] = (None, False)
_ONE_PROMPT = "one sequence is drawn for each of `n`"
_TOOLS = "tool calls are not built"
_STRUCTURE = "structured output is not built"

HARMLESS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "tools": (_TOOLS, _EMPTY),
    "tool_choice": (_TOOLS, (None, "none", "auto")),
    "functions": (_TOOLS, _EMPTY),
    "function_call": (_TOOLS, (None, "none", "auto")),
    "response_format": (f"only {{'type': 'text'}} is; {_STRUCTURE}", (None, {"type": "text"})),
    "guided_json": (_STRUCTURE, _EMPTY),
    "guided_regex": (_STRUCTURE, _EMPTY),
    "guided_choice": (_STRUCTURE, _EMPTY),
    "guided_grammar": (_STRUCTURE, _EMPTY),
    "structured_outputs": (_STRUCTURE, _EMPTY),
    "regex": (_STRUCTURE, _EMPTY),
    "ebnf": (_STRUCTURE, _EMPTY),
    "json_schema": (_STRUCTURE, _EMPTY),
    "grammar": (_STRUCTURE, _EMPTY),
    "suffix": ("text can't be inserted before a suffix", (None, "")),
    "audio": ("only text is generated", _EMPTY),
    "modalities": ("only text is generated", (None, [], ["text"])),
    "prediction": ("predicted output is not used", _EMPTY),
    "moderation": ("there is no moderation", _EMPTY),
    "web_search_options": ("there is no web search", (None,)),
    "verbosity": ("the model has no such control", (None, "medium")),
    "reasoning_effort": ("the model has no such control", (None, "none")),
    "service_tier": ("there is one tier; use `priority`", (None, "auto", "default")),
    "store": ("nothing is stored", _OFF),
    "chat_template": ("the server's own template is used", (None,)),
    "chat_template_kwargs": ("no key is on the allow-list", _EMPTY),
    "documents": ("the template gets messages only", _EMPTY),
    "continue_final_message": ("a new message is always begun", _OFF),
    "use_beam_search": (_ONE_PROMPT, _OFF),
    "length_penalty": (_ONE_PROMPT, (None, 1, 1.0)),
    "min_tokens": ("there is no minimum", (None, 0)),
    "bad_words": ("use `logit_bias`", _EMPTY),
    "allowed_token_ids": ("use `logit_bias`", _EMPTY),
    "logits_processors": ("code from a request is never run", _EMPTY),
    "prompt_logprobs": ("use `echo` with `logprobs` on /v1/completions", (None,)),
    "truncate_prompt_tokens": ("prompts are never cut", (None,)),
    "skip_special_tokens": ("special tokens are always left out of the text", (None, True)),
    "prompt_embeds": ("prompts are text or token ids", _EMPTY),
    "mm_processor_kwargs": ("only text is read", _EMPTY),
    "prompt_cache_options": ("prefixes are kept by the server's own policy", (None, {}, {"mode": "implicit"})),
    "echo": ("only /v1/completions shows the prompt again", _OFF),
    "add_special_tokens": ("the chat template says which there are", _OFF),
    "top_logprobs": ("this endpoint has `logprobs` alone", (None,)),
    "max_completion_tokens": ("this endpoint has `max_tokens`", (None,)),
    "messages": ("this endpoint has `prompt`", (None,)),
    "prompt": ("this endpoint has `messages`", (None,)),
}


def refuse_unsupported(fields: Mapping[str, msgspec.Raw], honoured: Iterable[str]) -> None:
    """Raises ApiError (400) for a field whose value asks for something that wouldn't be done."""
    for name in sorted((fields.keys() & HARMLESS.keys()).difference(honoured)):
        why, harmless = HARMLESS[name]
        value = msgspec.json.decode(fields[name])
        if not any(value == allowed and type(value) is type(allowed) for allowed in harmless):
            raise unsupported(name, why)
    if "best_of" in fields:
        _check_best_of(fields)


def _check_best_of(fields: Mapping[str, msgspec.Raw]) -> None:
    best_of = msgspec.json.decode(fields["best_of"])
    n = msgspec.json.decode(fields["n"]) if "n" in fields else None
    if best_of is not None and best_of != (n or 1):
        raise invalid("`best_of` must equal `n`: " + _ONE_PROMPT, "best_of", "unsupported_parameter")
