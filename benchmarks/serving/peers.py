"""Which engines there are, how each is started, and why one can't be."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .hf_engine import HfEngine
from .http_engine import HOST, HttpEngine
from .jobs import Job
from .measurement import Answer
from .peer_files import Q4_0, Q4_1, W8A8

_HERE = Path(__file__).parent
_SLOTS = 32
_VLLM_KV_GB, _VLLM_CONTEXT = 4, 4096


class NotInstalled(Exception):
    """What is missing, in one line."""


class Engine(Protocol):
    @property
    def pid(self) -> int:
        """Of its process, which leads a session of its own; once started."""
        ...

    async def start(self) -> None: ...
    async def run(self, job: Job, prompts: list[list[int]]) -> tuple[list[Answer], float | None]: ...
    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Setting:
    model_dir: Path
    """The model in Hugging Face form."""
    is_default_model: bool
    """Prepared files of peers hold the default model and no other."""
    peers: Path | None
    """Holds a virtual environment for each peer, and `models/`."""
    threads: int
    headway_arguments: tuple[str, ...] = ()

    @property
    def env(self) -> dict[str, str]:
        return {"OMP_NUM_THREADS": str(self.threads), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}

    def python(self, peer: str, module: str) -> str:
        """The peer's interpreter. Raises NotInstalled."""
        if self.peers is None:
            raise NotInstalled("neither --peers nor HEADWAY_PEERS names a directory")
        python = self.peers / peer / "bin" / "python"
        if not python.is_file():
            raise NotInstalled(f"there is no {peer}/bin/python among the peers")
        find = f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"
        if subprocess.run([python, "-c", find], capture_output=True, timeout=60).returncode:
            raise NotInstalled(f"{module} is not in the peer's environment {peer}")
        return str(python)

    def prepared(self, name: str) -> str:
        """A file or folder that `peer_models.py` makes. Raises NotInstalled."""
        if self.peers is None or not (path := self.peers / "models" / name).exists():
            raise NotInstalled(f"there is no models/{name} among the peers: see docs/peers.md")
        if not self.is_default_model:
            raise NotInstalled(f"models/{name} holds the default model, not the one asked for")
        return str(path)


def _headway(setting: Setting) -> Engine:
    model = () if setting.is_default_model else (str(setting.model_dir),)
    headway = (str(Path(sys.executable).with_name("headway")), "serve", *model, "--host", HOST)
    return HttpEngine(lambda port: (*headway, "--port", str(port), *setting.headway_arguments), setting.env)


def _hf(setting: Setting) -> Engine:
    return HfEngine(setting.model_dir, setting.env)


def _script(setting: Setting, name: str, python: str, model: str, *options: str) -> Engine:
    command = (python, str(_HERE / name), "--model", model, "--threads", str(setting.threads), *options)
    return HttpEngine(lambda port: (*command, "--port", str(port)), setting.env)


def _llamacpp(file: str, *options: str) -> Callable[[Setting], Engine]:
    def engine(setting: Setting) -> Engine:
        python = setting.python("llamacpp", "xllamacpp")
        return _script(setting, "llamacpp_server.py", python, setting.prepared(file), *options)

    return engine


def _openvino(folder: str, *options: str) -> Callable[[Setting], Engine]:
    def engine(setting: Setting) -> Engine:
        python = setting.python("openvino", "openvino_genai")
        return _script(setting, "openvino_server.py", python, setting.prepared(folder), *options)

    return engine


def _vllm(folder: str | None) -> Callable[[Setting], Engine]:
    def engine(setting: Setting) -> Engine:
        python = setting.python("vllm", "vllm")
        model = setting.prepared(folder) if folder else str(setting.model_dir)
        serve = (python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--host", HOST)
        command = (*serve, "--dtype", "bfloat16", "--max-model-len", str(_VLLM_CONTEXT))
        env = {**setting.env, "VLLM_CPU_KVCACHE_SPACE": str(_VLLM_KV_GB), "VLLM_NO_USAGE_STATS": "1"}
        return HttpEngine(lambda port: (*command, "--port", str(port)), env)

    return engine


FAMILIES: dict[str, dict[str, Callable[[Setting], Engine]]] = {
    "headway": {"headway": _headway},
    "hf": {"hf": _hf},
    "llamacpp": {
        "llamacpp": _llamacpp(Q4_1),
        "llamacpp-q4_0": _llamacpp(Q4_0, "--slots", str(_SLOTS), "--flash-q8"),
    },
    "openvino": {"openvino-int8": _openvino("openvino-int8"), "openvino-int4": _openvino("openvino-int4")},
    "vllm": {"vllm-bf16": _vllm(None), "vllm-w8a8": _vllm(W8A8)},
}
"""Each engine in one or more settings; both names can be asked for."""


def engines(names: list[str]) -> dict[str, Callable[[Setting], Engine]]:
    """By their own names, in order. Raises KeyError with a name that there is none of."""
    every = {name: make for family in FAMILIES.values() for name, make in family.items()}
    chosen: dict[str, Callable[[Setting], Engine]] = {}
    for name in names:
        chosen |= FAMILIES[name] if name in FAMILIES else {name: every[name]}
    return chosen
