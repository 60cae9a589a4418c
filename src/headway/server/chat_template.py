"""Messages to one text, by the model's own Jinja template in a sandbox. The template is trusted, its inputs are not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headway.scheduler.config import ConfigError
from headway.server.errors import ApiError, invalid


class ChatTemplate:
    """Rendered as `transformers` does: trim_blocks, lstrip_blocks, raise_exception, strftime_now, tojson."""

    def __init__(self, source: str, variables: Mapping[str, str]) -> None:
        """`variables`: bos_token, eos_token and the like. Raises ConfigError if the source isn't a template."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        try:
            self._template = environment.from_string(source)
        except (TemplateError, RecursionError) as error:
            raise ConfigError(f"the chat template can't be read: {error}") from None
        self._variables = dict(variables)

    def render(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool, max_chars: int) -> str:
        """Raises ApiError (400) when the template refuses the messages or its output passes `max_chars`."""
        pieces: list[str] = []
        chars = 0
        variables = self._variables | {"messages": messages, "add_generation_prompt": add_generation_prompt}
        try:
            for piece in self._template.generate(variables):
                chars += len(piece)
                if chars > max_chars:
                    raise too_long(max_chars)
                pieces.append(piece)
        except _Refused as error:
            raise invalid(f"the model's chat template refuses these messages: {error}", "messages") from None
        except (TemplateError, RecursionError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            why = type(error).__name__
            raise invalid(f"the model's chat template can't render these messages ({why})", "messages") from None
        return "".join(pieces)


class _Refused(Exception):
    pass


def too_long(max_chars: int) -> ApiError:
    return invalid(f"the rendered messages are longer than {max_chars} characters", "messages")


def _raise_exception(message: str) -> NoReturn:
    raise _Refused(str(message)[:500])


def _tojson(value: Any, ensure_ascii: bool = False, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
