"""Cores of others: what is busy and is neither this process nor the engine's session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.serving.cpu_time import CpuTime

pytestmark = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="needs /proc")
NO_SESSION = 1 << 30
BURN = "import time\nwhile time.process_time() < 0.5: pass\nprint(flush=True)\ninput()"


def test_arithmetic() -> None:
    before, after = CpuTime(10.0, 100.0, 50.0), CpuTime(14.0, 108.0, 52.0)
    assert after.cores_of_others(before) == pytest.approx(1.5)
    assert CpuTime(14.0, 101.0, 52.0).cores_of_others(before) == 0.0


def test_a_session_is_ours_with_its_children() -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}])"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", child], start_new_session=True, **pipes) as process:
        assert process.stdout is not None
        process.stdout.readline()
        session, none = CpuTime.now(process.pid), CpuTime.now(NO_SESSION)
        process.communicate(b"\n")
    assert session is not None
    assert none is not None
    assert session.ours_s - none.ours_s >= 0.4
    assert session.all_s > session.ours_s - none.ours_s
