"""Number formats: how many bytes a count of values takes, block scales included."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.layers import ShapeError
from headway.arithmetic.matrices import Part

Rate = Literal["bf16", "fp8", "fp4", "int8"]
"""Which of a chip's arithmetic rates a multiplication runs at."""


@dataclass(frozen=True, slots=True)
class Format:
    """Each `block` values of `bits` bits share scales (and zero points) of `scale_bits` bits together."""

    name: str
    bits: int
    block: int = 1
    scale_bits: int = 0

    @property
    def bits_per_value(self) -> float:
        return self.bits + self.scale_bits / self.block

    def size_bytes(self, values: int) -> int:
        """Exact; a last partial block is stored in proportion and the sum rounded up to a byte."""
        return -(-values * (self.bits * self.block + self.scale_bits) // (8 * self.block))

    def array_bytes(self, values: FloatArray) -> FloatArray:
        return values * (self.bits_per_value / 8)


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("fp32", 32),
        Format("bf16", 16),
        Format("fp16", 16),
        Format("fp8", 8),
        Format("fp8_block128", 8, 128 * 128, 32),  # One fp32 scale for a tile of 128 x 128, as DeepSeek V3 ships.
        Format("int8", 8),
        Format("int4", 4, 128, 16),
        Format("int4_zero", 4, 128, 16 + 4),
        Format("nf4", 4, 64, 32),
        Format("nf4_double", 4, 64 * 256, 256 * 8 + 32),  # Scales of 64 values in 8 bits, 256 of them sharing one.
        Format("mxfp8", 8, 32, 8),  # OCP MX: an 8-bit exponent for 32 values.
        Format("mxfp4", 4, 32, 8),
        Format("nvfp4", 4, 16, 8),  # An fp8 scale for 16 values; the fp32 scale of the whole tensor is left out.
        Format("q8_0", 8, 32, 16),
        Format("q4_0", 4, 32, 16),
        Format("q4_1", 4, 32, 32),
    )
}


_GROUPED = re.compile(r"int([2-8])_group([1-9]\d{0,5})(_zero)?")


def number_format(name: str) -> Format:
    """Raises ShapeError, listing what there is."""
    if name in FORMATS:
        return FORMATS[name]
    if match := _GROUPED.fullmatch(name):
        bits = int(match[1])
        return Format(name, bits, int(match[2]), 16 + (bits if match[3] else 0))
    raise ShapeError(
        f"number format {name!r} is not known; known: {', '.join(FORMATS)}, and as int4_group32 or int8_group64_zero: "
        "whole numbers of 2 to 8 bits with a scale (and a zero) for each group of so many"
    )


_QUANTISED: tuple[Part, ...] = ("attention", "feed_forward", "shared_experts")


@dataclass(frozen=True, slots=True)
class Precision:
    """What is stored and multiplied in which format. Router and norms stay in `small`, and what chips send."""

    weights: Format = FORMATS["bf16"]
    kv: Format = FORMATS["bf16"]
    activations: Format = FORMATS["bf16"]
    experts: Format | None = None
    """Routed experts, where they differ from `weights`."""
    tables: Format = FORMATS["bf16"]
    """Embedding and head."""
    small: Format = FORMATS["bf16"]
    state: Format = FORMATS["fp32"]
    rate: Rate = "bf16"
    expert_rate: Rate | None = None
    attention_rate: Rate = "bf16"

    @property
    def named(self) -> str:
        """Of the weights, in words: the experts' too where it is another."""
        if self.experts is None or self.experts == self.weights:
            return self.weights.name
        return f"{self.weights.name}, experts {self.experts.name}"

    @property
    def kept(self) -> str:
        """In words: what is not in the format of the weights."""
        if self.tables == self.small:
            return f"embedding, head, router and norms are stored in {self.small.name}"
        return f"router and norms are stored in {self.small.name}"

    def of(self, part: Part) -> Format:
        if part == "experts":
            return self.experts or self.weights
        if part in ("embedding", "head"):
            return self.tables
        return self.weights if part in _QUANTISED else self.small

    def rate_of(self, part: Part) -> Rate:
        if part == "experts":
            return self.expert_rate or self.rate
        return self.rate if part in _QUANTISED else "bf16"


_RATES: dict[str, Rate] = {
    "fp8": "fp8",
    "fp8_block128": "fp8",
    "mxfp8": "fp8",
    "int8": "int8",
    "mxfp4": "fp4",
    "nvfp4": "fp4",
}
"""All others are widened first and multiplied at the bf16 rate."""
_OF_TABLES_TOO = ("q8_0", "q4_0", "q4_1")
"""Those of GGUF files, which quantise embedding and head as well."""


def precision(weights: str = "bf16", kv: str = "bf16", experts: str | None = None) -> Precision:
    """By format names; `experts` where the routed ones differ. Activations go with the expert's (or the weights') rate:
    fp8 where that is fp8 or fp4. Raises ShapeError for an unknown name.
    """
    fmt, expert_fmt = number_format(weights), number_format(experts or weights)
    wide = fmt.bits > 16
    rate, expert_rate = _RATES.get(weights, "bf16"), _RATES.get(experts or weights, "bf16")
    return Precision(
        weights=fmt,
        kv=number_format(kv),
        activations=FORMATS["fp8"] if expert_rate in ("fp8", "fp4") else FORMATS["bf16"],
        experts=expert_fmt,
        tables=fmt if wide or weights in _OF_TABLES_TOO else FORMATS["bf16"],
        small=fmt if wide else FORMATS["bf16"],
        rate=rate,
        expert_rate=expert_rate,
    )
