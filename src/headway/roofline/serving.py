"""From steps to what a user sees: TPOT and TTFT of an engine that serves a steady number of requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from headway.arithmetic.experts import FloatArray
from headway.roofline.terms import WIDENED, Indices, Terms, experts_left, most_read, side_by_side

Values = Mapping[str, FloatArray]
"""[N] or scalar, by the coefficient's name."""
Flags = npt.NDArray[np.bool_]
IN_STEPS = (
    "compute_efficiency",
    "expert_compute_efficiency",
    "attention_compute_efficiency",
    "fp8_efficiency",
    "fp4_efficiency",
    "imbalance",
    "expert_variety",
    "half_rows",
    "bandwidth_efficiency",
    "expert_bandwidth_efficiency",
    "attention_bandwidth_efficiency",
    "widened_efficiency",
)
"""Coefficients that the time of operations depends on; all others only weigh sums of it."""


@dataclass(frozen=True, slots=True)
class Served:
    """N served configurations, [N] each."""

    decode: Terms
    """A decode step of all requests that have room, at the mean of their lengths."""
    prompt: Terms
    """A step that computes one prompt."""
    prompts: Terms
    """One that computes a prompt for each group of `prompts_each`, as a busy engine does."""
    prompts_each: FloatArray
    in_flight: FloatArray
    waiting: FloatArray
    """Requests that find no room."""
    prompt_tokens: FloatArray
    output_tokens: FloatArray
    first: Flags
    """True: TTFT is asked, else TPOT."""
    alone: Flags
    """One batch that starts together, with no other requests."""
    unmixed: Flags
    """No prompts ride in the steps that TPOT is of."""
    unseen_steps: FloatArray
    """Decode steps that pass until an engine looks at a new request, where it does not at each."""
    waits_for_host: Flags
    """The device stands still while the next step is scheduled."""

    def __len__(self) -> int:
        return len(self.in_flight)

    def take(self, rows: Indices) -> Served:
        decode, prompt, prompts = (part.take(rows) for part in (self.decode, self.prompt, self.prompts))
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return Served(decode, prompt, prompts, **columns)


_COLUMNS = tuple(field.name for field in fields(Served))[3:]


def joined(parts: Sequence[Served]) -> Served:
    """One after the other."""
    steps = (side_by_side([getattr(part, name) for part in parts]) for name in ("decode", "prompt", "prompts"))
    decode, prompt, prompts = steps
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    return Served(decode, prompt, prompts, **columns)


@dataclass(frozen=True, slots=True)
class Busy:
    """Seconds that operations of the three steps take, nothing else, [N] each."""

    decode_s: FloatArray
    prompt_s: FloatArray
    prompts_s: FloatArray


def busy(s: Served, c: Values) -> Busy:
    return Busy(operations_s(s.decode, c), operations_s(s.prompt, c), operations_s(s.prompts, c))


def operations_s(t: Terms, c: Values) -> FloatArray:
    """[N]: each operation takes the longer of its compute and its memory time, one after the other."""

    def by_kind(*names: str) -> FloatArray:
        columns = np.stack([np.broadcast_to(c[name], len(t)) for name in names], -1)
        return np.take_along_axis(columns, t.kind, 1)

    one = np.ones(len(t))
    fp8, fp4 = (np.broadcast_to(c[name], len(t)) for name in ("fp8_efficiency", "fp4_efficiency"))
    reached = by_kind("compute_efficiency", "expert_compute_efficiency", "attention_compute_efficiency")
    reached = reached * np.take_along_axis(np.stack([one, fp8, fp4, fp8, one], -1), t.rate, 1)
    asked = 1 + c["imbalance"] * t.spread
    filled, experts_filled = (n / (n + c["half_rows"]) for n in (t.rows, asked * t.expert_rows))
    reached = reached * np.choose(t.kind, (filled[:, None], experts_filled[:, None], one[:, None]))
    memory = by_kind("bandwidth_efficiency", "expert_bandwidth_efficiency", "attention_bandwidth_efficiency")
    widened = np.broadcast_to(c["widened_efficiency"], len(t))
    memory = memory * np.where(t.rate == WIDENED, widened[:, None], 1.0)
    left = experts_left(t.tokens, t.missed, c["expert_variety"])
    busiest = np.where(t.kind == 1, asked[:, None], 1.0)
    read = np.where(t.kind == 1, np.minimum(asked * left, most_read(t.tokens, t.missed))[:, None], 1.0)
    return np.asarray(np.maximum(busiest * t.compute_s / reached, read * t.memory_s / memory).sum(1))


