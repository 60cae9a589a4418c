"""The columns of the per-request table: what each is and its unit, for whoever opens the file."""

from __future__ import annotations

import pyarrow as pa

from headway.simulator.record import COLUMNS

DESCRIPTIONS = {
    "id": "of the call, unique in its workload",
    "session": "that the call belongs to; null: it stands alone",
    "turn": "of the session, from 0",
    "replica": "that answered",
    "prefill_replica": "that computed the prompt and handed it over; null: the one that answered",
    "reason": "`stop`: a whole answer; `length`: cut at the token limit; else why it was refused",
    "arrival_s": "when the call was sent, since the start of the run; all other times are durations",
    "queue_s": "from arrival to the first step that it rode in",
    "prefill_s": "from then to the first token, recomputing after a preemption included",
    "decode_s": "from the first token to the last",
    "handover_s": "of the decode time, until the replica that answered took it up; null: no hand-over",
    "ttft_s": "from arrival to the first token, at the client",
    "tpot_s": "a token after the first, the mean of the answer; 0: fewer than two tokens",
    "e2e_s": "from arrival to the end, at the client",
    "network_s": "of the way to the fleet and back, in ttft_s and e2e_s",
    "input_tokens": "of the prompt",
    "output_tokens": "of the answer",
    "reused_tokens": "of the prompt, whose KV was in a cache",
    "computed_tokens": "that steps computed",
    "steps": "that the call rode in",
    "preemptions": "of the call",
    "device_share_ns": "its share, by tokens, of the device time of its steps",
    "host_share_ns": "its share of what those steps took beside device time",
    "energy_j": "its share of what the chips took; null: one publishes no power",
    "work_j": "what FLOPs and bytes account for in energy_j; null: not known",
    "cost_usd": "its share of the price of its replicas, by time; null: one has no price",
    "flops": "its share of its steps' FLOPs",
    "weight_bytes": "its share of the weights that its steps read",
    "kv_bytes": "KV that its steps read and wrote for it",
    "bound": "that most of its share of time was under",
}
UNITS = {"s": "s", "ns": "ns", "tokens": "tokens", "bytes": "bytes", "j": "J", "usd": "USD", "flops": "FLOP"}
"""By how a column's name ends."""
_TEXT = ("id", "session", "reason", "bound")


def _type(column: str) -> pa.DataType:
    if column in _TEXT:
        return pa.string()
    return pa.float64() if column.endswith(("_s", "_j", "_usd")) else pa.int64()


def _field(column: str) -> pa.Field:
    unit = UNITS.get(column.rpartition("_")[2])
    metadata = {"description": DESCRIPTIONS[column]} | ({"unit": unit} if unit else {})
    return pa.field(column, _type(column), metadata=metadata)


SCHEMA = pa.schema([_field(column) for column in COLUMNS])
