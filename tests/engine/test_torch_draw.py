"""The generator behind draws: known answers, uniformity, and dependence on seed and position alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.engine.draw import philox4x32, seed_bits, uniforms


def words(*values: int):
    return tuple(np.array([v], np.uint64) for v in values)


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers_of_random123(counter, key, answer):
    assert tuple(int(w[0]) for w in philox4x32(words(*counter), words(*key))) == answer


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**40)), min_size=1, max_size=20))
def test_a_draw_does_not_depend_on_its_company(pairs):
    seeds = np.array([seed for seed, _ in pairs], np.uint64)
    positions = np.array([position for _, position in pairs], np.int64)
    together = uniforms(seeds, positions)
    alone = [uniforms(seeds[i : i + 1], positions[i : i + 1])[0] for i in range(len(pairs))]
    assert together.tolist() == alone
    assert ((together >= 0) & (together < 1)).all()


def test_uniform_over_positions_and_over_seeds():
    n, bins = 20_000, 50
    for seeds, positions in (
        (np.full(n, 7, np.uint64), np.arange(n)),
        (np.arange(n, dtype=np.uint64), np.full(n, 7)),
    ):
        counts = np.histogram(uniforms(seeds, positions), bins, (0, 1))[0]
        chi2 = ((counts - n / bins) ** 2 / (n / bins)).sum()
        assert 20 < chi2 < 100  # 49 degrees of freedom: beyond one in ten thousand on either side


def test_seeds_of_any_size():
    assert seed_bits(-1) == 2**64 - 1
    assert seed_bits(2**64 + 5) == 5
