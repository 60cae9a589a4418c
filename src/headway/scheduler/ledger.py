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


def share_beside(total: int, ones: int, weights: list[int]) -> Ints:
    """The same for `ones` rows of weight 1 and then those of `weights`: quicker where these are few."""
    weight_sum = ones + sum(weights)
    parts = [divmod(total * weight, weight_sum) for weight in (1, *weights)]
    rows = [ones, *[1] * len(weights)]
    missing = total - sum(whole * n for (whole, _), n in zip(parts, rows, strict=True))
    raised = [0] * len(parts)
    for i in sorted(range(len(parts)), key=lambda i: -parts[i][1]):
        raised[i] = min(missing, rows[i])
        missing -= raised[i]
    shares = np.empty(ones + len(weights), np.int64)
    shares[:ones] = parts[0][0]
    shares[: raised[0]] += 1
    shares[ones:] = [whole + more for (whole, _), more in zip(parts[1:], raised[1:], strict=True)]
    return shares


class Ledger:
    """Running totals of each slot since its owner took it: one row a quantity, one column a slot."""

    def __init__(self, max_running: int) -> None:
        self._totals = np.zeros((6, max_running), np.int64)
        self._device_ns, self._host_ns, self._steps, self._computed, self._drafted, self._accepted = self._totals

    def charge(self, slots: Ints, counts: Ints, num_decodes: int, device_ns: int, host_ns: int) -> None:
        """Divides a step among rows with `counts` tokens each: one each for the first `num_decodes`."""
        if num_decodes:
            others = counts[num_decodes:].tolist()
            self._device_ns[slots] += share_beside(device_ns, num_decodes, others)
            self._host_ns[slots] += share_beside(host_ns, num_decodes, others)
        else:
            self._device_ns[slots] += share(device_ns, counts)
            self._host_ns[slots] += share(host_ns, counts)
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
