"""What passes between the brain and a body: a plan goes out, an outcome comes back.

A body keeps its own copy of every row and block table and applies a plan's changes in order: `released`, `admitted`,
`blocks`, then `loads` and `saves`, which end whenever it says so. It then runs the scheduled rows. All K and V of a
layer are written before any are read.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from headway.scheduler.request import Request

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

IN_FLIGHT = -1
"""In `StepPlan.token_ids`: the token that the row drew last, which the body has and the brain has not seen yet."""


DEVICE = ""
"""As the source of a save: the device's own memory."""


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


class Admitted(msgspec.Struct, frozen=True):
    """A slot gets a new owner, whose first `reused` tokens have their KV in the blocks listed in the same plan."""

    slot: int
    request: Request
    tokens: Ints
    """Every token known so far (prompt, then what was generated before a preemption or restart); empty without ids."""
    reused: int


class TableChange(msgspec.Struct, frozen=True):
    """New entries of one cache group's block tables: `table[slots[i], indices[i]] = blocks[i]`. Equal lengths."""

    slots: Ints
    indices: Ints
    blocks: Ints


class Load(msgspec.Struct, frozen=True):
    """Fill `blocks[g]` of each cache group g from a slower tier. The body answers with `arrived(transfer, ok)`."""

    transfer: int
    keys: tuple[bytes, ...]
    tier: str
    blocks: tuple[Ints, ...]
    sources: Ints
    """The tier's blocks, one a key; empty where the tier is not this brain's own and is known by its facts only."""


class Save(msgspec.Struct, frozen=True):
    """Copy KV into blocks `targets` of `tier`, one a key. Nobody writes to either side until the body answers with
    `arrived(transfer, ok)`.
    """

    transfer: int
    keys: tuple[bytes, ...]
    source: str
    """A tier, or DEVICE."""
    blocks: tuple[Ints, ...]
    """Of the device, an array for each cache group; of a tier, one array."""
    tier: str
    targets: Ints


class PrefixGroup(msgspec.Struct, frozen=True):
    """Rows whose block tables begin with the same `blocks` blocks (first cache group): a kernel may read them once."""

    slots: Ints
    blocks: int


class StepPlan(msgspec.Struct, frozen=True):
    """One pass of the model over a set of tokens. R rows, T tokens; rows stand in batch order."""

    number: int
    slots: Ints
    """[R] the scheduled rows."""
    starts: Ints
    """[R] position of each row's first token in this step."""
    counts: Ints
    """[R] tokens of each row in this step, drafts included; T is their sum."""
    drafts: Ints
    """[R] how many of a row's tokens, its last ones, are drafts to verify."""
    samples: Bools
    """[R] whether the row draws: one token after its last token, or up to drafts + 1 when drafts are accepted."""
    token_ids: Ints
    """[T] row by row; `IN_FLIGHT` stands for the row's last drawn token."""
    released: Ints
    admitted: tuple[Admitted, ...]
    blocks: tuple[TableChange, ...]
    """One for each cache group."""
    loads: tuple[Load, ...]
    saves: tuple[Save, ...]
    prefix_groups: tuple[PrefixGroup, ...]
    repeats: int
    """How many times this plan could run if no event came: at least 1."""

    def digest(self) -> str:
        """128 bits over every decision in the plan, equal on every machine."""
        h = blake2b(digest_size=16)
        _feed(h, self.number, self.repeats)
        for array in (
            self.slots,
            self.starts,
            self.counts,
            self.drafts,
            self.samples,
            self.token_ids,
            self.released,
        ):
            _feed(h, array)
        for a in self.admitted:
            _feed(h, a.slot, a.request.id, a.tokens, a.reused)
        for change in self.blocks:
            _feed(h, change.slots, change.indices, change.blocks)
        for load in self.loads:
            _feed(h, load.transfer, load.tier, len(load.keys), *load.blocks, load.sources)
        for save in self.saves:
            _feed(h, save.transfer, save.source, *save.blocks, save.tier, save.targets)
        for group in self.prefix_groups:
            _feed(h, group.slots, group.blocks)
        return h.hexdigest()


def _feed(h: Any, *values: int | str | npt.NDArray[Any]) -> None:
    for value in values:
        if isinstance(value, np.ndarray):
            raw = value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
        else:
            raw = str(value).encode()
        h.update(len(raw).to_bytes(8, "little") + raw)


class TokenLogprobs(msgspec.Struct, frozen=True):
    """Log-probabilities at one position: of the token there, and the `top` best as (token id, logprob) pairs."""

    token_id: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...]


class RowLogprobs(msgspec.Struct, frozen=True):
    """What a row asked to see: one entry a drawn token, and one a prompt position computed in this step."""

    drawn: tuple[TokenLogprobs, ...] = ()
    prompt: tuple[TokenLogprobs, ...] = ()


class StepOutcome(msgspec.Struct, frozen=True):
    """What a plan gave. S is the number of the plan's rows that sample, in batch order."""

    number: int
    token_ids: Ints
    """Drawn tokens: [S] for one step; [steps * S], step by step, when repeated; row by row with drafts."""
    accepted: Ints | None = None
    """[S] drafts accepted, where the plan had drafts: the row drew accepted + 1 tokens."""
    steps: int = 1
    device_ns: int = 0
    submitted_ns: int = 0
    done_ns: int = 0
    """When the step loop handed the plan over and when it had the outcome: for the log, unread by the brain."""
    failed: Ints | None = None
    """Slots whose result is unusable (for one, logits that are not finite); they end with reason `error`."""
    error: str | None = None
    """Why nothing was computed (out of memory); every scheduled row ends with reason `error`."""
    logprobs: dict[int, RowLogprobs] | None = None
    """By slot. Passes through the brain unread."""


class WakeAt(msgspec.Struct, frozen=True):
    """Nothing to run now, but call `plan` again at this time if no event comes before."""

    time_ns: int


class Executor(Protocol):
    """A body's hands. Plans are collected in the order in which they were submitted."""

    def submit(self, plan: StepPlan) -> None: ...

    def collect(self) -> StepOutcome: ...
