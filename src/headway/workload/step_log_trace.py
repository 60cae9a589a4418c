"""A step log as a workload: what a real run was asked, when, and how long the answers became."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np

from headway.scheduler.block_keys import BlockHasher
from headway.scheduler.step_records import Add, AnyRecord, Ended, Header, StepLogError, read
from headway.workload.call import Call, Workload, WorkloadError
from headway.workload.lines import read_lines

MAX_TOKENS = 1 << 31


def log_lines(path: Path, on_cut: Callable[[int], object] | None = None) -> Iterator[bytes]:
    """Lines up to one that its writer could not finish: the last, without its end. `on_cut` gets its number.

    Raises WorkloadError for what cannot be read.
    """
    for number, line in read_lines(path):
        if not line.endswith(b"\n") and not _is_json(line):
            if on_cut is not None:
                on_cut(number)
            return
        yield line


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


def read_step_log(path: Path) -> Workload:
    """Refused requests, and those whose end is not in the log or brought no token, are left out. The log is read
    whole: lengths stand behind arrivals. Raises WorkloadError.
    """
    adds: list[tuple[int, Add]] = []
    outputs: dict[str, int] = {}
    block_size = last_ns = 0
    for line, record in _records(path):
        if isinstance(record, Header):
            block_size = record.config.block_size
        elif isinstance(record, Add) and record.refused is None:
            if record.now_ns < last_ns:
                raise WorkloadError(f"{path}: line {line}: now_ns is before that of the request above")
            last_ns = record.now_ns
            adds.append((line, record))
        elif isinstance(record, Ended):
            outputs[record.id] = record.receipt.tokens_generated
    kept = [(line, add) for line, add in adds if outputs.get(add.id, 0) > 0]
    if not kept:
        raise WorkloadError(f"{path}: no request in this step log has an end")
    first_ns, hasher = kept[0][1].now_ns, BlockHasher(block_size, b"")
    calls = []
    for line, add in kept:
        try:
            calls.append(_call(add, outputs[add.id], first_ns, hasher))
        except ValueError as error:
            raise WorkloadError(f"{path}: line {line}: {error}") from None
    return Workload("step log", [(call,) for call in calls], block_size, num_calls=len(calls))


def _records(path: Path) -> list[tuple[int, AnyRecord]]:
    try:
        return list(read(log_lines(path)))
    except StepLogError as error:
        raise WorkloadError(f"{path}: {error}") from None


def _call(add: Add, output: int, first_ns: int, hasher: BlockHasher) -> Call:
    """Raises ValueError for numbers that are none."""
    if not 1 <= add.num_prompt_tokens <= MAX_TOKENS or output > MAX_TOKENS:
        raise ValueError(f"a prompt of {add.num_prompt_tokens} tokens and an answer of {output}")
    keys = [bytes.fromhex(key) for key in add.block_keys]
    if add.tokens is not None:
        tokens = np.array(add.tokens[: add.num_prompt_tokens], np.int32)
        hasher.extend(keys, tokens, bytes.fromhex(add.salt))
    return Call(
        id=add.id,
        num_input_tokens=add.num_prompt_tokens,
        num_output_tokens=output,
        session=add.session,
        arrival_s=(add.now_ns - first_ns) / 1e9,
        hash_ids=tuple(int.from_bytes(key[:7], "little") for key in keys),
        max_output_tokens=add.max_tokens,
    )
