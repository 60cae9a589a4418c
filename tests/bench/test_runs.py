"""Whole runs on a virtual clock: warm-up, sweeps, files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headway.bench.client import ClientSettings
from headway.bench.context import context_of
from headway.bench.load import Load, Pace
from headway.bench.record import Record
from headway.bench.results import REQUESTS, RUN, ResultError, read_records, read_run, write_run
from headway.bench.run import Bench, Run
from headway.bench.slo import Slo
from headway.bench.summary import objections, summarise
from headway.bench.sweep import Point, sweep
from headway.bench.words import WORDS
from headway.report.cases import case_of
from headway.workload.call import Call, Workload
from tests.bench.asking import client
from tests.bench.scripted import RESET, Server, answer, body, text, usage, whole
from tests.bench.virtual import run


def calls(number: int, concurrency: int) -> Workload:
    return Workload("w", [(Call(f"c{i}", 40, 3),) for i in range(number)], concurrency=concurrency)


def measured(
    server: Server, number: int = 6, concurrency: int = 2, warmup: int = 2, slo: Slo | None = None
) -> tuple[Run, list[Record]]:
    settings = ClientSettings()

    async def whole_run() -> tuple[Run, list[Record]]:
        asking = client(server)
        bench = Bench(asking, settings, WORDS, None, 4, 9, Pace(), slo, warmup, on_record=seen.append)
        try:
            return await bench.run("here", calls(number, concurrency), {"seed": 0}, asyncio.Event())
        finally:
            asking.close()

    seen: list[Load] = []
    made = run(whole_run())
    assert len(seen) == number
    return made


def test_a_run_counts_what_came_after_the_warm_up() -> None:
    server = Server(lambda _: answer(1.0, [0.5, 0.5], prompt=40))
    made, records = measured(server)
    assert [body["max_tokens"] for _, body in server.requests] == [16] * 2 + [3] * 6
    prompts = [body["messages"][0]["content"] for _, body in server.requests]
    assert len(set(prompts)) == 8, "nothing measured was seen before"
    assert {len(prompt.split()) for prompt in prompts[2:]} == {36}, "the template's 4 tokens are part of the 40"
    assert (len(records), made.summary.outcomes) == (6, {"ok": 6})
    assert made.summary.measured_time_s == pytest.approx(6.0)
    assert made.summary.distributions["ttft_s"].mean == pytest.approx(1.0)
    assert made.summary.wrong_prompt_length == 0
    assert made.is_result


def test_a_run_without_a_good_answer_is_no_result() -> None:
    made, _ = measured(Server(lambda _: whole(500, b"")), warmup=0)
    assert made.objections == ["there is no good answer"]
    assert made.summary.failed == 6
    assert made.summary.errors == {"http_error: status 500: no body": 6}


def test_a_sweep_stops_at_the_first_load_that_breaks_the_slo() -> None:
    """A server whose answers take as long as it has requests open."""
    slo = Slo(ttft_s=3.0)
    loads: list[int] = []

    async def all_points() -> list[Run]:
        async def one(point: Point) -> tuple[Run, list[Record]]:
            loads.append(point.concurrency or 0)
            server = Server(lambda _: answer(float(point.concurrency or 0), []))
            asking = client(server)
            bench = Bench(asking, ClientSettings(), WORDS, None, 0, 9, Pace(), slo)
            made = await bench.run(point.name, calls(8, point.concurrency or 1), {}, asyncio.Event())
            asking.close()
            return made

        points = [Point(concurrency=n) for n in (1, 2, 4, 8, 16)]
        return await sweep(points, one, lambda point, run, _: kept.append((point.name, list(run.notes))), slo, stop)

    kept: list[tuple[str, list[str]]] = []
    stop = asyncio.Event()
    done = run(all_points())
    assert loads == [1, 2, 4]
    assert [made.summary.rates["slo_share"] for made in done] == [1.0, 1.0, 0.0]
    why = "stopped after concurrency 4: 0% within ttft <= 3 s, 90% needed; 8, 16 not run"
    assert kept == [("concurrency-1", []), ("concurrency-2", []), ("concurrency-4", [why])]


@pytest.mark.parametrize(
    ("points", "script", "why"),
    [
        ([2], answer(4.0, []), ["concurrency 2 breaks the SLO: 0% within ttft <= 3 s, 90% needed"]),
        ([2, 3], whole(500, b""), ["stopped after concurrency 2: it is no result; 3 not run"]),
        ([2], whole(500, b""), []),
        ([2], answer(3.0, []), []),
    ],
)
def test_a_run_says_why_it_is_the_last(points: list[int], script: Any, why: list[str]) -> None:
    async def one(point: Point) -> tuple[Run, list[Record]]:
        asking = client(Server(lambda _: script))
        bench = Bench(asking, ClientSettings(), WORDS, None, 0, 9, Pace(), Slo(ttft_s=3.0))
        made = await bench.run(point.name, calls(8, 2), {}, asyncio.Event())
        asking.close()
        return made

    async def whole_sweep() -> list[Run]:
        stop = asyncio.Event()
        return await sweep([Point(concurrency=n) for n in points], one, lambda *_: None, Slo(ttft_s=3.0), stop)

    assert run(whole_sweep())[-1].notes == why


@pytest.mark.parametrize(("failed", "objections"), [(1, 0), (2, 1), (20, 1)])
def test_a_run_of_which_more_than_a_twentieth_failed_is_no_result(failed: int, objections: int) -> None:
    made, _ = measured(
        Server(lambda number: whole(500, b"") if number < failed else answer(1.0, [0.5, 0.5])), number=21, warmup=0
    )
    assert len(made.objections) == objections
    if objections:
        assert made.objections[0].startswith(f"{100 * failed / 21:.4g}% of the requests failed (allowed 5%)")


def test_calls_that_a_failure_left_unmade_count_as_failed() -> None:
    summary = summarise([], [], None, abandoned_calls=9)
    assert summary.failed_share == 1.0
    made, records = measured(Server(lambda number: [RESET] if number == 0 else answer(1.0, [0.5, 0.5])), 20, warmup=0)
    assert made.summary.failed_share == 0.05
    assert made.objections == []
    assert summarise(records, [], None, abandoned_calls=5).failed_share == pytest.approx(6 / 25)
    assert objections(summarise(records, [], None, abandoned_calls=5), 1.0) == [
        "24% of the requests failed, or were not made as one before had failed (allowed 5%): what is left is not the "
        "load asked for"
    ]
    assert objections(summarise(records, [], None, abandoned_calls=5), 1.0, max_failed=0.3) == []


def complaint(text: str) -> Any:
    return whole(400, json.dumps({"error": {"message": text}}).encode(), "content-type: application/json")


@pytest.mark.parametrize(
    ("context", "text", "notes"),
    [
        (
            42,
            "no",
            [
                "6 requests were too long for the server, of 43 tokens or more with their output (its context is 42): "
                "--max-context 42 leaves out what is longer"
            ],
        ),
        (43, "no", []),
        (
            None,
            "model's context is 9",
            [
                "6 requests were too long for the server, of 43 tokens or more with their output "
                "(it says: status 400: model's context is 9): --max-context N leaves out what is longer"
            ],
        ),
        (None, "no such model", []),
    ],
)
def test_requests_beyond_the_servers_context_say_what_helps(context: int | None, text: str, notes: list[str]) -> None:
    async def whole_run() -> Run:
        asking = client(Server(lambda _: complaint(text)))
        bench = Bench(asking, ClientSettings(), WORDS, None, 4, 9, Pace(), context=context)
        made, _ = await bench.run("here", calls(6, 2), {}, asyncio.Event())
        asking.close()
        return made

    assert run(whole_run()).notes == notes


@pytest.mark.parametrize(
    ("card", "context"),
    [({"max_model_len": 8192}, 8192), ({"context_length": 5}, 5), ({"max_model_len": True}, None), ({}, None)],
)
def test_a_context_is_what_the_servers_card_says(card: dict[str, Any], context: int | None) -> None:
    assert context_of(card) == context


def mixed() -> tuple[Run, list[Record]]:
    scripts: list[Any] = [answer(1.0, [0.5, 0.5]), whole(429, b"", "retry-after: 1"), [RESET], answer(0.5, [])]
    return measured(Server(lambda number: scripts[number % 4]), number=8, warmup=0)


def test_files_hold_all_of_it(tmp_path: Path) -> None:
    made, records = mixed()
    records[0].receipt = {"queue_s": 0.25}
    write_run(tmp_path / "a" / "b", made, records)
    assert read_run(tmp_path / "a" / "b") == made
    assert read_records(tmp_path / "a" / "b") == records
    assert sorted(path.name for path in (tmp_path / "a" / "b").iterdir()) == [REQUESTS, RUN]


def test_without_usage_and_tokenizer_chunks_are_counted_and_a_note_says_so() -> None:
    """Three chunks of two words; the second of two runs tells more tokens than were asked for."""
    chunks = [text(" a b"), text(" c d"), text(" e f", "length")]
    for told in ([], [usage(40, 6)]):
        made, records = measured(Server(lambda _, told=told: body(*chunks, *told)), warmup=0)  # type: ignore[misc]
        assert {(record.output_tokens, record.counted_by) for record in records} == {(3, "chunks")}
        (note,) = [note for note in case_of(made).notes if "chunk" in note]
        assert note.startswith("6 answers came without a count of tokens that can be true")
        assert note.endswith("TPOT and tokens/s are of chunks")
    trusted, _ = measured(Server(lambda _: body(*chunks, usage(40, 3))), warmup=0)
    assert trusted.summary.counted_by == {"usage": 6}
    assert case_of(trusted).notes == ()


def test_every_column_is_described_in_the_file_and_in_the_docs(tmp_path: Path) -> None:
    write_run(tmp_path, *mixed())
    schema = pq.read_schema(tmp_path / REQUESTS)
    told = {field.name: {key.decode(): value.decode() for key, value in field.metadata.items()} for field in schema}
    page = (Path(__file__).parents[2] / "docs" / "bench.md").read_text()
    table = page.partition("| column | unit | |\n|---|---|---|\n")[2].partition("\n\n")[0].rstrip().splitlines()
    rows = [f"| `{name}` | {about.get('unit', '')} | {about['description']} |" for name, about in told.items()]
    assert rows == table
    for name, about in told.items():
        unit = name.rpartition("_")[2]
        assert about.get("unit") == {"s": "s", "tokens": "tokens", "chunks": "chunks"}.get(unit), name


def test_times_have_the_beginnings_that_their_columns_tell(tmp_path: Path) -> None:
    """Two clients: the second round is sent when the first is over, after 2 s."""
    write_run(tmp_path, *measured(Server(lambda _: answer(1.0, [0.5, 0.5])), number=4, warmup=0))
    rows = pq.read_table(tmp_path / REQUESTS).to_pylist()
    assert [(row["scheduled_s"], row["sent_s"]) for row in rows] == [(0.0, 0.0)] * 2 + [(2.0, 2.0)] * 2
    assert [(row["headers_s"], row["arrivals_s"], row["end_s"]) for row in rows] == [(0.0, [1.0, 1.5, 2.0], 2.0)] * 4


def test_a_table_without_descriptions_is_read(tmp_path: Path) -> None:
    """As an earlier version wrote it."""
    _, records = mixed()
    write_run(tmp_path, *mixed())
    table = pq.read_table(tmp_path / REQUESTS)
    bare = pa.schema([pa.field(field.name, field.type) for field in table.schema])
    pq.write_table(pa.Table.from_pylist(table.to_pylist(), schema=bare), tmp_path / REQUESTS)
    assert len(read_records(tmp_path)) == len(records)


def test_files_hold_no_prompt_answer_or_key(tmp_path: Path) -> None:
    made, records = measured(Server(lambda _: answer(1.0, [0.5, 0.5])))
    write_run(tmp_path, made, records)
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b" w1" not in everything
    assert b"api_key" not in everything


@pytest.mark.parametrize("content", [b"", b"{}", b'{"kind": "other"}', b"\xff", b"[" * 100_000])
def test_a_bad_result_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / RUN).write_bytes(content)
    (tmp_path / REQUESTS).write_bytes(content)
    for read in (read_run, read_records):
        with pytest.raises(ResultError, match=str(tmp_path)) as caught:
            read(tmp_path)
        assert "\n" not in str(caught.value)


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    made, records = mixed()
    write_run(tmp_path, made, records)
    later = json.loads((tmp_path / RUN).read_bytes()) | {"format": 99}
    (tmp_path / RUN).write_text(json.dumps(later))
    with pytest.raises(ResultError, match="format 99"):
        read_run(tmp_path)
