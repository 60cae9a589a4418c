"""What InferenceX's configuration files say of runs whose results are published without it: drafts and replicas."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from headway.planner.truth.aliases import model_name, system_name
from headway.planner.truth.measurement import DataError, Layout, Measurement

MAX_BYTES = 4_000_000
MTP_TOKENS = 3
"""Drafted a step where the file says only that it drafts; its scripts draft one where attention is data parallel."""
_ENGINES = {"trt": "trtllm", "dynamo-trt": "trtllm", "sglang": "sglang", "dynamo-sglang": "sglang", "vllm": "vllm"}
_ENGINES["dynamo-vllm"] = "vllm"
Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Run:
    image: str
    drafts: int
    prefill: Layout
    decode: Layout
    prompt_replicas: int
    decode_replicas: int


@dataclass(frozen=True, slots=True)
class Runs:
    """`by`: system, engine, whether prompts are computed apart, model, weights, lengths, concurrency."""

    files: int = 0
    sha256: str = ""
    """Of the files, one after the other."""
    by: Mapping[Key, Sequence[Run]] = field(default_factory=dict)


NO_RUNS = Runs()


def read_runs(paths: Sequence[Path]) -> Runs:
    """Raises DataError, naming the file and the configuration."""
    found: dict[Key, list[Run]] = defaultdict(list)
    digest = hashlib.sha256()
    for path in paths:
        content = _content(path)
        digest.update(content)
        for name, one in _configurations(path, content).items():
            try:
                for key, run in _runs(one):
                    found[key].append(run)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise DataError(f"{path}: {name} is no configuration of InferenceX: {error!r}") from None
    return Runs(len(paths), digest.hexdigest() if paths else "", found)


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise DataError(f"{path}: larger than {MAX_BYTES} bytes")
    return content


def _configurations(path: Path, content: bytes) -> dict[str, Any]:
    try:
        return msgspec.yaml.decode(content, type=dict[str, dict[str, Any]])
    except msgspec.DecodeError as error:
        raise DataError(f"{path}: {' '.join(str(error).split())}") from None


def described(m: Measurement, runs: Runs) -> Measurement:
    """With what all runs say that it can be; what they differ in stays as it was."""
    apart = m.apart or m.system.startswith("gb200")
    about = (m.system, m.engine, apart, m.model, m.weights, m.prompt_tokens, m.output_tokens, m.concurrency)
    can = runs.by.get(about, ()) if m.source.partition("(")[0] == "InferenceX" else ()
    version = m.release.removesuffix(" disagg").partition(" ")[2]
    can = [run for run in can if version and version in run.image] or can
    cut = [run for run in can if _alike(m, run)]
    drafts = {run.drafts for run in cut or can}
    m = replace(m, drafts=drafts.pop() if len(drafts) == 1 else None)
    if not apart or not cut:
        return m
    run = min(cut, key=lambda run: run.decode_replicas)
    m = replace(m, apart=True, prefill=run.prefill, decode=run.decode)
    if m.decode_replicas and len({(run.prompt_replicas, run.decode_replicas) for run in cut}) > 1:
        return m
    return replace(m, prompt_replicas=run.prompt_replicas, decode_replicas=run.decode_replicas)


def _alike(m: Measurement, run: Run) -> bool:
    """Whether as many chips hold a replica, and attention is cut alike as far as is said."""
    if m.apart:
        return (_chips(run.prefill), _chips(run.decode)) == (_chips(m.prefill), _chips(m.decode))
    if m.system.startswith("gb200"):
        all_chips = run.prompt_replicas * _chips(run.prefill) + run.decode_replicas * _chips(run.decode)
        return all_chips == _chips(m.decode)
    return _chips(run.decode) == _chips(m.decode) and (run.decode.data > 1) == (m.decode.data > 1)


def _chips(layout: Layout) -> int:
    return layout.tensor * layout.data


def _runs(one: dict[str, Any]) -> Iterator[tuple[Key, Run]]:
    system, engine = system_name(str(one["runner"]).split("-")[0]), _ENGINES.get(one["framework"])
    model = model_name(one["model"])
    if system is None or engine is None or model is None:
        return
    for lengths in one.get("seq-len-configs") or one.get("scenarios", {}).get("fixed-seq-len", []):
        for space in lengths["search-space"]:
            prefill, decode = space.get("prefill", space), space.get("decode", space)
            run = Run(
                str(one["image"]),
                _drafts(space, prefill, decode),
                _layout(prefill),
                _layout(decode),
                prefill.get("num-worker", 1),
                decode.get("num-worker", 1),
            )
            about = (system[0], engine, "decode" in space, model, one["precision"], lengths["isl"], lengths["osl"])
            for concurrency in _concurrencies(space):
                yield (*about, concurrency), run


def _drafts(space: dict[str, Any], prefill: dict[str, Any], decode: dict[str, Any]) -> int:
    """Recipes end in `mtp` and the number of drafted tokens."""
    if space.get("spec-decoding", "none") == "none":
        return 0
    stated = str(prefill.get("additional-settings", "")).rpartition("mtp")[2][:1]
    return int(stated) if stated.isdigit() else 1 if decode.get("dp-attn") else MTP_TOKENS


def _layout(side: dict[str, Any]) -> Layout:
    tensor, expert = side["tp"], side.get("ep", 1)
    return Layout(1, tensor, tensor) if side.get("dp-attn") else Layout(tensor, expert)


def _concurrencies(space: dict[str, Any]) -> list[int]:
    if "conc-list" in space:
        return list(space["conc-list"])
    found = [int(space["conc-start"])]
    while found[-1] < space["conc-end"]:
        found.append(min(found[-1] * 2, space["conc-end"]))
    return found
