"""Random numbers by purpose: drawing more for one purpose, or adding one, leaves all others as they were."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np


class Streams:
    def __init__(self, seed: int) -> None:
        self.seed = seed

    def of(self, purpose: str) -> np.random.Generator:
        """A generator that depends on the seed and on this name only; a second call starts it anew."""
        name = int.from_bytes(blake2b(purpose.encode(), digest_size=16).digest(), "little")
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([self.seed, name])))
