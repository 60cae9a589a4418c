"""Pools that only prefill and pools that only decode: who gets what, and when KV arrives."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cli.simulate import simulate
from headway.scheduler.config import CacheGroup
from headway.simulator.faults import Fault
from headway.simulator.fleet import Fleet, FleetConfig
from headway.simulator.handover import Parcel, Port
from headway.simulator.pools import Pool
from headway.simulator.trace_file import TraceFile
from headway.simulator.trace_out import TraceOut
from headway.workload.call import Workload, WorkloadError

from .drive import MS, Outcome, PlainTime, config, lone, run, run_fleet
from .strategies import workloads

EXAMPLES = settings(max_examples=60, deadline=None)
TOKEN_BYTES = 100
LAYERS = 4
FLAT = PlainTime(token_ns=0, attended_ns=0, gap_ns=0)
ENDLESS = Port(float("inf"))


def split(port: Port = ENDLESS, jumps: bool = True, prefills: int = 1, decodes: int = 1, **changes) -> FleetConfig:
    """`changes` of the scheduler of those that decode."""
    time = changes.pop("time", PlainTime())
    timeout_ns = changes.pop("transfer_timeout_ns", 2_000_000_000)
    scheduler = config(late_blocks=jumps, transfer_timeout_ns=timeout_ns)
    decoder = config(changes.pop("num_blocks", 64), late_blocks=jumps, transfer_timeout_ns=timeout_ns, **changes)
    context = min(scheduler.max_context, decoder.max_context)
    pools = (
        Pool(prefills, replace(scheduler, max_context=context), time, role="prefill", port=port),
        Pool(decodes, replace(decoder, max_context=context), time, role="decode", port=port),
    )
    return FleetConfig(pools, "least-work", jumps=jumps, parcel=Parcel(lambda tokens: tokens * TOKEN_BYTES, LAYERS))


fleets = st.fixed_dictionaries(
    {
        "time": st.sampled_from([PlainTime(), FLAT]),  # FLAT: much happens in the same nanosecond.
        "port": st.sampled_from([ENDLESS, Port(1e6, 0.0001), Port(3e4), Port(1e3)]),
        "prefills": st.integers(1, 2),
        "decodes": st.integers(1, 3),
        "num_blocks": st.sampled_from([48, 52, 200]),
        "max_running": st.sampled_from([1, 3, 8]),
        "transfer_timeout_ns": st.sampled_from([1_000_000, 50_000_000, 2_000_000_000]),
    }
)


def inboxes(outcome: Outcome):
    return [backend.inbox for backend in outcome.fleet.backends if backend.inbox is not None]


@given(workloads(), fleets)
@EXAMPLES
def test_jumps_change_nothing(workload: Workload, chosen) -> None:
    stepped, jumped = (run_fleet(workload, split(jumps=jumps, **chosen)) for jumps in (False, True))
    assert jumped.times() == stepped.times()
    for a, b in zip(stepped.fleet.replicas, jumped.fleet.replicas, strict=True):
        assert (a.executor.device_ns, a.executor.host_ns) == (b.executor.device_ns, b.executor.host_ns)
        assert (a.executor.gaps.num, a.executor.gaps.total_ns) == (b.executor.gaps.num, b.executor.gaps.total_ns)


@given(workloads(), fleets)
@EXAMPLES
def test_calls_tokens_blocks_and_bytes_are_conserved(workload: Workload, chosen) -> None:
    outcome = run_fleet(workload, split(**chosen), check=True)
    asked = {call.id: call for session in workload.sessions for call in session}
    assert sorted(r.call.id for r in outcome.records) == sorted(asked)
    for record in outcome.records:
        if record.ok:
            assert record.receipt.tokens_generated == asked[record.call.id].num_output_tokens
        assert record.refused or record.receipt.queue_ns + record.receipt.prefill_ns + record.receipt.decode_ns == (
            record.e2e_ns
        )
        assert record.receipt.tokens_reused <= record.call.num_input_tokens
        assert 0 <= (record.handover_ns or 0) <= record.receipt.decode_ns
        if record.ok:
            assert outcome.fleet.backends[record.prefill_replica].role == "prefill"
            assert (record.handover_ns is None) == (record.receipt.tokens_generated == 1)
    for replica in outcome.fleet.replicas:
        replica.scheduler.check()
        assert replica.scheduler.is_idle
        assert replica.scheduler.stats().blocks_used == 0
        assert not replica.executor.expected
    for inbox in inboxes(outcome):
        assert not inbox._promises
        assert not inbox.end.under_way


@given(workloads(), fleets)
@EXAMPLES
def test_receipts_add_up_in_each_pool(workload: Workload, chosen) -> None:
    outcome = run_fleet(workload, split(**chosen))
    charged: Counter[int] = Counter()
    for record in outcome.records:
        charged.update(dict(record.charged_ns))
    for pool in (0, 1):
        executors = [backend.replica.executor for backend in outcome.fleet.of_pool(pool)]
        assert charged[pool] == sum(e.device_ns + e.host_ns for e in executors)


@given(workloads())
@EXAMPLES
def test_over_an_endless_link_tokens_are_those_of_one_replica(workload: Workload) -> None:
    """And each answer has its gaps: one less than tokens, whichever replicas they came from."""
    apart, together = run_fleet(workload, split(num_blocks=200)), run(workload, config(64))
    tokens = [{r.call.id: (r.reason, r.receipt.tokens_generated) for r in o.records} for o in (apart, together)]
    assert tokens[0] == tokens[1]
    gaps = [sum(replica.executor.gaps.num for replica in o.fleet.replicas) for o in (apart, together)]
    assert gaps[0] == gaps[1]


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(2, 20)), min_size=1, max_size=8))
@EXAMPLES
def test_no_split_is_free_of_bytes(lengths: list[tuple[int, int]]) -> None:
    """Where no two prompts have anything in common, every whole block of every prompt is moved, once."""
    calls = [(0.05 * i, num_input, num_output) for i, (num_input, num_output) in enumerate(lengths)]
    outcome = run_fleet(lone(*calls), split(Port(1e6), num_blocks=200))
    moved = sum(inbox.received_bytes for inbox in inboxes(outcome))
    assert moved == sum(num_input // 4 * 4 * TOKEN_BYTES for num_input, _ in lengths)
    for record in outcome.records:
        computed = record.call.num_input_tokens + record.call.num_input_tokens % 4 + record.receipt.tokens_generated - 1
        assert record.receipt.tokens_computed == computed, "beside the prompt, what is in no whole block, and decodes"


@pytest.mark.parametrize(
    ("bytes_per_s", "seen_ms"),
    [
        (float("inf"), 0),
        (3.2e6, 0.25),  # T = 1 ms, the prefill takes 2: a quarter, of the last layer, is seen
        (0.4e6, 6.5),  # T = 8 ms: all but the 1.5 ms that it could begin before
    ],
)
def test_layers_go_out_while_the_prompt_is_computed(bytes_per_s: float, seen_ms: float) -> None:
    """latency + max(T / n, T - D (n - 1) / n), n = 4, D = 2 ms, for 32 tokens of 100 bytes."""
    outcome = run_fleet(lone((0, 33, 3)), split(Port(bytes_per_s, 0.0003), time=FLAT))
    (record,) = outcome.records
    assert record.receipt.ttft_ns == 2 * MS
    assert record.handover_ns == round(seen_ms * MS) + 300_000
    assert record.receipt.decode_ns == 2 * MS + record.handover_ns
    assert (record.prefill_replica, record.replica) == (0, 1)


def test_what_is_sent_to_one_replica_goes_one_after_another() -> None:
    calls = [(0, 33, 2), (0, 33, 2)]
    outcome = run_fleet(lone(*calls), split(Port(0.4e6), prefills=2, time=FLAT))
    first, second = (record.receipt.decode_ns for record in outcome.records)
    assert (first, second) == (MS + 6.5 * MS, MS + 14.5 * MS)
    assert [record.handover_ns for record in outcome.records] == [6.5 * MS, 14.5 * MS]


def test_the_wait_for_a_seat_is_part_of_the_hand_over() -> None:
    first, second = run_fleet(lone((0, 33, 11), (0, 33, 3)), split(max_running=1, prefills=2, time=FLAT)).records
    assert (first.handover_ns, second.handover_ns) == (0, 10 * MS)


def test_where_nothing_is_split_nothing_is_said_of_it() -> None:
    (record,) = run(lone((0, 33, 3))).records
    assert (record.prefill_replica, record.handover_ns) == (None, None)


def test_a_link_that_is_too_slow_is_not_waited_for() -> None:
    outcome = run_fleet(lone((0, 33, 3)), split(Port(10.0), transfer_timeout_ns=5 * MS, time=FLAT))
    (record,) = outcome.records
    assert record.receipt.decode_ns == 5 * MS + 3 * MS, "it waits 5 ms, computes 34 tokens in two steps, decodes"
    assert record.receipt.tokens_computed == 33 + 34 + 1


def test_an_answer_of_one_token_is_not_handed_over() -> None:
    outcome = run_fleet(lone((0, 33, 1)), split())
    assert (outcome.records[0].replica, inboxes(outcome)[0].received_bytes) == (0, 0)


def test_mixed_replicas_beside_split_ones_keep_their_calls() -> None:
    halves = split(num_blocks=200)
    both = replace(halves, pools=(*halves.pools, Pool(1, config(max_context=200), PlainTime())), router="round-robin")
    records = run_fleet(lone(*[(0.01 * i, 20, 5) for i in range(6)]), both).records
    assert [r.replica for r in records] == [1, 2, 1, 2, 1, 2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"role": "mixed"}, "need each other"),
        ({"port": None}, "needs a link"),
        ({"scheduler": config(prefix_caching=False)}, "needs one"),
        ({"scheduler": config(groups=(CacheGroup("full", 64), CacheGroup("state", 8)))}, "constant states"),
    ],
)
def test_pools_that_cannot_hand_over_are_refused(changes, said: str) -> None:
    prefill, decode = split().pools
    with pytest.raises(WorkloadError, match=said):
        replace(split(), pools=(prefill, replace(decode, **changes)))


# The command

SPLIT = ("--pool", "replicas=2,role=prefill", "--pool", "role=decode")
LOAD = ("--requests", "40", "--rate", "20", "--input-tokens", "1000", "--output-tokens", "20")


def answer(*arguments: str):
    result = CliRunner().invoke(simulate, (*LOAD, *arguments, "--json"))
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_bytes_are_those_of_the_models_kv() -> None:
    """llama-3.1-8b keeps 128 KiB a token; whole blocks of 16 are moved."""
    found = answer(*SPLIT, "--no-prefix-cache")
    assert found["handed_over_bytes"] == found["pools"][1]["received_bytes"] == 40 * 992 * 131_072
    assert [pool["role"] for pool in found["pools"]] == ["prefill", "decode"]
    assert found["input_tokens"] == 40_000, "counted once"
    assert found["output_tokens"] == 800
    assert found["charged_s"] == pytest.approx(found["busy_s"])
    assert answer()["handed_over_bytes"] == 0


def test_a_slower_link_is_seen_after_the_first_token_only() -> None:
    fast, slow = (answer(*SPLIT, "--handover-bandwidth", bandwidth) for bandwidth in ("1TB", "1GB"))
    assert fast["ttft_s"] == slow["ttft_s"]
    assert slow["tpot_s"]["mean"] > fast["tpot_s"]["mean"] + 0.1 / 19, "131 MB take 0.13 s"
    late = answer(*SPLIT, "--handover-latency", "0.5")
    assert late["tpot_s"]["p50"] == pytest.approx(0.5 / 19, rel=0.5)


def test_the_table_says_who_prefilled_and_how_long_the_hand_over_took(tmp_path: Path) -> None:
    out = tmp_path / "calls.parquet"
    answer(*SPLIT, "--handover-bandwidth", "1GB", "--out", str(out))
    table = pq.read_table(out).to_pydict()
    assert set(table["prefill_replica"]) == {0, 1}
    assert set(table["replica"]) == {2}
    assert min(table["handover_s"]) > 0.1, "131 MB take 0.13 s"
    assert all(wait < took for wait, took in zip(table["handover_s"], table["decode_s"], strict=True))
    answer("--out", str(out))
    assert {*pq.read_table(out)["prefill_replica"].to_pylist(), *pq.read_table(out)["handover_s"].to_pylist()} == {None}


def test_the_picture_shows_the_hand_over_from_its_first_layer_on(tmp_path: Path) -> None:
    """As above: of a prefill of 2 ms the first of 4 layers is there after 0.5; the 8 ms on the link begin then."""
    path = tmp_path / "t.json"
    with TraceFile(path, 1000) as file:
        out = TraceOut(file)
        Fleet(split(Port(0.4e6, 0.0003), time=FLAT), out.recorded, out).run(lone((0, 33, 3)))
    events = json.loads(path.read_bytes())["traceEvents"]
    spans = {(e["name"], e["ph"]): e["ts"] / 1000 for e in events if e.get("cat") in ("transfer", "request")}
    assert (spans["load from handover", "b"], spans["load from handover", "e"]) == (0.5, pytest.approx(8.8))
    phases = [spans[name, end] for name in ("prefill", "hand-over", "decode") for end in "be"]
    assert phases == pytest.approx([0, 2, 2, 8.8, 8.8, 10.8])


def test_what_broke_off_before_it_went_out_is_no_time_in_the_picture(tmp_path: Path) -> None:
    """The second hand-over waits for the first when the link fails."""
    path = tmp_path / "t.json"
    fleet = replace(split(Port(0.1e6), time=FLAT), faults=(Fault("handover", 0.006, 1.0),))
    with TraceFile(path, 1000) as file:
        out = TraceOut(file)
        Fleet(fleet, out.recorded, out).run(lone((0, 33, 3), (0, 33, 3)))
    events = [e for e in json.loads(path.read_bytes())["traceEvents"] if e.get("cat") == "transfer"]
    ends = {e["id"]: e["ts"] for e in events if e["ph"] == "e"}
    begins = {e["id"]: e["ts"] for e in events if e["ph"] == "b"}
    assert sorted(ends[id] - begins[id] > 0 for id in begins) == [False, True]
    assert all(ends[id] == 6000 and begins[id] <= 6000 for id in begins)


def test_text_tells_what_was_received() -> None:
    text = CliRunner().invoke(simulate, (*LOAD, *SPLIT)).output
    assert "on 2 x 1 h100-sxm to prefill and 1 x 1 h100-sxm to decode" in text
    assert "5.2 GB of KV received" in text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--pool", "role=prefill"), "need each other"),
        (("--pool", "role=prefill,kv=fp8", "--pool", "role=decode"), "pools cannot keep it as bf16 and fp8"),
        (("--pool", "role=prefill", "--pool", "role=decode,model=qwen3-8b"), "pools with a role must have one model"),
        (("--handover-bandwidth", "1GB"), "are of pools with role=prefill and role=decode"),
        (("--pool", "role=both"), "role: 'both' is not one of 'mixed', 'prefill', 'decode'"),
        ((*SPLIT, "--system", "m4-max-node"), "no link"),
    ],
)
def test_what_cannot_hand_over_gets_one_line(arguments: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(simulate, ("--requests", "5", *arguments))
    assert result.exit_code in (1, 2)
    assert said in " ".join(result.output.split())


@pytest.mark.parametrize("eighth", range(1, 8))
def test_a_call_that_comes_back_to_a_replica_ends_where_its_answer_does(eighth: int) -> None:
    """Its old slot is not given back there before the next plan."""
    whole = run_fleet(lone((0.0, 9, 3)), split(time=FLAT)).records[0]
    fault = Fault("replica", whole.end_ns * eighth / 8e9, 1e-6, 1)
    (record,) = run_fleet(lone((0.0, 9, 3)), replace(split(time=FLAT), faults=(fault,))).records
    assert (record.reason, record.receipt.tokens_generated) == ("stop", 3)
