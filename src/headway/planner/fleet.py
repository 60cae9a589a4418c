"""Fleets: tokens over a model's life, transceivers, shares of the world's traffic."""

from __future__ import annotations

SECONDS_PER_DAY = 86400
CHINCHILLA_TOKENS_PER_PARAM = 20
"""Hoffmann and others, Training compute-optimal large language models, 2022."""


def lifetime_tokens(tokens_per_s: float, days: float) -> float:
    return tokens_per_s * days * SECONDS_PER_DAY


def served_over_optimal_training(tokens_served: float, active_params: float) -> float:
    """Tokens served in a life for each token that compute-optimal training would see."""
    return tokens_served / (CHINCHILLA_TOKENS_PER_PARAM * active_params)


def transceiver_w(chips: float, transceivers_per_chip: float, transceiver_power_w: float) -> float:
    return chips * transceivers_per_chip * transceiver_power_w


def share_of_traffic(tokens_per_s: float, all_tokens_per_s: float) -> float:
    return tokens_per_s / all_tokens_per_s
