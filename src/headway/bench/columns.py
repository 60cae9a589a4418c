"""The columns of `requests.parquet`: what each is, in which unit and, for times, since when."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

_TEXT, _INT, _FLOAT = pa.string(), pa.int64(), pa.float64()


class Column(NamedTuple):
    name: str
    type: pa.DataType
    unit: str
    description: str


COLUMNS = (
    Column("id", _TEXT, "", "of the request, unique in its run"),
    Column("session", _TEXT, "", "that the request belongs to; null: it stands alone"),
    Column("turn", _INT, "", "of the session, from 0"),
    Column("outcome", _TEXT, "", "what the answer is; only `ok` is in a figure"),
    Column("error", _TEXT, "", "why it is not `ok`"),
    Column("status", _INT, "", "of HTTP; null: no answer"),
    Column("retries", _INT, "", "tries after the first"),
    Column("retry_after_s", _FLOAT, "s", "the pause that the server asked for"),
    Column("asked_input_tokens", _INT, "tokens", "of the prompt, as the workload wants it"),
    Column("asked_output_tokens", _INT, "tokens", "of the answer, as the workload wants it"),
    Column("scheduled_s", _FLOAT, "s", "when it was due, since the start of the run"),
    Column("sent_s", _FLOAT, "s", "when the first try was sent, since the start of the run"),
    Column("connect_s", _FLOAT, "s", "how long a new connection took; null: one was at hand"),
    Column("headers_s", _FLOAT, "s", "when the head of the answer came, since `sent_s`"),
    Column("arrivals_s", pa.list_(_FLOAT), "s", "when text came, each arrival since `sent_s`; the first is the TTFT"),
    Column("end_s", _FLOAT, "s", "when the finish reason came, since `sent_s`: the time end to end"),
    Column("closed_s", _FLOAT, "s", "when the exchange was over, since `sent_s`"),
    Column("finish_reason", _TEXT, "", "in the server's word"),
    Column("num_chunks", _INT, "chunks", "that carried text"),
    Column("usage_prompt_tokens", _INT, "tokens", "of the prompt, by the server's usage"),
    Column("usage_output_tokens", _INT, "tokens", "of the answer, by the server's usage"),
    Column("cached_tokens", _INT, "tokens", "of the prompt that were in the cache, by the server's usage"),
    Column("text_tokens", _INT, "tokens", "in the text that came, by a tokenizer; null: there is none"),
    Column("output_tokens", _INT, "tokens", "of the answer, as the figures take them"),
    Column(
        "counted_by", _TEXT, "", "who counted these: `usage`, `text`, `chunks` (no tokens: chunks of text) or `none`"
    ),
    Column("usage_disagrees", pa.bool_(), "", "whether usage contradicts the text that came"),
    Column("receipt", _TEXT, "", "of `headway serve`, as JSON"),
)


def _field(column: Column) -> pa.Field:
    metadata = {"description": column.description} | ({"unit": column.unit} if column.unit else {})
    return pa.field(column.name, column.type, metadata=metadata)


SCHEMA = pa.schema([_field(column) for column in COLUMNS])
