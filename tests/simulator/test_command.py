"""`headway simulate`: what it prints, what it writes, what it says of mistakes, and what is left after Ctrl-C."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from headway.cli import main
from headway.cli.plan import plan
from headway.cli.si import plain, si
from headway.cli.simulate import simulate
from headway.simulator import simulation
from headway.simulator.record import COLUMNS
from tests.scheduler.drive import Drive, request
from tests.scheduler.drive import config as real_config

TRACES = Path(__file__).parents[1] / "data" / "traces"
AZURE = ("--trace", str(TRACES / "azure_conv.csv"))


def called(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, arguments)


def answer(*arguments: str) -> dict[str, Any]:
    result = called(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_a_trace_as_json() -> None:
    found = answer(*AZURE, "--requests", "100", "--replicas", "2", "--seed", "5", "--slo-ttft", "0.03")
    assert (found["calls"], found["finished"], found["chips"], found["seed"]) == (100, 100, 2, 5)
    assert found["cost_model"] == "floor"
    assert 0 < found["ttft_s"]["p50"] <= found["ttft_s"]["p99"] <= found["ttft_s"]["max"]
    assert 0 < found["goodput_share"] < 1
    assert found["charged_s"] == pytest.approx(found["busy_s"])
    assert sum(found["bound_share"].values()) == pytest.approx(1)


def test_text_says_the_same_and_what_is_assumed() -> None:
    text = called(*AZURE, "--requests", "20").output
    for word in ("TTFT", "TPOT", "ITL", "goodput", "bound", "J a token", "USD a million tokens", "floor"):
        assert word in text


@pytest.mark.parametrize("trace", ["mooncake_conversation.jsonl", "coding_agent_sessions.jsonl"])
def test_other_traces(trace: str) -> None:
    found = answer("--trace", str(TRACES / trace), "--requests", "30", "--router", "prefix", "--replicas", "2")
    assert found["calls"] >= 30
    assert found["finished"] > 20, "some sessions outgrow the context of the model"
    assert found["hit_rate"] > 0


def test_generated_workloads_and_seeds() -> None:
    arguments = ("--requests", "40", "--rate", "20", "--input-tokens", "300~0.5")
    one, again, other = (answer(*arguments, "--seed", seed) for seed in "112")
    assert one == again
    assert one["input_tokens"] != other["input_tokens"]
    agents = answer("--agents", "tracelab", "--sessions", "3", "--requests", "20", "--router", "session")
    assert agents["finished"] == agents["calls"] == 20


def test_sub_agents_of_traces_and_of_generators() -> None:
    recorded = answer("--trace", str(TRACES / "coding_agent_sub_agents.jsonl"), "--context", "131072")
    assert (recorded["calls"], recorded["finished"]) == (32, 32)
    arguments = ("--agents", "coding_agent", "--sessions", "1")
    without, those, forks = (
        answer(*arguments, *more) for more in ((), ("--sub-agents", "0.3"), ("--sub-agents", "0.3", "--fork"))
    )
    assert without["calls"] < those["calls"]
    assert forks["input_tokens"] > those["input_tokens"]


def test_goodput_is_told_only_against_an_slo() -> None:
    few = ("--requests", "5")
    assert not [key for key in answer(*few) if key.startswith("goodput")]
    assert "no SLO given" in called(*few).output
    assert answer(*few, "--slo-ttft", "0.5") == answer(*few, "--slo-ttft", "500ms")
    assert answer(*few, "--slo-ttft", "500ms")["goodput_share"] == 1
    assert answer(*few, "--slo-ttft", "1 ms")["goodput_share"] == 0


def test_a_refusal_says_what_did_not_fit() -> None:
    text = called("--requests", "3", "--context", "500").output
    assert "3 refused (never fits)" in text
    assert "never fits, the first: 5" in text
    assert "over the context of 500" in text


def test_quantities_have_three_digits_and_a_prefix() -> None:
    assert [si(v, "s", 3) for v in (0.00003964, 0.9996, 999.6, 0.0)] == ["39.6 µs", "1 s", "1,000 s (16.7 min)", "0 s"]
    assert si(1.033e7, "J", 3) == "10.3 MJ"
    assert [plain(v, "USD") for v in (7.907e5, 1.5, 0.00123, 2.88e-4)] == [
        "791,000 USD",
        "1.5 USD",
        "0.00123 USD",
        "288 µUSD",
    ]


def test_a_calibrated_step_is_slower_than_the_floor() -> None:
    floor = answer(*AZURE, "--requests", "30")
    fitted = answer(*AZURE, "--requests", "30", "--calibrated", "vllm")
    assert fitted["tpot_s"]["p50"] > floor["tpot_s"]["p50"]
    assert fitted["cost_model"] == "calibrated to vllm"
    assert floor["assumptions"] == []
    planned = CliRunner().invoke(plan, ["limits", "llama-3.1-8b", "--json"]).stdout
    [error] = [text for text in json.loads(planned)["assumptions"] if "TPOT is off by" in text]
    assert fitted["assumptions"] == [error]


def test_static_batching_and_reservation_are_heard() -> None:
    many = ("--requests", "60", "--rate", "1000", "--output-tokens", "10-400", "--max-running", "8")
    continuous, static = (answer(*many, "--batching", kind) for kind in ("continuous", "static"))
    assert static["duration_s"] > 1.2 * continuous["duration_s"]
    few_blocks = ("--requests", "40", "--rate", "1000", "--num-blocks", "300", "--max-output", "2000")
    on_demand, reserved = (answer(*few_blocks, "--reservation", kind) for kind in ("demand", "worst-case"))
    assert reserved["preemptions"] == 0
    assert reserved == answer(*few_blocks, "--reservation", "worst_case")
    assert reserved["queue_s"]["mean"] > on_demand["queue_s"]["mean"]


def test_the_table_adds_up_to_the_summary(tmp_path: Path) -> None:
    path = tmp_path / "calls.parquet"
    found = answer(*AZURE, "--requests", "50", "--out", str(path))
    table = pq.read_table(path)
    assert tuple(table.column_names) == COLUMNS
    column = {name: table[name].to_pylist() for name in COLUMNS}
    assert sum(column["output_tokens"]) == found["output_tokens"]
    assert sum(column["energy_j"]) == pytest.approx(found["energy_j"])
    assert sum(column["cost_usd"]) == pytest.approx(found["charged_usd"])
    # Weights of 8 billion parameters take 2 FLOPs each a token, and attention some more.
    assert all(
        2 * 6.9e9 < flops / n < 2 * 8.5e9 for flops, n in zip(column["flops"], column["computed_tokens"], strict=True)
    )
    assert set(column["bound"]) <= {"compute", "memory_bandwidth"}
    assert (sum(column["device_share_ns"]) + sum(column["host_share_ns"])) / 1e9 == pytest.approx(found["busy_s"])
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--trace", "/nowhere"), "/nowhere: No such file"),
        (("--model", "nope"), "model 'nope' is not known"),
        (("--model", "zzzzzzzzzzzz"), "is not known: `headway plan list` shows what is"),
        (("--system", "nope"), "system 'nope' is not known"),
        (
            ("--model", "deepseek-v3"),
            "no room for a KV block; cut the model over more chips (--tensor), store it in fewer bits (--weights)",
        ),
        (("--router", "nope"), "router must be one of round-robin"),
        (("--block-size", "48"), "--block-size must be a power of two"),
        (("--chunk", "8"), "--chunk (8) must be at least --max-running (256)"),
        (("--tensor", "3"), "tensor parallelism 3 does not divide 32 heads"),
        (("--calibrated", "nope"), "calibration 'h100-sxm/nope' is not known"),
        (("--input-tokens", "-1"), "lengths '-1' are not understood"),
        (("--weights", "fp3"), "number format 'fp3' is not known"),
        (("--rate", "nan"), "'nan' is not a number"),
        (("--host-gap", "nan"), "'nan' is not a time"),
        (("--speed", "nan"), "'nan' is not a number"),
        (("--rate", "1", "--concurrency", "2"), "--rate: not with --concurrency: choose an open or a closed loop"),
        ((*AZURE, "--rate", "1"), "--rate: not with --trace, which has times of its own"),
        ((*AZURE, "--agents", "tracelab"), "--agents: not with --trace"),
        (("--context", "200000", "--num-blocks", "100"), "--context must be at most the 1,600 tokens"),
        (("--context-parallel", "99999"), "2,667,375,474 KV blocks in each of 1 replicas: at most 16,777,216 in one"),
        (("--replicas", "4096", "--num-blocks", "40000"), "at most 16,777,216 in one and 134,217,728 in all"),
        (("--experts", "fp8"), "--experts fp8: llama-3.1-8b has no routed experts"),
        (("--slo-ttft", "0ms"), "slo-ttft"),
        (("--slo-ttft", "5m"), "slo-ttft"),
    ],
)
def test_a_mistake_gets_one_line(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    result = called(*arguments, "--out", str(tmp_path / "t.parquet"))
    assert result.exit_code in (1, 2)
    assert message in result.output
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_a_trace_that_turns_bad_leaves_nothing_half_written(tmp_path: Path) -> None:
    trace, out = tmp_path / "t.csv", tmp_path / "t.parquet"
    trace.write_text((TRACES / "azure_conv.csv").read_text() + "2023-11-16 19:00:00,-5,1\n")
    result = called("--trace", str(trace), "--out", str(out))
    assert result.exit_code == 1
    assert f"{trace}:402: ContextTokens must be a whole number" in result.output
    assert sorted(tmp_path.iterdir()) == [trace]


def test_after_an_interrupt_what_was_done_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = simulation.Results.add

    def interrupted(results: simulation.Results, record: Any) -> None:
        if results.num_records == 20:
            raise KeyboardInterrupt
        add(results, record)

    monkeypatch.setattr(simulation.Results, "add", interrupted)
    out = tmp_path / "t.parquet"
    result = called(*AZURE, "--out", str(out), "--json")
    found = json.loads(result.output)
    assert (result.exit_code, found["interrupted"]) == (130, True)
    assert found["calls"] == pq.read_table(out).num_rows == 20


# Replay


def real_log() -> list[bytes]:
    """Of a brain and a body that know tokens, with a shared prefix and a preemption."""
    drive = Drive(real_config(16), depth=2)
    drive.add(*(request(f"r{i}", 20, 12) for i in range(4)))
    drive.run()
    return drive.log


def test_a_log_is_replayed_and_a_changed_one_is_not(tmp_path: Path) -> None:
    log = real_log()
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"".join(log))
    found = json.loads(called("--replay", str(path), "--json").output)
    assert found["requests"] == 4
    assert found["steps"] > 10
    line = next(i for i, record in enumerate(log) if b'"event":"plan"' in record and b'"rows":4' in record)
    log[line] = log[line].replace(b'"rows":4', b'"rows":3')
    path.write_bytes(b"".join(log))
    result = called("--replay", str(path))
    assert result.exit_code == 1
    assert f"line {line + 1}: plan differs" in result.output


def test_a_log_that_breaks_off_is_replayed_up_to_there(tmp_path: Path) -> None:
    log, path = real_log(), tmp_path / "steps.jsonl"
    path.write_bytes(b"".join(log)[:-9])
    found = json.loads(called("--replay", str(path), "--json").output)
    assert found["cut_line"] == len(log)
    assert found["steps"] > 10
    assert f"line {len(log)}, the log's last, breaks off" in called("--replay", str(path)).output
    path.write_bytes(b"".join([*log[:5], log[5][:-9] + b"\n", *log[6:]]))
    assert "line 6: " in called("--replay", str(path)).output, "a torn line amid others is a mistake"


def test_a_replay_refuses_what_it_does_not_read(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"".join(real_log()))
    for options, unread in (
        (("--rate", "1", "--requests", "5"), "--rate, --requests"),
        (("--replicas", "2"), "--replicas"),
        (("--weights", "fp8"), "--weights"),
        (("--system", "hgx-h100", "--chunk", "64"), "--chunk"),
        (("--with", "chunk=64", "--model", "llama-3.1-8b"), "--model"),
        (("--with", "system=hgx-h100", "--kv", "fp8", "--chunk", "64"), "--chunk"),
    ):
        result = called("--replay", str(path), *options)
        assert result.exit_code == 2
        assert f"choose one: --replay LOG, which has a workload and a machine of its own, or {unread}" in result.output


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("chunk", "name=value is needed, with a name of prefix_cache, chunk, max_running, batching"),
        (",", "name=value is needed"),
        ("가=나", "name=value is needed"),
        ("chunk=", "--with chunk must be a whole number from 1 to 1,048,576, not ''"),
        ("chunk=1e3", "from 1 to 1,048,576, not '1e3'"),
        ("chunk=５", "from 1 to 1,048,576, not '５'"),
        ("max_running=65537", "--with max_running must be a whole number from 1 to 65,536"),
        ("blocks=99999999999999999999999999", "--with blocks must be a whole number from 1 to 16,777,216"),
        ("prefix-cache=maybe", "--with prefix_cache must be on or off, not 'maybe'"),
        ("chunk=64,chunk=64", "chunk is there twice"),
        ("chunk=2", "--with: chunk (2) must be at least max_running"),
        ("blocks=1", "with blocks=1 no request gets its whole answer"),
        ("system=nope", "system 'nope' is not known"),
    ],
)
def test_a_change_of_a_log_that_is_none_gets_one_line(changes: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"".join(real_log()))
    result = CliRunner().invoke(main, ["simulate", "--replay", str(path), "--with", changes])
    assert result.exit_code in (1, 2)
    [line] = result.stderr.splitlines()
    assert message in line


def test_changes_may_be_given_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"".join(real_log()))
    twice = called("--replay", str(path), "--with", "chunk=64", "--with", "chunk=32")
    assert "chunk is there twice" in twice.output
    path.write_text("{}")
    assert f"{path}: line 1: " in called("--replay", str(path), "--with", "chunk=64").output


def test_a_log_is_a_workload_too(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(b"".join(real_log()))
    found = answer("--trace", str(path), "--block-size", "4", "--model", "smollm2-135m")
    assert found["finished"] == 4
    assert found["input_tokens"] == 80
    assert found["hit_rate"] > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["simulate", "--out", ""], "--out: a value is needed, not ''"),
        (["simulate", "--agents", ""], "--agents: a value is needed"),
        (["simulate", "--calibrated="], "--calibrated: a value is needed"),
        (["report", "run", "--html", ""], "--html: a value is needed"),
        (["report", ""], "an argument: a value is needed"),
        (["serve", "--step-log", ""], "--step-log: a value is needed"),
        (["plan", "price", "llama-3.1-8b", "--price", ""], "--price: a value is needed"),
        (["simulate", "--rate", "1e-300"], "1e-06<=x<=1000000000.0"),
        (["simulate", "--speed", "1e-300"], "1e-06<=x<=1000000000.0"),
        (["simulate", "--concurrency", "1000000001"], "1<=x<=1000000"),
        (["simulate", "--num-blocks", "1000000000"], "--num-blocks"),
        (["simulate", "--kv-tier", "dram", "--no-prefix-cache"], "not with --no-prefix-cache"),
        (["simulate", "--kv-ttl", "5min", "--no-prefix-cache"], "not with --no-prefix-cache"),
        (["simulate", "--pool", "serves="], "serves needs a value"),
    ],
)
def test_what_means_nothing_is_one_line(arguments: list[str], words: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    [line] = result.stderr.splitlines()
    assert words in line


def test_where_nothing_came_out_no_token_has_a_price() -> None:
    arguments = ["simulate", "--requests", "2", "--rate", "100", "--fault", "replica=0,at=0", "--json"]
    summary = json.loads(CliRunner().invoke(main, arguments).stdout)
    assert (summary["output_tokens"], summary["failures"]) == (0, 1)
    assert summary.get("usd_per_mtok_output") is None
    assert summary.get("energy_j_per_output_token") is None
