"""Make the default model's files for the peers in DIR/models; what is there already stays.

    python benchmarks/peer_models.py DIR

GGUF in Q4_1 (as shipped) and Q4_0 for llama.cpp, W8A8 for vLLM, and, where DIR/export/bin/optimum-cli is, int8 and int4
for OpenVINO.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from headway.engine.errors import ModelError
from headway.engine.model_store import resolve_model
from headway.engine.progress import terminal_progress
from serving.peer_files import Q4_0, Q4_1, W8A8, write_q4_0, write_q4_1, write_w8a8

_EXPORTS = {
    "openvino-int8": ("--weight-format", "int8"),
    "openvino-int4": ("--weight-format", "int4", "--group-size", "64", "--ratio", "1.0"),
}


def make(target: Path, write: Callable[[Path], None]) -> None:
    """Whole or not at all."""
    if target.exists():
        print(f"{target.name}: already there")
        return
    with tempfile.TemporaryDirectory(prefix=".making-", dir=target.parent) as scratch:
        write(Path(scratch) / target.name)
        (Path(scratch) / target.name).rename(target)
    print(f"{target.name}: made")


def export(optimum: Path, model: Path, options: tuple[str, ...], folder: Path) -> None:
    command = [str(optimum), "export", "openvino", "--task", "text-generation-with-past", *options]
    subprocess.run([*command, "--model", str(model), str(folder)], check=True)


def prepare(peers: Path) -> None:
    """Raises ModelError and CalledProcessError."""
    models = peers / "models"
    models.mkdir(parents=True, exist_ok=True)
    with terminal_progress() as report:
        source = resolve_model(None, report)
        make(models / Q4_1, lambda path: write_q4_1(path, path.parent, report))
    make(models / Q4_0, lambda path: write_q4_0(models / Q4_1, path))
    make(models / W8A8, lambda folder: write_w8a8(source, folder))
    optimum = peers / "export" / "bin" / "optimum-cli"
    if not optimum.is_file():
        print("OpenVINO: no export/bin/optimum-cli, nothing exported")
        return
    for name, options in _EXPORTS.items():
        make(models / name, partial(export, optimum, source, options))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", type=Path, metavar="DIR")
    try:
        prepare(parser.parse_args().peers.resolve())
    except (ModelError, subprocess.CalledProcessError, OSError, shutil.Error) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
