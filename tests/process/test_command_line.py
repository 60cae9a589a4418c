"""The command as a user runs it: errors are one line, help needs no torch, signals drain."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from headway.cli import main
from headway.cli.quantities import ByteSize
from headway.scheduler.step_log import replay
from tests.process.tiny_model import write_tiny_model

HEADWAY = [sys.executable, "-c", "from headway.cli import main; main(prog_name='headway')"]
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "HEADWAY_API_KEYS": ""}


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture(scope="session")
def plain_text(tiny_model: Path) -> str:
    """What the tiny model says without any option."""
    with serving(tiny_model) as served:
        text: str = served.complete(max_tokens=60)["choices"][0]["text"]
        assert served.stop(signal.SIGINT) == 0
    return text


class Served:
    """`headway serve` in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url = process, url

    def complete(self, **fields: object) -> dict:
        body = {"model": "tiny", "prompt": "abc", "temperature": 0, "ignore_eos": True} | fields
        response = httpx.post(f"{self.url}/v1/completions", json=body, timeout=120)
        assert response.status_code == 200, response.text
        return response.json()

    @contextmanager
    def stream(self, max_tokens: int) -> Iterator[Iterator[dict]]:
        """The events of a streamed completion."""
        body = {"model": "tiny", "prompt": "abc", "temperature": 0, "ignore_eos": True, "stream": True}
        body["max_tokens"] = max_tokens
        with httpx.stream("POST", f"{self.url}/v1/completions", json=body, timeout=120) as response:
            lines = (line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: "))
            yield (json.loads(line) for line in lines if line != "[DONE]")

    @property
    def engine_pid(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        [pid] = [int(c) for c in children if b"headway.engine.process" in Path(f"/proc/{c}/cmdline").read_bytes()]
        return pid

    def is_listening(self) -> bool:
        host, _, port = self.url.removeprefix("http://").partition(":")
        try:
            socket.create_connection((host, int(port)), timeout=120).close()
        except ConnectionRefusedError:
            return False
        return True

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(120)


@contextmanager
def serving(*arguments: str | Path) -> Iterator[Served]:
    command = [*HEADWAY, "serve", *map(str, arguments), "--port", "0", "--kv-bytes", "8MiB"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENV) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Headway serves tiny on http://127.0.0.1:")
            yield Served(process, line.split()[-1])
        finally:
            process.kill()


def test_version_and_help_come_without_torch_and_without_a_server() -> None:
    code = "import sys; from headway.cli import main\ntry: main(['serve', '--help'])\n"
    code += "except SystemExit: print([m for m in ('torch', 'uvicorn', 'numpy', 'tokenizers') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "--kv-bytes" in shown
    assert shown.splitlines()[-1] == "[]"
    assert CliRunner().invoke(main, ["--version"]).output.startswith("headway ")
    for command, word in (([], "serve"), (["plan"], "roofline")):
        result = CliRunner().invoke(main, command)
        assert (result.exit_code, result.stderr) == (0, "")
        assert word in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve", "--port", "99999"], "--port"),
        (["serve", "--port", "http"], "--port"),
        (["serve", "--dtype", "int3"], "float32"),
        (["serve", "--max-running", "0"], "--max-running"),
        (["serve", "--kv-bytes", "2 parsecs"], "GiB"),
        (["serve", "--kv-bytes", "-1"], "--kv-bytes"),
        (["serve", "--kv-tier", "tape=1GiB"], "dram or ssd"),
        (["serve", "--kv-tier", "dram"], "dram=2GiB"),
        (["serve", "--kv-tier", "dram=much"], "--kv-tier"),
        (["serve", "--kv-ttl", "0"], "--kv-ttl"),
        (["serve", "--kv-bytes", "0"], "less than one byte"),
        (["serve", "--stall-s", "0"], "--stall-s"),
        (["serve", "--drain-s", "nan"], "--drain-s"),
        (["serve", "--batching", "none"], "static"),
        (["serve", "--no-such-option"], "--no-such-option"),
        (["serve", "a", "b"], "unexpected"),
        (["serve", "--step-log", "/"], "--step-log"),
        (["serve", "--step-log", "/no/such/directory/steps"], "there is no directory /no/such/directory"),
        (["serve", "--kv-tier-dir", "/"], "--kv-tier-dir: only with --kv-tier ssd"),
        (["serve", "--kv-tier", "dram=1GiB", "--kv-tier-dir", "/"], "--kv-tier-dir: only with --kv-tier ssd"),
        (["serve", "--draft-depth", "2"], "--draft-depth: only with --speculation ngram"),
        (["serve", "--kv-ttl", "5min", "--no-prefix-cache"], "--kv-ttl: keeps KV for the prefix cache"),
        (["serve", "--kv-tier", "dram=1GiB", "--no-prefix-cache"], "--kv-tier: keeps KV for the prefix cache"),
        (["serve", "--kv-tier", "dram=1GiB,ttl=5"], "'ttl=5' is not one of size"),
        (["no-such-command"], "no-such-command"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_a_bad_option_is_one_line_and_exit_code_2(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("headway: ")
    assert words in line


def spoiled(tiny: Path, directory: Path, name: str, content: bytes | None) -> Path:
    """A copy of the tiny model with one file replaced or left out."""
    directory.mkdir()
    for file in tiny.iterdir():
        (directory / file.name).write_bytes(file.read_bytes())
    if content is None:
        (directory / name).unlink()
    else:
        (directory / name).write_bytes(content)
    return directory


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("config.json", None, "config.json"),
        ("config.json", b"{", "config.json"),
        ("config.json", b'{"model_type": "llama", "num_hidden_layers": 2}', "hidden_size"),
        ("model.safetensors", None, ".safetensors"),
        ("model.safetensors", b"\0" * 100, "model.safetensors"),
        ("tokenizer.json", None, "tokenizer.json"),
        ("tokenizer.json", b"[1]", "tokenizer.json"),
    ],
)
def test_an_unusable_model_is_one_line(
    capfd: pytest.CaptureFixture[str], tiny_model: Path, tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    assert_one_line(capfd, words, spoiled(tiny_model, tmp_path / "model", name, content), "--port", "0")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--block-size", "24"], "--block-size must be a power of two, not 24"),
        (["--max-step-tokens", "8"], "--max-step-tokens (8) must be at least --max-running (256)"),
        (["--max-context", "1000000"], "--max-context must be between 1 and"),
        (["--kv-bytes", "16"], "--kv-bytes: 16 bytes holds no KV block"),
        (["--kv-tier", "dram=16"], "--kv-tier dram: 16 bytes hold no block"),
        (["--kv-tier", "dram=1000000GiB"], "that are free"),
        (["--kv-tier", "ssd=1GiB", "--kv-tier", "ssd=1GiB"], "--kv-tier: each needs a name of its own, not ssd, ssd"),
        (["--device", "quantum"], "quantum"),
        (["--host", "no.such.host.invalid"], "no.such.host.invalid"),
        (["--api-key", " x"], "api_keys"),
        (["--served-model-name", "x\ny"], "model"),
        (["--served-model-name", " "], "model"),
    ],
)
def test_options_that_cannot_work_are_one_line(
    capfd: pytest.CaptureFixture[str], tiny_model: Path, options: list[str], words: str
) -> None:
    assert_one_line(capfd, words, tiny_model, "--port", "0", *options)


@pytest.mark.parametrize("name", ["/no/such/model", "../x\0y", "model with spaces", "no-such.gguf"])
def test_a_model_that_is_not_there_is_one_line(capfd: pytest.CaptureFixture[str], name: str) -> None:
    assert_one_line(capfd, "", name, "--port", "0")


def test_a_port_in_use_is_one_line(capfd: pytest.CaptureFixture[str], tiny_model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert_one_line(capfd, f"port {port} on 127.0.0.1 is in use", tiny_model, "--port", port)


def assert_one_line(capfd: pytest.CaptureFixture[str], words: str, *arguments: str | Path) -> None:
    """The command fails, and neither it nor its engine process says anything else."""
    result = CliRunner().invoke(main, ["serve", *map(str, arguments)])
    assert result.exit_code == 1
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith("headway: ")
    assert words in line
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("2GiB", 2 * 2**30), ("2 GB", 2 * 10**9), ("1.5kB", 1500), ("3MiB", 3 * 2**20)]
)
def test_sizes_know_decimal_from_binary(text: str, size: int) -> None:
    assert ByteSize().convert(text, None, None) == size


