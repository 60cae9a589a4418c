"""Rotary position embedding (Su et al. 2021) with the halves of a head as real and imaginary parts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from headway.arithmetic.shape import Rope


@dataclass(frozen=True, slots=True)
class Rotation:
    """Factors for each token: x * cos + swap_halves(x) * sin. Both [T, 1, head_dim]; sin carries the sign."""

    cos: torch.Tensor
    sin: torch.Tensor

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        """x is [T, heads, head_dim]."""
        swapped = torch.roll(x, x.shape[-1] // 2, -1)
        return torch.addcmul(x * self.cos, swapped, self.sin)


def rotation(positions: torch.Tensor, inv_freq: torch.Tensor, dtype: torch.dtype) -> Rotation:
    """Angles are computed in fp32. positions [T], inv_freq [head_dim / 2]."""
    angles = positions.to(torch.float32)[:, None] * inv_freq
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    return Rotation(torch.cat((cos, cos), -1)[:, None], torch.cat((-sin, sin), -1)[:, None])


def inverse_frequencies(rope: Rope, head_dim: int) -> torch.Tensor:
    """Radians per position of each pair, [head_dim / 2] in fp32, after the scaling that the model was trained with."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
    inv_freq = 1.0 / (rope.theta**exponents)
    if rope.scaling == "linear":
        return inv_freq / rope.factor
    if rope.scaling == "llama3":
        return _llama3(inv_freq, rope)
    return inv_freq


def _llama3(inv_freq: torch.Tensor, rope: Rope) -> torch.Tensor:
    """Long wavelengths are stretched by `factor`, short ones kept, those between blended (Llama 3.1 report)."""
    turns = rope.original_max_context * inv_freq / (2 * math.pi)
    keep = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    keep = keep.clamp(0.0, 1.0)
    return (1 - keep) * inv_freq / rope.factor + keep * inv_freq
