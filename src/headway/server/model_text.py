"""What a model's directory says about text: tokenizer, chat template, end-of-sequence tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from headway.engine.model_files import eos_token_ids, read_json
from headway.scheduler.config import ConfigError
from headway.server.chat_template import ChatTemplate
from headway.server.text import TokenText

MAX_FILE_BYTES = 256 * 1024 * 1024
"""No tokenizer in use comes near; a larger file is refused before it is parsed."""


@dataclass(frozen=True, slots=True)
class ModelText:
    tokens: TokenText
    template: ChatTemplate | None
    eos_token_ids: tuple[int, ...]

    @classmethod
    def from_directory(cls, directory: Path) -> ModelText:
        """Reads tokenizer.json and, where present, the other Hugging Face files. Raises ConfigError or ModelError."""
        tokenizer = _tokenizer(directory / "tokenizer.json")
        path = directory / "tokenizer_config.json"
        config = read_json(path) if path.exists() else {}
        return cls(TokenText(tokenizer), _template(directory, config), eos_token_ids(directory, tokenizer))


def _tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_str(_read(path))
    except ConfigError:
        raise
    except Exception as error:  # `tokenizers` raises bare Exception
        raise ConfigError(f"{path.name} is not a tokenizer: {error}") from None


def _template(directory: Path, config: dict[str, Any]) -> ChatTemplate | None:
    path = directory / "chat_template.jinja"
    source = _read(path) if path.exists() else config.get("chat_template")
    if isinstance(source, list):  # several named templates
        named = (entry for entry in source if isinstance(entry, dict))
        source = next((entry.get("template") for entry in named if entry.get("name") == "default"), None)
    if not isinstance(source, str):
        return None
    names = [name for name in config if name.endswith("_token")]
    return ChatTemplate(source, {name: token for name in names if (token := _token(config[name])) is not None})


def _token(value: Any) -> str | None:
    """A special token is written as a string or as {"content": string, ...}."""
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None


def _read(path: Path) -> str:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise ConfigError(f"{path.name} has {size} bytes, more than the limit of {MAX_FILE_BYTES}")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"can't read {path.name}: {error}") from None
