"""How engines were launched, as far as whoever measured says so.

InferenceX: SemiAnalysisAI/InferenceX, benchmarks/ of September 2025 to April 2026, the scripts of one node. Others: the
engines' defaults.
"""

from __future__ import annotations

import re

from headway.catalog import System
from headway.planner.truth.measurement import Measurement

_POLLS = (16, 10, 30)
"""Requests from which on SGLang looks for new ones every 30 steps (--scheduler-recv-interval), and every 10 below."""
_BALANCE_STEPS = 60
"""That TensorRT-LLM waits at most until each group that attends for itself has a prompt (timeout_iters)."""
_OLD_VLLM = re.compile(r"vllm 0\.(\d+)")


def narrow_cache(m: Measurement, system: System) -> bool:
    """Whether the cache is in fp8: TensorRT-LLM takes it so with quantised weights (gpt-oss' own do not ask for it),
    and InferenceX's scripts on chips that multiply in FP4 whatever the engine.
    """
    if m.weights in ("bf16", "int4"):
        return False
    newest = system.chip.fp4_flops_per_s is not None
    if m.engine == "trtllm":
        return newest or not m.model.startswith("gpt-oss")
    return newest and m.source.startswith("InferenceX")


def steps_unseen(m: Measurement, system: System) -> float:
    """Decode steps that pass on the average until an engine looks at a new request: half of the interval."""
    if not m.source.startswith("InferenceX") or m.apart:
        return 0.0
    if m.engine == "sglang" and system.chip.fp4_flops_per_s is not None:
        many, few_steps, many_steps = _POLLS
        return (many_steps if m.concurrency >= many else few_steps) / 2
    return _BALANCE_STEPS / 2 if m.engine == "trtllm" and m.decode.data > 1 else 0.0


def reads_all_experts(m: Measurement) -> bool:
    """Of a chip, whichever its tokens ask for. Inferred: steps of vLLM 0.11 and 0.12 with fp8 experts take as long for
    four requests as for twenty; grouped products that pad each expert's rows would do that (vllm-project/vllm#28422).
    """
    return m.weights == "fp8" and _is_old_vllm(m)


def waits_for_host(m: Measurement) -> bool:
    """Whether steps are scheduled while the device stands still. Inferred for vLLM up to 0.12."""
    return _is_old_vllm(m)


def _is_old_vllm(m: Measurement) -> bool:
    found = _OLD_VLLM.match(m.release)
    return found is not None and int(found[1]) <= 12
