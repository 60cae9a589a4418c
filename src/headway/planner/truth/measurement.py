"""One published measurement of an engine that serves a model, and what is said about how it was had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headway.catalog import CatalogError

Metric = Literal["tpot", "ttft"]
MAX_ROWS = 1_000_000


class DataError(CatalogError):
    """A data file that cannot be read, or a row in it that says something impossible: names the file and the row."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Chips of one replica: `tensor` cut every matrix, or (`data`) each attends to sequences of its own."""

    tensor: int = 1
    expert: int = 1
    data: int = 1
    pipeline: int = 1


@dataclass(frozen=True, slots=True)
class Measurement:
    """Seconds of one metric at a steady number of requests in flight. Names are the catalog's."""

    source: str
    system: str
    engine: str
    """Family: vllm, sglang, trtllm, other."""
    release: str
    """Engine with its version, as the source gives it."""
    model: str
    weights: str
    """As the source gives it: bf16, fp8, int8, fp4, int4."""
    prefill: Layout
    decode: Layout
    apart: bool
    """Prompts are computed on chips of their own."""
    prompt_tokens: int
    output_tokens: int
    concurrency: int
    metric: Metric
    value_s: float
    where: str
    """File and line."""
    prompt_replicas: int | None = None
    """Of `prefill`, that concurrency is spread over; None: not stated."""
    decode_replicas: int | None = None
    stated: bool = True
    """False: the chip is not stated by the source, and assumed."""
    median_gap: bool = False
    """True: TPOT is a median of gaps between tokens, so that the few steps that carry prompts do not show."""
    batch: bool = False
    """True: one batch that starts together, computes its prompts in one step and decodes to the end, alone."""
