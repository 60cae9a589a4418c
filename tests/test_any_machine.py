"""The same tests pass on a machine that is slow or busy."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=1)
@given(st.just(0.3))
def test_no_law_has_a_deadline(example_s: float) -> None:
    time.sleep(example_s)
