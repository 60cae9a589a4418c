"""The coefficients of the calibrated model: what each means, and how far a fit may take it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headway.arithmetic.experts import FloatArray

FEW_TOKENS = (1, 2, 3, 4, 8, 16)
"""Kernels for few rows have their moods: two rows may take longer than three."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Of a step. The defaults are those of a perfect machine: with them, no overlap between operations is all that is
    added to the floor.
    """

    compute_efficiency: float = 1.0
    """Of the peak, for a matrix product with many rows."""
    expert_compute_efficiency: float = 1.0
    attention_compute_efficiency: float = 1.0
    """For what reads the cache or the state."""
    fp8_efficiency: float = 1.0
    """Of the above, where products run at the fp8 or int8 rate."""
    fp4_efficiency: float = 1.0
    imbalance: float = 0.0
    """Of the spread that experts dealt out to chips would have if tokens chose at random, how much is seen."""
    expert_variety: float = 1.0
    """Of a step's tokens, how many choose experts for themselves; the others follow one of these."""
    half_rows: float = 0.0
    """Rows at which a matrix product reaches half of its efficiency."""
    overlap: float = 1.0
    """Of the shorter of an operation's compute and memory time, how much passes behind the longer one; 0: they add."""
    bandwidth_efficiency: float = 1.0
    expert_bandwidth_efficiency: float = 1.0
    attention_bandwidth_efficiency: float = 1.0
    widened_efficiency: float = 1.0
    """Of the above, where weights in four bits are widened first, on a chip that does not multiply them so."""
    link_efficiency: float = 1.0
    round_s: float = 0.0
    """One round of a collective, the link's latency included; 0: the catalog's latency."""
    expert_round_s: float = 0.0
    """The same for a round that brings tokens to experts or back."""
    launch_s: float = 0.0
    """What an operation takes besides, twice where its inputs are quantised first."""
    layer_s: float = 0.0
    """Norms, rotation and all else that a layer takes whatever its size."""
    layer_1_s: float = 0.0
    """The same in a step of one token; 0: not told. So do the next, and in between the logarithm of tokens."""
    layer_2_s: float = 0.0
    layer_3_s: float = 0.0
    layer_4_s: float = 0.0
    layer_8_s: float = 0.0
    layer_16_s: float = 0.0
    expert_layer_s: float = 0.0
    """What a layer with routed experts takes beyond that: routing, sorting, gathering."""
    host_s: float = 0.0
    """Gap between steps."""
    host_sequence_s: float = 0.0
    """What each sequence adds to it."""
    host_beside: float = 0.0
    """1: the host works while the device does, and the longer of the two rules (the root of the sum of squares);
    0: the device waits for it.
    """
    idle_w: float = 0.0
    compute_j_per_flop: float = 0.0
    memory_j_per_byte: float = 0.0

    @property
    def few_layers_s(self) -> dict[int, float]:
        """By tokens, where it is told."""
        return {n: seconds for n in FEW_TOKENS if (seconds := getattr(self, f"layer_{n}_s"))}


def layer_seconds(tokens: FloatArray, few_layers_s: Mapping[int, float], layer_s: float) -> FloatArray:
    """[N] what a layer takes in a step of so many tokens: with twice the most of the few, and more, `layer_s`."""
    if not few_layers_s:
        return np.full(np.shape(tokens), layer_s)
    known = [*few_layers_s, 2 * max(few_layers_s)]
    return np.interp(np.log2(np.maximum(tokens, 1)), np.log2(known), [*few_layers_s.values(), layer_s])


@dataclass(frozen=True, slots=True)
class Serving:
    """Of an engine that serves `n` requests at a time. The defaults: prompts are mixed into the decode steps in full,
    and each request finds the engine free for its own.
    """

    mixing: float = 1.0
    """Of the time that other requests' prompts take, how much is added to the steps that a request decodes in."""
    request_s: float = 0.0
    """What a request takes outside of any step: HTTP, tokens, queues between processes."""
    chunk_tokens: float = 8192.0
    """At most about this many prompt tokens ride in one step."""
    queue: float = 1.0
    """Of a prompt's step, how much it keeps the next one waiting."""
    burst: float = 0.0
    """Of the other requests' prompts, how many are computed before one's own because requests begin together."""
    waiting: float = 1.0
    """Of the time until a running request ends, how much a request waits that finds no room for its cache."""
    tokens_per_step: float = 1.0
    """More than 1 where drafted tokens are accepted."""
    prompt_launch_s: float = 0.0
    """What an operation takes in a prompt's step beyond launch_s: kernels are launched one by one there."""
    steps_before: float = 1.0
    """Decode steps that pass before a request's first token: the one under way, and all else that grows as they do."""
    prompt_factor: float = 1.0
    """A prompt's step against what the step's coefficients say."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Where a fit starts, and how far (one standard deviation, in the logarithm or, for a share, in its log odds) what
    is known of such machines lets it go.
    """

    start: float
    deviation: float
    share: bool = False
    """Between 0 and 1."""


PRIORS: dict[str, Prior] = {
    "compute_efficiency": Prior(0.6, 1.0, True),
    "expert_compute_efficiency": Prior(0.6, 1.0, True),
    "attention_compute_efficiency": Prior(0.4, 1.0, True),
    "fp8_efficiency": Prior(0.8, 0.7, True),
    "fp4_efficiency": Prior(0.6, 0.7, True),
    "imbalance": Prior(0.3, 1.0, True),
    "half_rows": Prior(64, 1.5),
    "bandwidth_efficiency": Prior(0.75, 1.0, True),
    "expert_bandwidth_efficiency": Prior(0.7, 1.0, True),
    "attention_bandwidth_efficiency": Prior(0.6, 1.0, True),
    "widened_efficiency": Prior(0.75, 0.5, True),
    "link_efficiency": Prior(0.6, 1.0, True),
    "round_s": Prior(5e-6, 0.7),
    "expert_round_s": Prior(1e-5, 0.7),
    "launch_s": Prior(4e-6, 0.7),
    "layer_s": Prior(3e-6, 1.0),
    "expert_layer_s": Prior(3e-5, 1.0),
    "host_s": Prior(5e-4, 0.7),
    "host_sequence_s": Prior(5e-6, 1.0),
    "expert_variety": Prior(0.6, 1.0, True),
    "mixing": Prior(1.0, 0.7),
    "request_s": Prior(2e-2, 0.5),
    "chunk_tokens": Prior(8192, 0.5),
    "queue": Prior(0.7, 0.7),
    "burst": Prior(0.05, 1.0),
    "waiting": Prior(0.5, 1.0, True),
    "tokens_per_step": Prior(1.0, 0.02),
    "prompt_launch_s": Prior(1e-5, 1.5),
    "prompt_factor": Prior(1.0, 0.1),
    "steps_before": Prior(2.0, 0.3),
}
"""The numbers that a fit moves, in order."""
NAMES = tuple(PRIORS)
STARTS = tuple(math.log(p.start / (1 - p.start)) if p.share else math.log(p.start) for p in PRIORS.values())
