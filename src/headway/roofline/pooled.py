"""Partial pooling: a coefficient is what all machines share, plus what its engine, its chip and so on differ by.

A difference that few measurements speak for stays near 0, and one that none does is 0: a chip that was never measured
is predicted from its datasheet and from what all others share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.roofline.coefficients import NAMES, PRIORS, STARTS

_STEP = NAMES[:19]
_LAUNCHED = ("launch_s", "round_s", "host_s", "host_sequence_s", "prompt_launch_s")
"""What an engine's software decides the most: captured graphs or kernels one by one, overlapped scheduling or not."""
_QUEUED = ("queue", "burst")


@dataclass(frozen=True, slots=True)
class Factor:
    """What configurations differ in (a key of their tags), which coefficients it moves, and how far: the standard
    deviation of a difference, on the scale that the fit works in.
    """

    name: str
    moves: tuple[str, ...]
    deviation: float
    means: Mapping[str, float] = field(default_factory=dict)
    """Where a level's difference is expected, if not at 0."""


FACTORS = (
    Factor("engine", tuple(name for name in _STEP if name not in _LAUNCHED), 0.4),
    Factor("engine", ("mixing", "chunk_tokens", "request_s"), 0.4),
    Factor("engine", _LAUNCHED, 0.5),
    Factor("launching", ("host_s",), 0.5, {"one by one": 4.0}),
    Factor("chip", _STEP, 0.3),
    Factor("engine and chip", _STEP, 0.2),
    Factor("protocol", ("mixing", "waiting"), 0.7),
    Factor("protocol and engine", ("host_s", "host_sequence_s"), 0.5),
    Factor("protocol and engine", ("steps_before",), 0.5, {"InferenceX, trtllm": 1.5, "InferenceX, sglang": 0.7}),
    Factor("client", _QUEUED, 0.7),
    Factor("client", ("request_s",), 0.5, {"NVIDIA-AIC-gap-analysis": 1.2}),
    Factor("mode", ("request_s", "steps_before", *_QUEUED), 1.0),
    Factor("mode", ("host_s", "launch_s", "layer_s", "round_s", "expert_round_s", "expert_layer_s"), 0.3),
    Factor("engine and mode", _QUEUED, 0.7),
    Factor("release", ("request_s", "host_s"), 0.15),
    Factor("speculation", ("tokens_per_step",), 1.0),
    Factor("drafts", ("tokens_per_step",), 0.2, {"unstated": 0.2}),
)
"""`launching`: engines that launch kernels one by one, the host then being the slower; `protocol`: who measured, and
with the engine on whose hosts and how launched: InferenceX has TensorRT-LLM answer every 10 or 20 steps
(`stream_interval`); `client`: how requests arrived there, NVIDIA's taking some 0.1 s outside of any step; `mode`:
prompts mixed in, computed apart, or one batch alone; `release`: the engine's version; `drafts`: whether it is unstated
if tokens were drafted: two in five of InferenceX's runs draft three, which makes them some 1.6 times as fast;
`speculation`: release and mode, where that is so.
"""
Tags = Mapping[str, str]
"""A configuration's level of each factor; what is left out is a level never seen."""


@dataclass(frozen=True, slots=True)
class Pooled:
    """`shared` [J] and, by factor and level, what that level differs by [J], on the scale that the fit works in."""

    shared: FloatArray
    differences: Mapping[tuple[str, str], FloatArray] = field(default_factory=dict)

    def resolved(self, tags: Sequence[Tags]) -> dict[str, FloatArray]:
        """[N] by coefficient."""
        scale = np.tile(self.shared, (len(tags), 1))
        for row, tag in zip(scale, tags, strict=True):
            for pair in tag.items():
                if pair in self.differences:
                    row += self.differences[pair]
        return natural(scale)


def unfitted() -> Pooled:
    return Pooled(np.array(STARTS))


def natural(scale: FloatArray) -> dict[str, FloatArray]:
    """[N, J] on the fit's scale -> [N] by coefficient: log odds for shares, logarithms for all else."""
    bounded = np.clip(scale, -40, 40)
    return {
        name: 1 / (1 + np.exp(-bounded[:, j])) if PRIORS[name].share else np.exp(bounded[:, j])
        for j, name in enumerate(NAMES)
    }
