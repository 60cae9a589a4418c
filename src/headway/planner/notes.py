"""What holds of a model, its formats and what is asked of it, whatever the question: said among the assumptions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headway.arithmetic.formats import Precision
from headway.arithmetic.hf_quantization import chosen_precision, quantised, stored, stored_kv
from headway.arithmetic.shape import ModelShape


def shipped(config: Mapping[str, Any], model: ModelShape, counted: Precision) -> Iterator[str]:
    """`counted`: by default, since nobody named a format of the weights."""
    section = quantised(config)
    if not section:
        return
    method, found = section.get("quant_method"), stored(config, model)
    said = f"the model's file says that its weights are quantised (quant_method {method}"
    if found is None:
        yield f"{said}), not in which format that is known here; they are counted in {counted.named}: {_OTHERS}"
    elif counted.weights == chosen_precision(config, model, None, "bf16", None).weights:
        for part, name in found.others.items():
            yield f"{part.replace('_', ' ')} in {name} by the file is counted in {counted.weights.name}"
        yield f"{said}): they are counted as it says, in {counted.named}; {_OTHERS}"
    else:
        yield f"{said}); they are counted in {counted.named} all the same: {_OTHERS}"


def cache_as_stored(config: Mapping[str, Any]) -> Iterator[str]:
    """By default, since nobody named a format of the cache."""
    if (kv := stored_kv(config)) is not None:
        yield f"the cache is counted in {kv}, as the model's file says; --kv says another"


_OTHERS = "--weights and --experts say another"


def too_long(name: str, model: ModelShape, tokens: int) -> Iterator[str]:
    if model.max_context is not None and tokens > model.max_context:
        yield f"{tokens:,} tokens are more than {name} is made for ({model.max_context:,}): counted as if it were"


def in_formats(model: ModelShape, precisions: Sequence[Precision]) -> Iterator[str]:
    if any(layer.attention.state for layer, _ in model.layer_counts):
        held = dict.fromkeys(precision.state.name for precision in precisions)
        yield f"the state of linear layers is held in {', '.join(held)}, whatever the format of the cache"
    has_experts = any(layer.feed_forward.experts for layer, _ in model.layer_counts)
    narrow = [p.weights.name for p in precisions if p.rate == "fp4"]
    narrow += [p.of("experts").name for p in precisions if has_experts and p.rate_of("experts") == "fp4"]
    if narrow:
        yield (
            f"{', '.join(dict.fromkeys(narrow))} is multiplied at the chip's 4-bit rate, as if activations had 4 bits "
            "too (W4A4); at the next wider rate where the chip has none"
        )
