"""A sweep on a Ray cluster: needs Ray (`pip install headway[ray]`), and starts a small cluster of its own."""

from __future__ import annotations

import importlib.util
import json
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from headway.cli.simulate import simulate
from headway.cli.sweep_files import SameFiles, digest
from headway.simulator.sweep import SweepError

HAS_RAY = importlib.util.find_spec("ray") is not None
GRID = ("simulate", "--requests", "10", "--sweep", "system=hgx-h100,hgx-b200", "--sweep", "tensor=1,3")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Its address. It ends when its first process does."""
    port = free_port()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ray") as directory:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        command = [Path(sys.executable).parent / "ray", "start", "--head", "--block", "--num-cpus", "2"]
        command += ["--port", str(port), "--temp-dir", directory, "--include-dashboard", "false"]
        command += ["--dashboard-agent-listen-port", str(free_port()), "--disable-usage-stats"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not answers(port):
                time.sleep(0.2)
            yield f"127.0.0.1:{port}"
            process.terminate()


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def headway(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = (sys.executable, "-c", "from headway.cli import main; main()", *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(not HAS_RAY, reason="needs ray")
def test_a_cluster_gives_what_this_machine_gives_and_goes_on_from_its_file(cluster: str, tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    there = headway(*GRID, "--ray", cluster, "--out", str(out), "--json")
    assert there.returncode == 0, there.stderr
    kept = out.read_bytes()
    assert kept.count(b"\n") == 4
    assert there.stdout == headway(*GRID, "--jobs", "1", "--json").stdout
    assert json.loads(there.stdout)["points"][1]["error"].startswith("tensor parallelism 3")
    assert headway(*GRID, "--jobs", "1", "--out", str(out), "--json").stdout == there.stdout
    assert out.read_bytes() == kept


@pytest.mark.skipif(not HAS_RAY, reason="needs ray")
@pytest.mark.parametrize("address", ["127.0.0.1:9", "nonsense"])
def test_no_cluster_there_is_one_line(address: str) -> None:
    found = headway(*GRID, "--ray", address)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith(f"headway: --ray {address}: no cluster there")
    assert found.stderr.count("\n") == 1


def test_without_ray_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    result = CliRunner().invoke(simulate, [*GRID[1:], "--ray", "auto", "--out", str(tmp_path / "s.jsonl")])
    assert result.exit_code == 1
    assert "--ray needs Ray, which is not installed: pip install 'headway[ray]'" in result.output
    assert not list(tmp_path.iterdir())


def test_another_machine_must_have_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = tmp_path / "t.csv"
    trace.write_text("here")
    run = SameFiles(dict, {trace: digest(trace)})
    monkeypatch.chdir("/")
    assert run({"a": 1}) == {"a": 1}
    assert Path.cwd() == tmp_path, "relative paths mean the same"
    with pytest.raises(SweepError, match="another file on a machine of the cluster"):
        SameFiles(dict, {trace: "of another"})({})
    with pytest.raises(SweepError, match="none: No such file"):
        SameFiles(dict, {tmp_path / "none": "of none"})({})
