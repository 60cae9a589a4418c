"""Trace events of a run: they add up to it, fit into each other, and are written whole or not at all."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.cli.simulate import simulate
from headway.simulator.fleet import Fleet, FleetConfig
from headway.simulator.pools import Pool
from headway.simulator.record import Record
from headway.simulator.tier_memory import TierMemory
from headway.simulator.trace_file import TraceFile
from headway.simulator.trace_out import TraceOut, process
from headway.workload.call import Workload, WorkloadError
from tests.scheduler.drive import Drive, request
from tests.scheduler.drive import config as real_config
from tests.simulator.drive import KV_BLOCK_BYTES, PlainTime, config, lone, run
from tests.simulator.strategies import SLOW, workloads

AZURE = str(Path(__file__).parents[1] / "data" / "traces" / "azure_conv.csv")
ROUNDING_US = 1e-3


def observed(
    workload: Workload, path: Path, replicas: int = 1, limit: int = 1_000_000, tiers: tuple[TierMemory, ...] = ()
) -> tuple[list[Record], Fleet]:
    records: list[Record] = []
    with TraceFile(path, limit) as file:
        out = TraceOut(file)

        def on_record(record: Record) -> None:
            records.append(record)
            out.recorded(record)

        scheduler = config(tiers=tuple(tier.tier(KV_BLOCK_BYTES) for tier in tiers))
        pool = Pool(replicas, scheduler, PlainTime(), tiers, KV_BLOCK_BYTES)  # type: ignore[arg-type]
        fleet = Fleet(FleetConfig((pool,), "least-work"), on_record, out)
        fleet.run(workload)
    return records, fleet


def events(path: Path) -> list[dict[str, Any]]:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return json.loads(raw)["traceEvents"]


def slices(found: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    by_process = defaultdict(list)
    for event in found:
        if event["ph"] == "X":
            by_process[event["pid"]].append(event)
    return by_process


@settings(max_examples=30, deadline=None)
@given(workload=workloads(), tiers=st.sampled_from([(), (SLOW,)]))
def test_events_add_up_to_the_run_and_change_nothing(
    workload: Workload, tiers: tuple[TierMemory, ...], tmp_path_factory
) -> None:
    path = tmp_path_factory.mktemp("trace") / "t.json"
    records, fleet = observed(workload, path, replicas=2, tiers=tiers)
    plain = run(workload, replicas=2, router="least-work", tiers=tiers)
    assert [r.end_ns for r in records] == [r.end_ns for r in plain.records]
    found = events(path)
    steps = slices(found)
    for replica in fleet.replicas:
        own = steps[process(replica.index)]
        assert sum(e["args"]["steps"] for e in own) == replica.executor.num_steps
        assert sum(e["args"]["device_ns"] for e in own) == replica.executor.device_ns
        assert all(b["ts"] >= a["ts"] + a["dur"] - ROUNDING_US for a, b in pairwise(own)), "one step at a time"
    every = [e for own in steps.values() for e in own]
    computed = sum(r.receipt.tokens_computed for r in records)
    assert sum(e["args"]["tokens"] * e["args"]["steps"] for e in every) == computed
    check_requests(found, records)
    last = {(e["pid"], e["name"]): e["args"] for e in found if e["ph"] == "C"}
    assert all(not sum(args.values()) for (_, name), args in last.items() if name == "requests")


def check_requests(found: list[dict[str, Any]], records: list[Record]) -> None:
    """Each is there once; its phases follow each other inside of it, and begins match ends."""
    by_id = defaultdict(list)
    for event in found:
        if event["ph"] in ("b", "e") and event["cat"] == "request":
            by_id[event["id"]].append(event)
    assert len(by_id) == len(records)
    for own, record in zip(by_id.values(), records, strict=True):
        open_names: list[str] = []
        for event in own:
            if event["ph"] == "b":
                open_names.append(event["name"])
            else:
                assert open_names.pop() == event["name"]
        assert not open_names
        assert own[0]["name"] == record.call.id
        assert own[0]["pid"] == process(record.replica)
        assert own[0]["ts"] == pytest.approx(record.arrival_ns / 1000)
        assert own[-1]["ts"] == pytest.approx(record.end_ns / 1000)
        assert all(b["ts"] >= a["ts"] - ROUNDING_US for a, b in pairwise(own))


def test_steps_are_named_by_what_they_do(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    observed(lone((0.0, 40, 30), (0.012, 33, 2)), path)
    names = [e["name"] for e in slices(events(path))[process(0)]]
    # 40 tokens are two chunks of at most 32; so are 33, the second of one token that draws.
    assert names[:2] == ["prefill", "prefill"]
    assert names.count("mixed") == 2
    assert set(names[2:]) == {"decode", "mixed"}
    jumped = [e for e in slices(events(path))[process(0)] if e["args"]["steps"] > 1]
    assert jumped
    assert all(e["name"] == "decode" and e["args"]["bound"] == "compute" for e in jumped)


def test_transfers_have_tracks_of_their_own(tmp_path: Path) -> None:
    """The last call comes when the first one's blocks have been put out, and fetches them."""
    shared, other = tuple(range(20)), tuple(range(100, 147))
    workload = lone((0.0, 80, 2), (1.0, 190, 2), (2.0, 80, 2), ids=(shared, other, shared))
    path = tmp_path / "t.json"
    observed(workload, path, tiers=(TierMemory("dram", 100 * KV_BLOCK_BYTES, bytes_per_s=1e6),))
    moved = [e for e in events(path) if e.get("cat") == "transfer"]
    begins = {e["id"]: e for e in moved if e["ph"] == "b"}
    ends = {e["id"]: e for e in moved if e["ph"] == "e"}
    assert begins.keys() == ends.keys()
    assert {e["name"] for e in begins.values()} == {"save to dram", "load from dram"}
    for id, begin in begins.items():
        assert begin["args"]["ok"]
        took_s = (ends[id]["ts"] - begin["ts"]) / 1e6
        assert took_s == pytest.approx(begin["args"]["blocks"] * KV_BLOCK_BYTES / 1e6)


