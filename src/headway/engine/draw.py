"""The uniform number behind a draw: a pure function of (request seed, position), by a counter-based generator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headway.scheduler.contract import Ints

Words = npt.NDArray[np.uint64]
"""32-bit words, held in 64 bits so that products don't overflow."""

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_MASK = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ROUNDS = 10


def philox4x32(counter: tuple[Words, Words, Words, Words], key: tuple[Words, Words]) -> tuple[Words, ...]:
    """Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011); arrays of one shape."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (p1 >> _SHIFT) ^ c1 ^ k0, p1 & _MASK, (p0 >> _SHIFT) ^ c3 ^ k1, p0 & _MASK
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def uniforms(seeds: Words, positions: Ints) -> npt.NDArray[np.float64]:
    """One number in [0, 1) with 53 random bits for each (64-bit seed, position)."""
    places = positions.astype(np.uint64)
    zeros = np.zeros_like(places)
    high, low, *_ = philox4x32((places & _MASK, places >> _SHIFT, zeros, zeros), (seeds & _MASK, seeds >> _SHIFT))
    bits = (high << np.uint64(21)) | (low >> np.uint64(11))
    return bits.astype(np.float64) * 2.0**-53


def seed_bits(seed: int) -> int:
    """Any integer as 64 bits, negative ones in two's complement."""
    return seed & (2**64 - 1)
