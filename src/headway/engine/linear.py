"""A matrix product with fixed weights, in the layout that the device multiplies fastest."""

from __future__ import annotations

from functools import cache

import torch
from torch.nn import functional


class Linear:
    """x [N, in] to [N, out]: x @ weight.T + bias.

    `packed` reorders the weight into oneDNN's own blocks, once. On CPUs this reads weights at memory bandwidth for one
    row as for thirty; the plain product of a few fp32 rows is several times slower.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, *, packed: bool) -> None:
        """`weight` is [out, in]; it is not kept when packed."""
        self._bias = bias
        self._packed = packed
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, None) if packed else weight

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._packed:
            out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, "none", [], "")
            return out
        return functional.linear(x, self._weight, self._bias)


@cache
def can_pack(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether packed products work here: these operators are PyTorch's own, but not part of its public interface."""
    if device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    weight = torch.linspace(-1, 1, 64 * 32).view(64, 32).to(dtype)
    x = torch.linspace(-1, 1, 3 * 32).view(3, 32).to(dtype)
    try:
        packed = Linear(weight, None, packed=True)(x)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return torch.allclose(packed.float(), functional.linear(x, weight).float(), rtol=0.05, atol=1e-3)
