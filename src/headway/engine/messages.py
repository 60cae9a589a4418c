"""What the HTTP process and an engine process say to each other: msgpack in length-prefixed frames, never pickle."""

from __future__ import annotations

from typing import Literal

import msgspec

from headway.scheduler.contract import RowLogprobs
from headway.scheduler.receipt import Receipt
from headway.scheduler.request import FinishReason, Sampling

PROTOCOL = 1
"""Both sides refuse another number in the handshake."""
MAX_FRAME_BYTES = 64 * 1024 * 1024


class Message(msgspec.Struct, frozen=True, tag=True):
    pass


# To the engine


class Submit(Message, frozen=True):
    id: str
    token_ids: bytes
    """Little-endian int32: the prompt, then what an earlier engine had already generated."""
    num_prompt_tokens: int
    max_tokens: int
    sampling: Sampling
    stop_token_ids: tuple[int, ...] = ()
    priority: int = 0
    session: str | None = None
    salt: bytes = b""
    timeout_ns: int | None = None
    """Ends as `expired` if it is still queued after this long."""


class Cancel(Message, frozen=True):
    id: str


class Finish(Message, frozen=True):
    """An ending decided outside: a stop string was found."""

    id: str
    reason: FinishReason = "stop"


class Drain(Message, frozen=True):
    """Exit once everything submitted has ended."""


# From the engine


class Ready(Message, frozen=True):
    protocol: int
    model: str
    vocab: int
    max_context: int
    block_size: int
    num_blocks: int
    max_running: int
    dtype: str
    device: str


class Failed(Message, frozen=True):
    """Instead of Ready: this engine can't start, and why, in one line for the user."""

    reason: str


class RowTokens(msgspec.Struct, frozen=True, array_like=True):
    """What one request drew in one step."""

    id: str
    token_ids: list[int]
    logprobs: RowLogprobs | None = None


class EngineStats(msgspec.Struct, frozen=True):
    """Gauges are as of now; totals only grow while this engine lives."""

    num_running: int = 0
    num_waiting: int = 0
    blocks_used: int = 0
    blocks_cached: int = 0
    blocks_total: int = 0
    tier_blocks: int = 0
    steps_total: int = 0
    preemptions_total: int = 0
    prefix_queries_total: int = 0
    """Prompt tokens looked up in the prefix cache."""
    prefix_hits_total: int = 0
    tokens_computed_total: int = 0
    drafts_total: int = 0
    drafts_accepted_total: int = 0
    blocks_loaded_total: int = 0


class Began(Message, frozen=True):
    """These requests ride in a step that is about to run: they have left the queue, and a crash may be their doing."""

    ids: list[str]


class Stepped(Message, frozen=True):
    rows: list[RowTokens]
    stats: EngineStats


class Ended(Message, frozen=True):
    """The last word on a request, unless it was refused."""

    id: str
    reason: FinishReason
    receipt: Receipt
    error: str | None = None


class Refused(Message, frozen=True):
    id: str
    kind: Literal["never_fits", "queue_full", "invalid"]
    reason: str


class Heartbeat(Message, frozen=True):
    """Sent while there is work and at least every few seconds, so that a hang is told from a long queue."""

    steps_total: int
    stats: EngineStats


ToEngine = Submit | Cancel | Finish | Drain
FromEngine = Ready | Failed | Began | Stepped | Ended | Refused | Heartbeat

_encoder = msgspec.msgpack.Encoder()
_to_engine = msgspec.msgpack.Decoder(ToEngine)
_from_engine = msgspec.msgpack.Decoder(FromEngine)
_LENGTH_BYTES = 4


def frame(message: Message) -> bytes:
    body = _encoder.encode(message)
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


class FrameError(ValueError):
    """The other side sent something that is not a frame of ours."""


class Frames:
    """Cuts a byte stream into messages. Holds at most one frame of `MAX_FRAME_BYTES`."""

    def __init__(self, direction: Literal["to_engine", "from_engine"]) -> None:
        self._buffer = bytearray()
        self._decoder = _to_engine if direction == "to_engine" else _from_engine

    def feed(self, data: bytes) -> list[Message]:
        """Raises FrameError on an oversized frame or a message that is not in the schema."""
        self._buffer += data
        messages: list[Message] = []
        at = 0
        while len(self._buffer) - at >= _LENGTH_BYTES:
            size = int.from_bytes(self._buffer[at : at + _LENGTH_BYTES], "big")
            if size > MAX_FRAME_BYTES:
                raise FrameError(f"a frame of {size} bytes is over the limit of {MAX_FRAME_BYTES}")
            end = at + _LENGTH_BYTES + size
            if len(self._buffer) < end:
                break
            try:
                messages.append(self._decoder.decode(bytes(self._buffer[at + _LENGTH_BYTES : end])))
            except msgspec.MsgspecError as error:
                raise FrameError(f"not a message of protocol {PROTOCOL}: {error}") from None
            at = end
        del self._buffer[:at]
        return messages
