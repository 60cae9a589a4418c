"""Divides every step among its rows. Law: shares are integers and add up to the step exactly."""

from __future__ import annotations

import numpy as np

from headway.scheduler.contract import Ints
from headway.scheduler.receipt import Receipt


def share(total: int, weights: Ints, weight_sum: int) -> Ints:
    """`total` in proportion to `weights` (all positive), rounded down; what is left goes to the first, one each."""
    shares: Ints = total * weights // weight_sum
    shares[: total - int(shares.sum())] += 1
    return shares


class Ledger:
    """Running totals of each slot since its owner took it: one row a quantity, one column a slot."""

    def __init__(self, max_running: int) -> None:
        self._totals = np.zeros((6, max_running), np.int64)
        self._device_ns, self._host_ns, self._steps, self._computed, self._drafted, self._accepted = self._totals

    def charge(self, slots: Ints, counts: Ints, num_tokens: int, device_ns: int, host_ns: int) -> None:
        """Divides a step among rows with `counts` tokens each, `num_tokens` in all."""
        self._device_ns[slots] += share(device_ns, counts, num_tokens)
        self._host_ns[slots] += share(host_ns, counts, num_tokens)
        self._steps[slots] += 1
        self._computed[slots] += counts

    def charge_decodes(self, slots: Ints, steps: int, device_ns: int, host_ns: int) -> None:
        """The same where every row has one token in each of `steps` steps."""
        for totals, total in ((self._device_ns, device_ns), (self._host_ns, host_ns)):
            each, left = divmod(total, len(slots))
            totals[slots] += each
            totals[slots[:left]] += 1
        self._steps[slots] += steps
        self._computed[slots] += steps

    def note_drafts(self, slots: Ints, drafted: Ints, drawing: Ints, accepted: Ints) -> None:
        self._drafted[slots] += drafted
        self._accepted[drawing] += accepted

    def close(self, slot: int, before: Receipt) -> Receipt:
        """Adds the slot's totals to what its owner was charged in earlier slots, and clears them."""
        device_ns, host_ns, steps, computed, drafted, accepted = self._totals[:, slot].tolist()
        self._totals[:, slot] = 0
        return Receipt(
            device_share_ns=before.device_share_ns + device_ns,
            host_share_ns=before.host_share_ns + host_ns,
            steps=before.steps + steps,
            tokens_computed=before.tokens_computed + computed,
            tokens_drafted=before.tokens_drafted + drafted,
            tokens_accepted=before.tokens_accepted + accepted,
        )
