"""What is refused at start, and how a server ends."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tokenizers import Tokenizer

from headway.engine.errors import ModelError
from headway.scheduler.config import ConfigError
from headway.server import model_text, serve
from headway.server.app import build_app
from headway.server.limits import Limits
from headway.server.model_text import ModelText
from headway.server.settings import Settings
from headway.server.text import TokenText
from tests.server.live import PATIENCE_S, Live
from tests.server.model_files import STOP, build_tokenizer, write_model
from tests.server.scripted_engine import ScriptedEngine


def app_of(directory: Path, vocab: int) -> object:
    return build_app(ScriptedEngine(vocab, lambda _: []), Settings(model="m", directory=directory))


def test_a102_a_vocabulary_larger_than_the_model(directory: Path) -> None:
    vocab = ModelText.from_directory(directory).tokens.vocab
    app_of(directory, vocab)
    with pytest.raises(ConfigError, match=f"{vocab} tokens, the model only {vocab - 1}"):
        app_of(directory, vocab - 1)


def test_a102_end_tokens_outside(tmp_path: Path) -> None:
    write_model(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": 5000}')
    with pytest.raises(ConfigError, match="5000"):
        app_of(tmp_path, 420)


def test_a102_a_file_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_text, "MAX_FILE_BYTES", 1000)
    with pytest.raises(ConfigError, match=r"tokenizer.json has \d+ bytes"):
        ModelText.from_directory(write_model(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("tokenizer.json", "{}", "is not a tokenizer"),
        ("tokenizer.json", "\xff", "tokenizer.json"),
        ("tokenizer_config.json", "[", "is not JSON"),
        ("tokenizer_config.json", "[]", "JSON object"),
        ("tokenizer_config.json", "[" * 100_000, "is not JSON"),
        ("tokenizer_config.json", '{"chat_template": "{% for %}"}', "template"),
        ("generation_config.json", '{"eos_token_id": "2"}', "eos_token_id"),
        ("generation_config.json", '{"eos_token_id": [null]}', "eos_token_id"),
        ("chat_template.jinja", "{% for %}", "template"),
        ("chat_template.jinja", "{{" + "(" * 20_000, "template"),
        ("chat_template.jinja", "{% if 1 %}" * 3000 + "{% endif %}" * 3000, "template"),
    ],
)
def test_files_that_can_not_be_used(tmp_path: Path, name: str, content: str, match: str) -> None:
    write_model(tmp_path)
    (tmp_path / name).write_text(content, "latin-1")
    with pytest.raises((ConfigError, ModelError), match=match):
        ModelText.from_directory(tmp_path)


@pytest.mark.parametrize("named", [["x"], [None], [{}], [{"name": "default"}], [{"name": "default", "template": 5}]])
def test_a_list_that_names_no_template(tmp_path: Path, named: list[object]) -> None:
    write_model(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert ModelText.from_directory(tmp_path).template is None


def test_no_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"can't read tokenizer.json"):
        ModelText.from_directory(tmp_path)


def test_a_tokenizer_without_a_table_of_bytes() -> None:
    tokenizer = build_tokenizer()
    tokenizer.decoder = None
    with pytest.raises(ConfigError, match="decoder"):
        TokenText(tokenizer)


def test_a102_a_tokenizer_whose_library_breaks_down() -> None:
    faulty = json.loads(build_tokenizer().to_str())
    sequence, missing = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "X", "type_id": 0}}
    faulty["post_processor"] = {
        "type": "TemplateProcessing", "single": [missing, sequence], "pair": [], "special_tokens": {}
    }  # fmt: skip
    with pytest.raises(ConfigError, match="can't encode text"):
        TokenText(Tokenizer.from_str(json.dumps(faulty)))


def test_a102_a_text_over_which_the_library_breaks_down_is_a_500(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    class Faulty:
        def encode_batch(self, *_: object, **__: object) -> None:
            raise PanicException("byte index 1 is not a char boundary")

    text = TokenText(build_tokenizer())
    monkeypatch.setattr(text, "_tokenizer", Faulty())
    monkeypatch.setattr(TokenText, "encode", lambda _, *args, **options: text_encode(text, *args, **options))
    for size in (1, 10_000):
        response = live.post("/tokenize", {"prompt": "a" * size})
        assert response.status_code == 500
        assert response.json()["error"]["code"] == "internal_error"
    monkeypatch.undo()
    assert live.post("/tokenize", {"prompt": "a"}).status_code == 200


text_encode = TokenText.encode


@pytest.mark.parametrize("hard", [64, 256, 1024, 100_000, resource.RLIM_INFINITY])
@pytest.mark.parametrize("soft", [64, 256, 1024, resource.RLIM_INFINITY])
def test_a134_connections_leave_descriptors_for_the_rest(monkeypatch: pytest.MonkeyPatch, soft: int, hard: int) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: asked.append(both))
    limits, backlog = serve._within_descriptors(Limits())
    allowed = asked[0][0] if asked else soft
    assert 1 <= limits.connections <= Limits().connections
    assert backlog >= 1
    if allowed == resource.RLIM_INFINITY or allowed > 10_000:
        assert (limits.connections, backlog) == (Limits().connections, 2048)
    elif allowed > 100:
        assert limits.connections + backlog + 32 < allowed


def test_a_tokenizer_that_cuts_is_told_not_to() -> None:
    tokenizer = build_tokenizer()
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=50)
    assert len(TokenText(tokenizer).encode("one two three four five six")) == len(
        build_tokenizer().encode("one two three four five six").ids
    )


def test_where_end_tokens_come_from(tmp_path: Path) -> None:
    write_model(tmp_path)
    assert ModelText.from_directory(tmp_path).eos_token_ids == (0, STOP)
    (tmp_path / "generation_config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 0}))
    assert ModelText.from_directory(tmp_path).eos_token_ids == (0, STOP)
    (tmp_path / "config.json").unlink()
    assert ModelText.from_directory(tmp_path).eos_token_ids == (STOP,)


def test_named_templates(tmp_path: Path) -> None:
    write_model(tmp_path)
    config = {"chat_template": [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    template = ModelText.from_directory(tmp_path).template
    assert template is not None
    assert template.render([], add_generation_prompt=True, max_chars=100) == "yes"


_PROGRAM = """
import asyncio, sys
from pathlib import Path
from headway.server.app import build_app
from headway.server.binding import bind
from headway.server.serve import serve
from headway.server.settings import Settings
from tests.server.scripted_engine import ScriptedEngine
settings = Settings(model="tiny", directory=Path(sys.argv[1]))
engine = ScriptedEngine(420, lambda _: [[5], 0.2, [5], 0.2, [5], [2]])
with bind(settings.host, 0) as listener:
    print(listener.getsockname()[1], flush=True)
    asyncio.run(serve(build_app(engine, settings), settings, listener))
print("drained")
"""


def test_sigterm_drains_and_exits_with_0(directory: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(directory)]
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True, env={**os.environ})
    assert process.stdout is not None
    port = int(process.stdout.readline())
    body = {"model": "tiny", "messages": [{"role": "user", "content": "x"}], "stream": True}
    transport = httpx.HTTPTransport(retries=8)  # with back-off, until it listens
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=transport, timeout=PATIENCE_S)
    with client, client.stream("POST", "/v1/chat/completions", json=body) as response:
        lines = response.iter_lines()
        next(lines)
        process.send_signal(signal.SIGTERM)
        text = "\n".join(lines)
    assert text.endswith("data: [DONE]\n")
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert output == "drained\n"
    assert process.returncode == 0