def served_s(s: Served, c: Values, b: Busy | None = None) -> FloatArray:
    """[N] seconds of the metric asked.

    In a steady state each request that decodes `output_tokens` sees as many other prompts begin as there are other
    requests, so each of its steps carries (n - 1) / output_tokens prompts on the average, as far as a step takes them
    in and unless they are computed elsewhere. Its first token waits for the step under way and what else
    grows with steps, for the prompts before it, and for its own.
    """
    b = b or busy(s, c)
    others = np.maximum(s.in_flight - 1, 0)
    host_s = c["host_s"] + c["host_sequence_s"] * s.decode.sequences
    step_s = _stepped_s(s, b.decode_s + _around_s(s.decode, c), host_s)
    launched_s = c["prompt_launch_s"] * s.prompt.launches
    prompt_s = c["prompt_factor"] * _stepped_s(s, b.prompt_s + _around_s(s.prompt, c) + launched_s, c["host_s"])
    prompts_s = c["prompt_factor"] * (b.prompts_s + _network_s(s.prompts, c)) / s.prompts_each
    wanted_s = c["mixing"] * others / s.output_tokens * prompts_s
    most_s = c["chunk_tokens"] / s.prompt_tokens * prompts_s
    mixed_s = np.where(s.unmixed, 0.0, wanted_s / np.hypot(1.0, wanted_s / most_s))
    tpot_s = step_s / c["tokens_per_step"] + mixed_s
    decode_s = s.output_tokens * tpot_s
    before_s = _queue_s(c["queue"] * prompts_s, others, decode_s) + c["burst"] * others * prompts_s
    room_s = c["waiting"] * s.waiting / s.in_flight * decode_s
    ttft_s = prompt_s + np.where(
        s.alone, 0.0, c["request_s"] + (c["steps_before"] + s.unseen_steps) * step_s + before_s + room_s
    )
    return np.where(s.first, ttft_s, tpot_s)


def _stepped_s(s: Served, device_s: FloatArray, host_s: FloatArray) -> FloatArray:
    return np.where(s.waits_for_host, device_s + host_s, beside(device_s, host_s))


def beside(device_s: FloatArray, host_s: FloatArray) -> FloatArray:
    """Of a step whose host works while the device does: neither hides the other in full, and the longer one rules."""
    return np.asarray(np.hypot(device_s, host_s))


def _queue_s(service_s: FloatArray, others: FloatArray, away_s: FloatArray) -> FloatArray:
    """Wait at a server that n = others + 1 requests come back to `away_s` after they were served: a closed queue in
    Schweitzer's approximation, response = service (1 + others response / (response + away)), solved for the response.
    """
    half = (away_s - service_s * (1 + others)) / 2
    return np.asarray(np.sqrt(half**2 + service_s * away_s) - half - service_s)


def _network_s(t: Terms, c: Values) -> FloatArray:
    waits_s = t.rounds * c["round_s"] + t.expert_rounds * c["expert_round_s"]
    return np.asarray(t.network_s / c["link_efficiency"] + waits_s)


def _around_s(t: Terms, c: Values) -> FloatArray:
    layers_s = t.layers * c["layer_s"] + t.expert_layers * c["expert_layer_s"]
    return _network_s(t, c) + t.launches * c["launch_s"] + layers_s
