"""The energy of one request, from the power that its chips draw: with the prefill, and with what stands around them."""

from __future__ import annotations

from dataclasses import dataclass

from headway.roofline.energy import JOULES_PER_WH

ASSUMPTIONS = (
    "every chip draws `power_w` throughout; a decode step's energy is shared evenly by its batch",
    "decode: one pass over `bytes_per_step` a token; prefill: 2 FLOPs a parameter and prompt token at the peak rate",
    "attention over the context is left out of both",
)


@dataclass(frozen=True, slots=True)
class EnergyReceipt:
    prefill_j: float
    decode_j: float
    overhead: float
    """Factor from chip to wall: cooling, power conversion, hosts, network."""
    assumptions: tuple[str, ...] = ASSUMPTIONS

    @property
    def chip_j(self) -> float:
        return self.prefill_j + self.decode_j

    @property
    def wall_j(self) -> float:
        return self.chip_j * self.overhead

    @property
    def wall_wh(self) -> float:
        return self.wall_j / JOULES_PER_WH

    @property
    def decode_only_wall_wh(self) -> float:
        return self.decode_j * self.overhead / JOULES_PER_WH


def decode_energy_j(
    bytes_per_step: float, bytes_per_s: float, power_w: float, batch: float, output_tokens: int
) -> float:
    return bytes_per_step / bytes_per_s * power_w / batch * output_tokens


def prefill_energy_j(active_params: float, prompt_tokens: int, flops_per_s: float, power_w: float) -> float:
    return 2 * active_params * prompt_tokens / flops_per_s * power_w


def energy_receipt(prefill_j: float, decode_j: float, overhead: float) -> EnergyReceipt:
    """Raises ValueError for an overhead below 1."""
    if overhead < 1:
        raise ValueError(f"the overhead factor from chip to wall must be at least 1, not {overhead}")
    return EnergyReceipt(prefill_j, decode_j, overhead)
