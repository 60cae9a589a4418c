"""Divides every step among its rows. Law: shares are integers and add up to the step exactly."""

from __future__ import annotations

import numpy as np

from headway.scheduler.contract import Ints
from headway.scheduler.receipt import Receipt


def share(total: int, weights: Ints) -> Ints:
    """`total` in proportion to `weights` (not all 0), rounded by largest remainder, ties to the earlier."""
    weight_sum = int(weights.sum())
    shares, remainders = np.divmod(total * weights, weight_sum)
    missing = total - int(shares.sum())
    if missing:
        shares[np.argsort(-remainders, kind="stable")[:missing]] += 1
    return shares


_DEVICE_NS, _HOST_NS, _STEPS, _COMPUTED, _DRAFTED, _ACCEPTED = range(6)


class Ledger:
    """Running totals of each slot since its owner took it: one row a slot, one column a quantity."""

    def __init__(self, max_running: int) -> None:
        self._totals = np.zeros((max_running, 6), np.int64)

    def charge(self, slots: Ints, counts: Ints, device_ns: int, host_ns: int) -> None:
        """Divides a step among rows with `counts` tokens each."""
        self._totals[slots, _DEVICE_NS] += share(device_ns, counts)
        self._totals[slots, _HOST_NS] += share(host_ns, counts)
        self._totals[slots, _STEPS] += 1
        self._totals[slots, _COMPUTED] += counts

    def charge_decodes(self, slots: Ints, steps: int, device_ns: int, host_ns: int) -> None:
        """The same where every row has one token in each of `steps` steps."""
        device_each, device_left = divmod(device_ns, len(slots))
        host_each, host_left = divmod(host_ns, len(slots))
        self._totals[slots] += (device_each, host_each, steps, steps, 0, 0)
        if device_left:
            self._totals[slots[:device_left], _DEVICE_NS] += 1
        if host_left:
            self._totals[slots[:host_left], _HOST_NS] += 1

    def note_drafts(self, slots: Ints, drafted: Ints, drawing: Ints, accepted: Ints) -> None:
        self._totals[slots, _DRAFTED] += drafted
        self._totals[drawing, _ACCEPTED] += accepted

    def close(self, slot: int, before: Receipt) -> Receipt:
        """Adds the slot's totals to what its owner was charged in earlier slots, and clears them."""
        device_ns, host_ns, steps, computed, drafted, accepted = self._totals[slot].tolist()
        self._totals[slot] = 0
        return Receipt(
            device_share_ns=before.device_share_ns + device_ns,
            host_share_ns=before.host_share_ns + host_ns,
            steps=before.steps + steps,
            tokens_computed=before.tokens_computed + computed,
            tokens_drafted=before.tokens_drafted + drafted,
            tokens_accepted=before.tokens_accepted + accepted,
        )
