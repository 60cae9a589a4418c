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


class Ledger:
    """Running totals of each slot since its owner took it."""

    def __init__(self, max_running: int) -> None:
        self.device_ns = np.zeros(max_running, np.int64)
        self.host_ns = np.zeros(max_running, np.int64)
        self.steps = np.zeros(max_running, np.int64)
        self.computed = np.zeros(max_running, np.int64)
        self.drafted = np.zeros(max_running, np.int64)
        self.accepted = np.zeros(max_running, np.int64)

    def charge(self, slots: Ints, counts: Ints, device_ns: int, host_ns: int) -> None:
        self.device_ns[slots] += share(device_ns, counts)
        self.host_ns[slots] += share(host_ns, counts)
        self.steps[slots] += 1
        self.computed[slots] += counts

    def charge_decodes(self, slots: Ints, steps: int, device_ns: int, host_ns: int) -> None:
        """The same where every row has one token a step."""
        for account, total in ((self.device_ns, device_ns), (self.host_ns, host_ns)):
            each, left = divmod(total, len(slots))
            account[slots] += each
            account[slots[:left]] += 1
        self.steps[slots] += steps
        self.computed[slots] += steps

    def close(self, slot: int, before: Receipt) -> Receipt:
        """Adds the slot's totals to what its owner was charged in earlier slots, and clears them."""
        receipt = Receipt(
            device_share_ns=before.device_share_ns + int(self.device_ns[slot]),
            host_share_ns=before.host_share_ns + int(self.host_ns[slot]),
            steps=before.steps + int(self.steps[slot]),
            tokens_computed=before.tokens_computed + int(self.computed[slot]),
            tokens_drafted=before.tokens_drafted + int(self.drafted[slot]),
            tokens_accepted=before.tokens_accepted + int(self.accepted[slot]),
        )
        for account in (self.device_ns, self.host_ns, self.steps, self.computed, self.drafted, self.accepted):
            account[slot] = 0
        return receipt