def test_a_refused_call_says_why(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    observed(lone((0.0, 500, 3)), path)
    begun = next(e for e in events(path) if e["ph"] == "b")
    assert begun["args"]["reason"] == "never_fits"
    assert "context of 200" in begun["args"]["refusal"]


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    workload = lone(*((i / 500, 20 + i, 9) for i in range(20)))
    for name in ("a.json", "b.json", "a.json.gz", "b.json.gz"):
        observed(workload, tmp_path / name)
    raw = {name: (tmp_path / name).read_bytes() for name in ("a.json", "b.json", "a.json.gz", "b.json.gz")}
    assert raw["a.json"] == raw["b.json"] == gzip.decompress(raw["a.json.gz"])
    assert raw["a.json.gz"] == raw["b.json.gz"]


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_a_limit_cuts_the_end_off(tmp_path: Path, limit: int) -> None:
    workload = lone(*((i / 500, 20 + i, 9) for i in range(20)))
    observed(workload, tmp_path / "all.json")
    observed(workload, tmp_path / "cut.json", limit=limit)
    cut = json.loads((tmp_path / "cut.json").read_bytes())
    assert 0 <= limit - cut["otherData"]["events"] < 8, "a request's events are written all or not"
    assert cut["traceEvents"] == events(tmp_path / "all.json")[: len(cut["traceEvents"])]
    assert cut["otherData"]["cut_at_s"] > 0


def test_an_error_leaves_no_file_and_an_interrupt_a_whole_one(tmp_path: Path) -> None:
    def broken(error: type[BaseException]) -> Any:
        yield from lone((0.0, 10, 3), (1.0, 10, 3)).sessions
        raise error("later")

    for error, left in ((WorkloadError, []), (KeyboardInterrupt, ["t.json"])):
        with pytest.raises(error):
            observed(Workload("broken", broken(error)), tmp_path / "t.json")
        assert [path.name for path in tmp_path.iterdir()] == left
    assert slices(events(tmp_path / "t.json"))[process(0)]


def called(*arguments: object) -> Result:
    return CliRunner().invoke(simulate, [str(argument) for argument in arguments])


def test_the_command_writes_it_and_says_when_it_is_cut(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.json", tmp_path / "cut.json.gz"
    result = called("--trace", AZURE, "--requests", 20, "--replicas", 2, "--trace-out", whole)
    assert result.exit_code == 0, result.output
    assert "cut" not in result.stderr
    assert {e["pid"] for e in events(whole)} == {process(0), process(1)}
    result = called("--trace", AZURE, "--requests", 20, "--trace-out", cut, "--trace-limit", 30)
    assert f"{cut}: cut after 30 events, at " in result.stderr
    assert "--trace-limit" in result.stderr


@pytest.mark.parametrize(
    ("option", "name"), [("--trace-out", "t.json"), ("--trace-out", "t.json.gz"), ("--out", "t.parquet")]
)
@pytest.mark.parametrize("requests", [3, 400])
def test_a_full_disk_gets_one_line_and_leaves_no_file(tmp_path: Path, option: str, name: str, requests: int) -> None:
    (tmp_path / f"{name}.part").symlink_to("/dev/full")
    result = called("--trace", AZURE, "--requests", requests, option, tmp_path / name)
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {tmp_path / name}: ")
    assert "No space left on device" in result.output
    assert not list(tmp_path.iterdir())


def test_bad_places_get_one_line(tmp_path: Path) -> None:
    for name, words in (("none/t.json", "there is no directory"), ("t.csv", "must end in .json")):
        result = called("--trace", AZURE, "--requests", 3, "--trace-out", tmp_path / name)
        assert result.exit_code == 2
        assert words in result.output
    (tmp_path / "t.json").write_text("mine")
    same = called("--trace", tmp_path / "t.json", "--trace-out", tmp_path / "." / "t.json")
    assert f"'{tmp_path / 't.json'}' is named by --trace too" in same.output


def test_a_real_runs_log_becomes_a_trace(tmp_path: Path) -> None:
    drive = Drive(real_config(), depth=2)
    for i in range(3):
        drive.add(request(f"r{i}", 20 + i, 6))
    drive.run()
    log, out = tmp_path / "log.jsonl", tmp_path / "t.json"
    log.write_bytes(b"".join(drive.log))
    result = called("--replay", log, "--trace-out", out)
    assert result.exit_code == 0, result.output
    found = events(out)
    assert {e["name"] for e in found if e["ph"] == "b"} >= {"r0", "r1", "r2", "prefill", "decode"}
    assert sum(e["args"]["steps"] for e in slices(found)[process(0)]) == drive.scheduler.stats().steps_total
    assert "--trace-out" in called("--replay", log, "--with", "chunk=8", "--trace-out", out).output
