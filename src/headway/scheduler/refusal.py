"""Why a request is not taken.

Refusal
 ├── NeverFits    it could not run even alone on an empty machine
 ├── QueueFull    come back later
 └── Invalid      it contradicts itself or repeats an id
"""

from __future__ import annotations

from typing import Literal


class Refusal(Exception):
    kind: Literal["never_fits", "queue_full", "invalid"]


class NeverFits(Refusal):
    kind = "never_fits"


class QueueFull(Refusal):
    kind = "queue_full"


class Invalid(Refusal):
    kind = "invalid"
