"""What users see of a replica that serves a steady number of requests: prompts among decode steps, and the queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from headway.arithmetic.experts import FloatArray
from headway.arithmetic.spans import Ints
from headway.planner.lengths import Lengths
from headway.planner.prompts import PromptCost
from headway.roofline import BOUNDS, Calibration, Coefficients, Serving, StepCost
from headway.roofline.serving import Served, served_s
from headway.roofline.terms import Terms

PERFECT = Serving()


@dataclass(frozen=True, slots=True)
class Load:
    """[N], a batch each."""

    tpot_s: FloatArray
    ttft_s: FloatArray
    tokens_per_s: FloatArray
    """Output of the replica."""
    bounds: tuple[str, ...]

    def part(self, start: int, end: int) -> Load:
        each = slice(start, end)
        return Load(self.tpot_s[each], self.ttft_s[each], self.tokens_per_s[each], self.bounds[each])


@dataclass(frozen=True, slots=True)
class Steps:
    """Of one cut: what each of N batches' decode steps costs, and a prompt."""

    batch: Ints
    decode: StepCost
    prompt: PromptCost


def mixed(found: Sequence[Steps], lengths: Lengths, fitted: Calibration | None) -> list[Load]:
    """One for each cut. Prompts ride in the decode steps of the same chips: each step carries (batch - 1) / output of
    one.

    The floor hides arithmetic behind reading and reads the weights once for both; a fit adds what was measured. By
    Little's law a request is there for batch / rate, and never do the chips give more time than there is.
    """
    batch = np.concatenate([s.batch for s in found])
    step_s = np.concatenate([s.decode.step_s for s in found])
    alone_s = np.concatenate([np.full(len(s.batch), s.prompt.alone_s) for s in found])
    each_s = np.concatenate([np.full(len(s.batch), s.prompt.each_s) for s in found])
    riding = [s.decode.busy_s + (s.batch - 1) / lengths.output * s.prompt.busy_s[:, None] for s in found]
    busy_s = np.concatenate(riding, axis=1)
    serving = fitted.serving if fitted else PERFECT
    if fitted is None:
        step_s = np.max(busy_s, axis=0)
    tpot_s, ttft_s = _seen(step_s, alone_s, each_s, batch, lengths, serving, unmixed=fitted is None)
    there_s = ttft_s + (lengths.output - 1) * tpot_s
    if fitted is not None:
        there_s = np.maximum(there_s, batch * each_s + lengths.output * step_s / serving.tokens_per_step)
    load = Load(tpot_s, ttft_s, batch * lengths.output / there_s, longest(busy_s))
    ends = np.cumsum([len(s.batch) for s in found]).tolist()
    return [load.part(start, end) for start, end in zip([0, *ends], ends, strict=False)]


def longest(busy_s: FloatArray) -> tuple[str, ...]:
    return tuple(BOUNDS[i] for i in np.argmax(busy_s, axis=0))


def _seen(
    step_s: FloatArray,
    alone_s: FloatArray,
    each_s: FloatArray,
    batch: Ints,
    lengths: Lengths,
    serving: Serving,
    unmixed: bool,
) -> tuple[FloatArray, FloatArray]:
    """(TPOT, TTFT) [N] by the rule that fits are fitted with."""
    n = len(batch)
    constants = asdict(Coefficients()) | asdict(replace(serving, prompt_factor=1.0))
    asked = Served(
        decode=_priced(step_s),
        prompt=_priced(alone_s),
        prompts=_priced(each_s),
        prompts_each=np.ones(n),
        in_flight=batch.astype(np.float64),
        waiting=np.zeros(n),
        prompt_tokens=np.full(n, float(lengths.new)),
        output_tokens=np.full(n, float(lengths.output)),
        first=np.zeros(n, bool),
        alone=np.zeros(n, bool),
        unmixed=np.full(n, unmixed),
        unseen_steps=np.zeros(n),
        waits_for_host=np.zeros(n, bool),
    )
    return served_s(asked, constants), served_s(replace(asked, first=np.ones(n, bool)), constants)


def _priced(seconds: FloatArray) -> Terms:
    """Steps whose time is known, [N]: one operation that takes all of it."""
    nothing = np.zeros(len(seconds))
    kinds = np.zeros((len(seconds), 1), np.int64)
    known: dict[str, Any] = {"compute_s": seconds[:, None], "memory_s": nothing[:, None], "kind": kinds, "rate": kinds}
    return Terms(
        **(dict.fromkeys(Terms.__slots__, nothing) | known | {"rows": nothing + 1, "expert_rows": nothing + 1})
    )