def test_a_killed_engine_costs_a_stream_nothing_and_both_step_logs_replay(tiny_model: Path, tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    with serving(tiny_model, "--step-log", log) as served:
        expected = served.complete(max_tokens=800)["choices"][0]["text"]
        engine_pid = served.engine_pid
        with served.stream(800) as events:
            text = next(events)["choices"][0]["text"]
            os.kill(engine_pid, signal.SIGKILL)
            text += "".join(e["choices"][0]["text"] for e in events if e["choices"])
        assert text == expected
        assert served.stop() == 0
    lives = sorted(tmp_path.iterdir())
    assert [file.name for file in lives] == ["steps.jsonl", "steps.jsonl.1"]
    for file in lives:
        with file.open("rb") as lines:
            _, steps = replay(lines)
        assert steps > 0


def test_a_step_log_is_never_overwritten(tiny_model: Path, tmp_path: Path) -> None:
    log = tmp_path / "steps.jsonl"
    log.write_text("precious")
    result = CliRunner().invoke(main, ["serve", str(tiny_model), "--port", "0", "--step-log", str(log)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"headway: Invalid value for '--step-log': '{log}': File exists\n"
    assert log.read_text() == "precious"


def test_sigterm_lets_a_stream_finish_and_leaves_no_engine(tiny_model: Path) -> None:
    with serving(tiny_model, "--drain-s", "300") as served:
        engine_pid = served.engine_pid
        with served.stream(300) as events:
            next(events)
            served.process.send_signal(signal.SIGTERM)
            reasons = [e["choices"][0]["finish_reason"] for e in events if e["choices"]]
        assert reasons[-1] == "length"
        assert served.process.wait(120) == 0
        with pytest.raises(ProcessLookupError):
            os.kill(engine_pid, 0)


@pytest.mark.parametrize("tiers", [["dram=4MiB"], ["dram=300kB", "ssd=4MiB"]])
def test_what_the_device_gives_up_comes_back_from_a_tier(tiny_model: Path, tmp_path: Path, tiers: list[str]) -> None:
    log = tmp_path / "steps.jsonl"
    options = ["--kv-bytes", "192KiB", "--max-context", "512", "--step-log", log]
    options += ["--kv-tier-dir", tmp_path] if len(tiers) > 1 else []
    prompts = [letter * 400 for letter in "abcd"]
    with serving(tiny_model, *options, *(word for tier in tiers for word in ("--kv-tier", tier))) as served:
        first, second = ([served.complete(prompt=p, max_tokens=8) for p in prompts] for _ in range(2))
        assert served.stop() == 0
    assert [a["choices"][0]["text"] for a in first] == [a["choices"][0]["text"] for a in second]
    assert [a["usage"]["prompt_tokens_details"]["cached_tokens"] for a in second] == [384] * 4
    with log.open("rb") as lines:
        assert replay(lines)[1] > 0


@pytest.mark.parametrize("output", ["/dev/full", None])
def test_an_output_that_takes_nothing_is_no_reason_not_to_serve(
    tiny_model: Path, output: str | None, free_port: int
) -> None:
    command = [*HEADWAY, "serve", str(tiny_model), "--port", str(free_port), "--kv-bytes", "8MiB"]
    read_end, write_end = os.pipe()
    os.close(read_end)
    with (
        os.fdopen(write_end, "wb") if output is None else open(output, "wb") as stdout,
        subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=ENV) as process,
    ):
        try:
            served = Served(process, f"http://127.0.0.1:{free_port}")
            while not served.is_listening():
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.1)
            served.complete(max_tokens=1)
            assert served.stop() == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_a_second_interrupt_does_not_wait_for_streams(capfd: pytest.CaptureFixture[str], tiny_model: Path) -> None:
    with serving(tiny_model) as served, served.stream(2000) as events:
        next(events)
        served.process.send_signal(signal.SIGINT)
        while served.is_listening():
            time.sleep(0.01)
        assert served.process.poll() is None
        served.process.send_signal(signal.SIGINT)
        assert served.process.wait(120) == 0
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "options",
    [
        ["--speculation", "ngram", "--draft-depth", "3"],
        ["--no-prefix-cache", "--batching", "static", "--reservation", "worst-case"],
    ],
)
def test_policies_change_no_text(tiny_model: Path, plain_text: str, options: list[str]) -> None:
    with serving(tiny_model, *options) as served:
        assert served.complete(max_tokens=60)["choices"][0]["text"] == plain_text
