"""Draws at the end of each sampling row, and how many of its drafts they confirm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from headway.engine.logprobs import token_logprobs
from headway.engine.model import Model
from headway.engine.sampler import Draws, sample
from headway.engine.sampling_table import SamplingTable
from headway.scheduler.contract import Bools, Ints, RowLogprobs, StepOutcome, StepPlan, ints


@dataclass(slots=True)
class Verdict:
    """What a step's S sampling rows drew: accepted + 1 tokens each."""

    token_ids: Ints
    accepted: Ints
    """[S]."""
    failed: frozenset[int]
    """Slots."""
    logprobs: dict[int, RowLogprobs] = field(default_factory=dict)

    @classmethod
    def empty(cls) -> Verdict:
        return cls(ints(), ints(), frozenset())

    def rows(self) -> Iterator[Ints]:
        first = 0
        for count in (self.accepted + 1).tolist():
            yield self.token_ids[first : first + count]
            first += count

    def outcome(self, plan: StepPlan, device_ns: int) -> StepOutcome:
        return StepOutcome(
            number=plan.number,
            token_ids=self.token_ids,
            accepted=self.accepted if plan.drafts.any() else None,
            device_ns=device_ns,
            failed=np.array(sorted(self.failed), np.int64) if self.failed else None,
            logprobs=self.logprobs or None,
        )


def verify(
    model: Model, hidden: torch.Tensor, plan: StepPlan, token_ids: Ints, failed: Bools, table: SamplingTable
) -> Verdict:
    """hidden [T, hidden]; token_ids [T] with in-flight tokens filled in; failed [R] rows not to be drawn from."""
    sampling = np.flatnonzero(plan.samples)
    if not len(sampling):
        return Verdict(ints(), ints(), frozenset(plan.slots[failed].tolist()))
    draws, places = _draws(plan, sampling, token_ids)
    # Indexing copies: the logits of every token would be far larger than those of the drawn ones.
    logits = model.logits(hidden[torch.from_numpy(places).to(hidden.device)])
    widths = plan.drafts[sampling] + 1
    bad = failed.copy()
    bad[sampling] |= _not_finite(logits, widths)
    spoilt = np.repeat(bad[sampling], widths)
    if spoilt.any():
        logits[torch.from_numpy(spoilt).to(logits.device)] = 0.0
    drawn = sample(logits, draws, table)
    accepted = np.where(bad[sampling], 0, _accepted(drawn, draws, widths))
    kept = draws.depths <= np.repeat(accepted, widths)
    verdict = Verdict(drawn[kept], accepted, frozenset(plan.slots[bad].tolist()))
    _add_logprobs(verdict, logits, drawn, kept, draws, table)
    return verdict


def _draws(plan: StepPlan, sampling: Ints, token_ids: Ints) -> tuple[Draws, Ints]:
    """The draws, and the places [N] among the step's tokens whose logits they are drawn from."""
    widths = plan.drafts[sampling] + 1
    depths = np.arange(int(widths.sum())) - np.repeat(np.cumsum(widths) - widths, widths)
    before = plan.counts[sampling] - widths
    offsets = (np.cumsum(plan.counts) - plan.counts)[sampling]
    places = np.repeat(offsets + before, widths) + depths
    draws = Draws(
        slots=np.repeat(plan.slots[sampling], widths),
        positions=np.repeat(plan.starts[sampling] + before, widths) + depths + 1,
        depths=depths,
        read=token_ids[places],
    )
    return draws, places


def _not_finite(logits: torch.Tensor, widths: Ints) -> Bools:
    """[S]; infinities and NaN survive a sum."""
    bad = (~logits.sum(-1).isfinite()).cpu().numpy()
    result: Bools = np.add.reduceat(bad, np.cumsum(widths) - widths) > 0
    return result


def _accepted(drawn: Ints, draws: Draws, widths: Ints) -> Ints:
    """[S] drafts accepted: those before the first that differs from the draw at its place."""
    firsts = np.cumsum(widths) - widths
    confirmed = np.zeros(len(drawn), np.int64)
    confirmed[:-1] = (draws.depths[1:] > 0) & (draws.read[1:] == drawn[:-1])
    # At depth i the draw confirms draft i + 1; a row's count is its run of confirmations from depth 0.
    broken = np.where(confirmed == 1, widths.max(), draws.depths)
    accepted: Ints = np.minimum.reduceat(broken, firsts)
    return accepted


def _add_logprobs(
    verdict: Verdict, logits: torch.Tensor, drawn: Ints, kept: Bools, draws: Draws, table: SamplingTable
) -> None:
    wanted = kept & table.logprobs[draws.slots]
    for slot in np.unique(draws.slots[wanted]).tolist():
        if slot not in verdict.failed:
            places = np.flatnonzero(wanted & (draws.slots == slot))
            rows = logits[torch.from_numpy(places).to(logits.device)]
            entries = token_logprobs(rows, drawn[places], int(table.top_logprobs[slot]))
            verdict.logprobs[slot] = RowLogprobs(drawn=entries)
