"""Hypothesis strategies: every new feature of the brain joins the fuzz here."""

from __future__ import annotations

from hypothesis import strategies as st

from headway.scheduler.config import CacheGroup, SchedulerConfig, Speculation, Tier

groups = st.sampled_from(
    [
        (CacheGroup("full", 20),),
        (CacheGroup("full", 60),),
        (CacheGroup("full", 20), CacheGroup("window", 30, window=6)),
        (CacheGroup("window", 24, window=9),),
        (CacheGroup("full", 24), CacheGroup("state", 3)),
    ]
)

tiers = st.sampled_from([(), (Tier("dram", 30),), (Tier("dram", 9, ttl_ns=9_000), Tier("ssd", 30), Tier("far", 90))])

configs = st.builds(
    SchedulerConfig,
    groups=groups,
    block_size=st.sampled_from([2, 4]),
    max_running=st.integers(1, 5),
    max_step_tokens=st.integers(5, 24),
    max_context=st.just(64),
    max_queued_requests=st.just(12),
    prefix_caching=st.booleans(),
    batching=st.sampled_from(["continuous", "continuous", "static"]),
    reservation=st.sampled_from(["demand", "demand", "worst_case"]),
    tiers=tiers,
    kv_ttl_ns=st.sampled_from([None, None, 3_000]),
    transfer_timeout_ns=st.sampled_from([5_000, 1_000_000]),
    speculation=st.one_of(st.none(), st.builds(Speculation, max_depth=st.integers(1, 6), max_step_drafts=st.just(8))),
)

_pieces = st.lists(st.sampled_from([[11, 12, 13, 14], [21, 22], [1, 2, 3, 4, 5], [31]]), min_size=1, max_size=8)
prompts = _pieces.map(lambda pieces: [token for piece in pieces for token in piece])
"""Prompts made of few pieces, so that prefixes are shared often and prompt lookup finds something."""
