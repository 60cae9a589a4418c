"""How sources write a replica's parallelism, as a cut of the model."""

from __future__ import annotations

import re

from headway.planner.truth.measurement import Layout

MOST_TENSOR = 8
"""Chips that cut every matrix."""
PROMPT_CHIPS = 4
_SPLIT = re.compile(r"P(\d+)xD(\d+)")
_DATA = re.compile(r"(?:1 \()?DP(\d+)\)?")


def layouts(tensor: str, expert: str, pipeline: str, chips: str = "") -> tuple[Layout, Layout] | None:
    """(prefill, decode). None where the columns say nothing that can be a cut. `chips`: of all replicas.

    `P4xD8` is four chips for prompts and eight for decoding; `DP8` is eight chips that each attend to sequences of
    their own, and so are tensor 1 and expert 1 on eight chips; tensor 4 and expert 1 on eight are two copies of the
    model. Where one row gives tensor 64 and expert 8, another row of the same run gives 8 and 8: the first number
    is their product. Tensor 1 with expert 8 is eight chips with data parallel attention; tensor 2 with expert 4 on four
    chips is the run that elsewhere is 2 and 2.
    """
    if split := _SPLIT.fullmatch(tensor):
        experts = _SPLIT.fullmatch(expert)
        dealt = (int(experts[1]), int(experts[2])) if experts else (1, 1)
        return _layout(int(split[1]), dealt[0]), _layout(int(split[2]), dealt[1])
    if data := _DATA.fullmatch(tensor):
        one = Layout(1, int(data[1]), int(data[1]))
        return one, one
    if not tensor.isdigit() or not 1 <= int(tensor) <= 1024:
        return None
    stages = int(pipeline) if pipeline.isdigit() else 1
    dealt_to = int(expert) if expert.isdigit() else 1
    tensors = int(tensor)
    if (dealt_to > 1 and tensors == dealt_to * dealt_to) or (tensors, dealt_to) == (64, 8):
        tensors = dealt_to
    groups = int(chips) // tensors if chips.isdigit() and stages <= 1 and dealt_to <= 1 else 1
    one = (
        Layout(tensors, groups if tensors == 1 else 1, groups)
        if groups > 1
        else _layout(tensors, dealt_to, max(1, stages))
    )
    return one, one


def _layout(tensor: int, expert: int, pipeline: int = 1) -> Layout:
    tensor = max(1, tensor)
    if expert <= 1:
        return Layout(tensor, 1, 1, pipeline)
    if tensor == 1:
        return Layout(1, expert, expert, pipeline)
    return Layout(tensor, tensor, 1, pipeline)


def parted(one: Layout) -> tuple[Layout, Layout]:
    """(prefill, decode) where a source says that all chips of a run with prompts computed apart cut every matrix, as
    InferenceX did in 2025: the largest power of two below their number decodes.
    """
    if one.tensor <= MOST_TENSOR or one.expert > 1 or one.pipeline > 1:
        return one, one
    decoding = 1 << (one.tensor - 1).bit_length() - 1
    return Layout(PROMPT_CHIPS), Layout(1, decoding, decoding)


def replicas(chips: str, prefill: Layout, decode: Layout) -> tuple[int, int] | None:
    """(for prompts, for decoding) that `chips` in all are: the fewest for prompts that leave whole replicas."""
    each = prefill.tensor * prefill.data, decode.tensor * decode.data
    left = int(chips) if chips.isdigit() else 0
    for prompts in range(1, left // each[0] + 1):
        rest = left - prompts * each[0]
        if rest and rest % each[1] == 0:
            return prompts, rest // each[1]
    return None
