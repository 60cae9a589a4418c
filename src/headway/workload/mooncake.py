"""The format of the Mooncake traces: lone requests with the ids of their prompts' blocks of 512 tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from headway.workload.call import Call, Session, Workload, WorkloadError, in_order
from headway.workload.lines import read_json_rows, where

BLOCK_SIZE = 512
Id = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
Tokens = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]


class Row(msgspec.Struct, frozen=True):
    timestamp: Annotated[float, msgspec.Meta(ge=0, le=1e15)]
    """Milliseconds."""
    input_length: Tokens
    output_length: Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
    hash_ids: tuple[Id, ...]


def read_mooncake(path: Path) -> Workload:
    """Rows with an output of 0 tokens are taken as 1. Raises WorkloadError when a bad row is reached."""
    rows: list[int] = [0]
    return Workload("mooncake", in_order(_sessions(path, rows), lambda _: where(path, rows[0])), BLOCK_SIZE)


def _sessions(path: Path, current: list[int]) -> Iterator[Session]:
    for number, row in read_json_rows(path, Row):
        current[0] = number
        whole, most = row.input_length // BLOCK_SIZE, -(-row.input_length // BLOCK_SIZE)
        if not whole <= len(row.hash_ids) <= most:
            raise WorkloadError(
                f"{where(path, number)}: {len(row.hash_ids)} hash_ids, where {row.input_length} tokens have "
                f"{whole} whole blocks of {BLOCK_SIZE}"
            )
        yield (
            Call(
                id=str(number),
                num_input_tokens=row.input_length,
                num_output_tokens=max(1, row.output_length),
                arrival_s=row.timestamp / 1000,
                hash_ids=row.hash_ids,
                was_empty=not row.output_length,
            ),
        )
